"""Cells around another cell."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

from compat.contrib.rnn.cells import (
  RNNCell,
  check_is_cell,
  depth_of,
  linear,
  unconverted,
)
from compat.private.op_registry import is_stateful

import tensorflow as tf


class _Wrapper(RNNCell):
  """Has the state and the output of the cell that it is put around."""

  def __init__(self, cell: Any, **kwargs: Any):
    check_is_cell(cell)
    super().__init__(**kwargs)
    self._cell = cell

  @property
  def state_size(self) -> Any:
    """The cell's."""
    return self._cell.state_size

  @property
  def output_size(self) -> Any:
    """The cell's."""
    return self._cell.output_size

  def zero_state(self, batch_size: Any, dtype: tf.DType) -> Any:
    """Returns the cell's state of zeros.

    Args:
      batch_size: a number or a tensor.
      dtype: of the state.
    """
    with tf.name_scope(f"{type(self).__name__}ZeroState"):
      return self._cell.zero_state(batch_size, dtype)


class EmbeddingWrapper(_Wrapper):
  """Gives a cell the embeddings of its inputs, which are numbers of words."""

  def __init__(
    self,
    cell: Any,
    embedding_classes: int,
    embedding_size: int,
    initializer: Any = None,
    reuse: bool | None = None,
  ):
    """Makes the wrapper; its variable is "embedding".

    Args:
      cell: an RNNCell.
      embedding_classes: how many words there are.
      embedding_size: what the cell gets.
      initializer: of the embedding. The scope's by default, or a uniform
        distribution of variance 1.
      reuse: whether the variable exists already, as tf.variable_scope says it.

    Raises:
      TypeError: if the cell is no RNNCell.
      ValueError: if a size is not positive.
    """
    super().__init__(cell, _reuse=reuse)
    if embedding_classes <= 0 or embedding_size <= 0:
      raise ValueError(
        f"embedding_classes={embedding_classes} and embedding_size="
        f"{embedding_size} must both be at least 1."
      )
    self._classes = embedding_classes
    self._size = embedding_size
    self._initializer = initializer

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch] or [batch, 1] integers.
      state: the cell's.
    """
    v1 = tf.compat.v1
    initializer = self._initializer or v1.get_variable_scope().initializer
    if initializer is None:
      edge = math.sqrt(3)
      initializer = v1.random_uniform_initializer(-edge, edge)
    embedding = v1.get_variable(
      "embedding",
      [self._classes, self._size],
      tf.nest.flatten(state)[0].dtype,
      initializer,
    )
    words = tf.reshape(inputs, [-1])
    return self._cell(v1.nn.embedding_lookup(embedding, words), state)


class InputProjectionWrapper(_Wrapper):
  """Gives a cell a projection of its inputs."""

  def __init__(
    self,
    cell: Any,
    num_proj: int,
    activation: Callable[..., Any] | None = None,
    input_size: int | None = None,
    reuse: bool | None = None,
  ):
    """Makes the wrapper; its variables are "kernel" and "bias".

    Args:
      cell: an RNNCell.
      num_proj: the size that the cell gets.
      activation: of the projection, none by default.
      input_size: unused; the inputs say it.
      reuse: whether the variables exist already, as tf.variable_scope says it.

    Raises:
      TypeError: if the cell is no RNNCell.
    """
    super().__init__(cell, _reuse=reuse)
    del input_size
    self._num_proj = num_proj
    self._activation = activation

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: the cell's.
    """
    projected = linear([inputs], self._num_proj)
    if self._activation:
      projected = self._activation(projected)
    return self._cell(projected, state)


class OutputProjectionWrapper(_Wrapper):
  """Projects a cell's outputs."""

  def __init__(
    self,
    cell: Any,
    output_size: int,
    activation: Callable[..., Any] | None = None,
    reuse: bool | None = None,
  ):
    """Makes the wrapper; its variables are "kernel" and "bias".

    Args:
      cell: an RNNCell.
      output_size: the size of the projection.
      activation: of the projection, none by default.
      reuse: whether the variables exist already, as tf.variable_scope says it.

    Raises:
      TypeError: if the cell is no RNNCell.
      ValueError: if the size is not positive.
    """
    super().__init__(cell, _reuse=reuse)
    if output_size < 1:
      raise ValueError(f"output_size={output_size} must be at least 1.")
    self._output_size = output_size
    self._activation = activation

  @property
  def output_size(self) -> int:
    """The size of the projection."""
    return self._output_size

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: the cell's.
      state: the cell's.
    """
    outputs, state = self._cell(inputs, state)
    projected = linear([outputs], self._output_size)
    if self._activation:
      projected = self._activation(projected)
    return projected, state


class HighwayWrapper(_Wrapper):
  """Mixes a cell's inputs into its outputs, by gates that read the inputs.

  Srivastava et al., "Highway Networks", 2015. Its variables are "carry_w" and
  "carry_b", and for a transform gate of its own "transform_w" and
  "transform_b", in the scope in which it is called.
  """

  def __init__(
    self,
    cell: Any,
    couple_carry_transform_gates: bool = True,
    carry_bias_init: float = 1.0,
  ):
    """Makes the wrapper.

    Args:
      cell: an RNNCell; its outputs are of the size of its inputs.
      couple_carry_transform_gates: whether outputs get what the carry gate
        leaves; else they have a gate.
      carry_bias_init: the first value of the carry gate's bias; the transform
        gate's is its negative.
    """
    super().__init__(cell)
    self._couple = couple_carry_transform_gates
    self._carry_bias_init = carry_bias_init

  def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
    """Runs one step.

    Args:
      inputs: the cell's.
      state: the cell's.
      scope: the cell's.
    """
    outputs, state = self._cell(inputs, state, scope=scope)
    return tf.nest.map_structure(self._mixed, inputs, outputs), state

  def _mixed(self, before: Any, after: Any) -> Any:
    carry = _gate("carry", before, self._carry_bias_init)
    if self._couple:
      transform = 1 - carry
    else:
      transform = _gate("transform", before, -self._carry_bias_init)
    return before * carry + after * transform


def _gate(name: str, inputs: Any, bias: float) -> Any:
  size, dtype = depth_of(inputs), inputs.dtype
  get = tf.compat.v1.get_variable
  weights = get(f"{name}_w", [size, size], dtype)
  initializer = tf.compat.v1.constant_initializer(bias)
  biases = get(f"{name}_b", [size], dtype, initializer)
  return tf.sigmoid(tf.matmul(inputs, weights) + biases)


class CompiledWrapper(_Wrapper):
  """Asks XLA to compile a cell's step; the results are the same."""

  def __init__(self, cell: Any, compile_stateful: bool = False):
    """Makes the wrapper.

    Args:
      cell: an RNNCell.
      compile_stateful: whether ops with a state, as random ones, are compiled
        too.
    """
    super().__init__(cell)
    self._compile_stateful = compile_stateful

  def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
    """Runs one step.

    Args:
      inputs: the cell's.
      state: the cell's.
      scope: the cell's.
    """
    with self._compiling():
      return self._cell(inputs, state, scope=scope)

  def _compiling(self) -> Any:
    if tf.executing_eagerly():
      return contextlib.nullcontext()
    return tf.xla.experimental.jit_scope(
      compile_ops=self._compile_stateful or _has_no_state
    )


def _has_no_state(node: Any) -> bool:
  """Whether an op (a NodeDef) has no state: is no variable nor random."""
  return not is_stateful(node.op)
