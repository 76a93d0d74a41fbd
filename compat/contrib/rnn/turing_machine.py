"""The neural Turing machine."""

import collections
import math
from typing import Any

from compat.contrib.rnn.cells import LayerRNNCell, unconverted

import tensorflow as tf

NTMControllerState = collections.namedtuple(
  "NTMControllerState",
  ("controller_state", "read_vector_list", "w_list", "M", "time"),
)


class NTMCell(LayerRNNCell):
  """A cell with a memory that it addresses by content and by place.

  Graves et al., "Neural Turing Machines", 2014; the first values are those of
  Collier and Beel, "Implementing Neural Turing Machines", 2018. Its variables
  are "parameters_kernel" and "parameters_bias" of what the controller asks the
  heads for, "output_kernel" and "output_bias", and the first values
  "initial_read_vector_0", ..., "initial_address_weights_0", ... and "memory".
  """

  def __init__(
    self,
    controller: Any,
    memory_size: int,
    memory_vector_dim: int,
    read_head_num: int,
    write_head_num: int,
    shift_range: int = 1,
    output_dim: int | None = None,
    clip_value: float = 20,
    dtype: tf.DType = tf.float32,
    name: str | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      controller: an RNNCell with a state (c, h).
      memory_size: how many places there are.
      memory_vector_dim: the size of a place.
      read_head_num: how many heads read.
      write_head_num: how many heads write.
      shift_range: how far a head moves in a step.
      output_dim: the size of the output; the inputs' by default.
      clip_value: limits what the heads are asked for, and the output.
      dtype: of the variables.
      name: of the variables' scope.
    """
    super().__init__(dtype=dtype, name=name)
    self.controller = controller
    self.memory_size = memory_size
    self.memory_vector_dim = memory_vector_dim
    self.read_head_num = read_head_num
    self.write_head_num = write_head_num
    self.output_dim = output_dim
    self.shift_range = shift_range
    self.clip_value = clip_value

  @property
  def _heads(self) -> int:
    return self.read_head_num + self.write_head_num

  @property
  def _asked_by_head(self) -> int:
    """Key, strength, gate, shifts and sharpness."""
    return self.memory_vector_dim + 2 * self.shift_range + 4

  @property
  def state_size(self) -> Any:
    """The sizes of all that is kept."""
    return NTMControllerState(
      controller_state=self.controller.state_size,
      read_vector_list=[self.memory_vector_dim] * self.read_head_num,
      w_list=[self.memory_size] * self._heads,
      M=tf.TensorShape([self.memory_size * self.memory_vector_dim]),
      time=tf.TensorShape([]),
    )

  @property
  def output_size(self) -> Any:
    """The size of the output; None if it is the inputs'."""
    return self.output_dim

  def zero_state(self, batch_size: Any, dtype: tf.DType) -> Any:
    """Returns the state before the first step.

    Args:
      batch_size: a number or a tensor.
      dtype: of the state.
    """
    size, places = self.memory_vector_dim, self.memory_size
    return NTMControllerState(
      controller_state=self.controller.zero_state(batch_size, dtype),
      read_vector_list=[
        tf.zeros([batch_size, size], dtype) for _ in range(self.read_head_num)
      ],
      w_list=[
        tf.zeros([batch_size, places], dtype) for _ in range(self._heads)
      ],
      M=tf.zeros([batch_size, places, size], dtype),
      time=0,
    )

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    if self.output_dim is None:
      self.output_dim = tf.TensorShape(inputs_shape).as_list()[1]
    size = self.memory_vector_dim
    asked = self._heads * self._asked_by_head + 2 * size * self.write_head_num
    outputs = self.controller.output_size
    told = outputs + size * self.read_head_num
    self._asking = self._dense("parameters", outputs, asked)
    self._telling = self._dense("output", told, self.output_dim)
    add = self.add_weight
    self._first_reads = [
      add(f"initial_read_vector_{head}", [1, size])
      for head in range(self.read_head_num)
    ]
    self._first_weights = [
      add(f"initial_address_weights_{head}", [1, self.memory_size])
      for head in range(self._heads)
    ]
    self._first_memory = add(
      "memory",
      [self.memory_size, size],
      initializer=tf.compat.v1.constant_initializer(1e-6),
    )
    self.built = True

  def _dense(self, name: str, rows: int, columns: int) -> tuple[Any, Any]:
    """The variables of a layer."""
    v1 = tf.compat.v1
    normal = v1.truncated_normal_initializer(stddev=1 / math.sqrt(rows))
    zeros = v1.zeros_initializer()
    return (
      self.add_weight(f"{name}_kernel", [rows, columns], initializer=normal),
      self.add_weight(f"{name}_bias", [columns], initializer=zeros),
    )

  def _limited(self, inputs: Any, layer: tuple[Any, Any]) -> Any:
    kernel, bias = layer
    return tf.clip_by_value(
      tf.nn.bias_add(tf.matmul(inputs, kernel), bias),
      -self.clip_value,
      self.clip_value,
    )

  @unconverted
  def call(self, x: Any, prev_state: Any) -> Any:
    """Runs one step.

    Args:
      x: the inputs, [batch, depth].
      prev_state: an NTMControllerState.
    """
    reads, weights, memory = self._before(prev_state, tf.shape(x)[0])
    told, controller_state = self.controller(
      tf.concat([x, *reads], 1), prev_state.controller_state
    )
    asked = self._limited(told, self._asking)
    of_heads = self._heads * self._asked_by_head
    weights = [
      self._addressed(head, before, memory)
      for head, before in zip(
        tf.split(asked[:, :of_heads], self._heads, 1), weights, strict=True
      )
    ]
    reads = [
      tf.reduce_sum(weight[:, :, tf.newaxis] * memory, 1)
      for weight in weights[: self.read_head_num]
    ]
    memory = self._written(
      asked[:, of_heads:], weights[self.read_head_num :], memory
    )
    output = self._limited(tf.concat([told, *reads], 1), self._telling)
    return output, NTMControllerState(
      controller_state=controller_state,
      read_vector_list=reads,
      w_list=weights,
      M=memory,
      time=prev_state.time + 1,
    )

  def _before(self, state: Any, batch: Any) -> tuple[Any, Any, Any]:
    """Reads, weights and memory; at the first step those that are learned."""
    is_first = tf.equal(state.time, 0)

    def either(learned: Any, given: Any) -> Any:
      return tf.where(is_first, tf.repeat(learned, batch, 0), given)

    return (
      [
        either(tf.tanh(learned), given)
        for learned, given in zip(
          self._first_reads, state.read_vector_list, strict=True
        )
      ],
      [
        either(tf.nn.softmax(learned), given)
        for learned, given in zip(
          self._first_weights, state.w_list, strict=True
        )
      ],
      either(self._first_memory[tf.newaxis], state.M),
    )

  def _addressed(self, asked: Any, before: Any, memory: Any) -> Any:
    """The weights [batch, places] with which a head looks at the memory."""
    size, far = self.memory_vector_dim, self.shift_range
    key, strength, gate, shifts, sharpness = tf.split(
      asked, [size, 1, 1, 2 * far + 1, 1], 1
    )
    key = tf.tanh(key)
    products = tf.linalg.matvec(memory, key)
    norms = tf.norm(memory, axis=2) * tf.norm(key, axis=1, keepdims=True)
    likeness = products / (norms + 1e-8)
    by_content = tf.nn.softmax(tf.nn.softplus(strength) * likeness)
    gate = tf.sigmoid(gate)
    mixed = gate * by_content + (1 - gate) * before
    shares = tf.split(tf.nn.softmax(shifts), 2 * far + 1, 1)
    places = [*range(far + 1), *range(-far, 0)]
    moved = tf.add_n(
      [
        share * tf.roll(mixed, place, 1)
        for share, place in zip(shares, places, strict=True)
      ]
    )
    sharpened = moved ** (tf.nn.softplus(sharpness) + 1)
    return sharpened / tf.reduce_sum(sharpened, 1, keepdims=True)

  def _written(self, asked: Any, weights: list[Any], memory: Any) -> Any:
    """The memory after the heads have erased and added."""
    parts = iter(tf.split(asked, 2 * self.write_head_num, 1))
    for weight in weights:
      erased = tf.sigmoid(next(parts))[:, tf.newaxis]
      added = tf.tanh(next(parts))[:, tf.newaxis]
      weight = weight[:, :, tf.newaxis]
      memory = memory * (1 - weight * erased) + weight * added
    return memory
