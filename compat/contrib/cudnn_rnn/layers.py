"""cuDNN's recurrent layers, of ordinary operations."""

from collections.abc import Callable
from typing import Any, ClassVar

from compat.contrib.cudnn_rnn import parameters, saveables
from compat.contrib.rnn.cells import RNNCell, depth_of, unconverted

import tensorflow as tf

_DTYPES = (tf.float16, tf.float32, tf.float64)


class _CudnnRNN(tf.compat.v1.layers.Layer):
  """The base class of the layers.

  The variable is "opaque_kernel", with all parameters as cuDNN keeps them. In a
  checkpoint they stand under the names of compatible cells, too.
  """

  _rnn_mode = ""
  _states = 1
  _saveable_type: ClassVar[Any] = None

  def __init__(
    self,
    num_layers: int,
    num_units: int,
    input_mode: str = parameters.LINEAR_INPUT,
    direction: str = parameters.UNIDIRECTIONAL,
    dropout: float = 0.0,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    name: str | None = None,
  ):
    """Makes the layer; its variable is made by the first call.

    Args:
      num_layers: of one direction.
      num_units: the size of a layer's state.
      input_mode: "linear_input"; compat has no other.
      direction: "unidirectional" or "bidirectional".
      dropout: the share that is dropped between layers in training. What is
        dropped is not what cuDNN would drop.
      seed: of the dropout and of the first values.
      dtype: float16, float32 or float64.
      kernel_initializer: of each gate's weights [units, inputs]; glorot_uniform
        by default.
      bias_initializer: of each gate's biases [units]; zeros by default.
      name: of the variable's scope.

    Raises:
      ValueError: if an argument has another value.
    """
    super().__init__(dtype=dtype, name=name)
    parameters.check(direction, input_mode)
    if tf.as_dtype(dtype) not in _DTYPES:
      raise ValueError(
        f"dtype={dtype} must be float16, float32 or float64 in "
        f"{type(self).__name__}."
      )
    self._num_layers = num_layers
    self._num_units = num_units
    self._input_mode = input_mode
    self._direction = direction
    self._dropout = dropout
    self._seed = seed
    v1 = tf.compat.v1
    self._kernel_initializer = (
      kernel_initializer or v1.glorot_uniform_initializer(seed)
    )
    self._bias_initializer = bias_initializer or v1.zeros_initializer()
    self._layout: parameters.Layout | None = None
    self._saveable: Any = None

  @property
  def num_layers(self) -> int:
    """How many layers there are in one direction."""
    return self._num_layers

  @property
  def num_units(self) -> int:
    """The size of a layer's state."""
    return self._num_units

  @property
  def input_mode(self) -> str:
    """How the first layer uses its inputs."""
    return self._input_mode

  @property
  def input_size(self) -> int:
    """The size of the inputs, known once the layer is built."""
    return self._known_layout("input_size").input_size

  @property
  def rnn_mode(self) -> str:
    """The kind: "lstm", "gru", "rnn_tanh" or "rnn_relu"."""
    return self._rnn_mode

  @property
  def direction(self) -> str:
    """The name of the directions, "unidirectional" or "bidirectional"."""
    return self._direction

  @property
  def num_dirs(self) -> int:
    """How many directions there are."""
    return 2 if self._direction == parameters.BIDIRECTIONAL else 1

  @property
  def saveable(self) -> Any:
    """The saveable of its weights; None before the layer is built."""
    return self._saveable

  @property
  def canonical_weight_shapes(self) -> list[tuple[int, int]]:
    """The shapes of all weights, known once the layer is built."""
    return self._known_layout("canonical_weight_shapes").weight_shapes

  @property
  def canonical_bias_shapes(self) -> list[list[int]]:
    """The shapes of all biases, known once the layer is built."""
    return self._known_layout("canonical_bias_shapes").bias_shapes

  def _known_layout(self, name: str) -> parameters.Layout:
    if self._layout is None:
      raise RuntimeError(
        f"{type(self).__name__}.{name} is known only after the layer was "
        "built; call it before."
      )
    return self._layout

  def state_shape(self, batch_size: Any) -> Any:
    """Returns the shapes of the states.

    Args:
      batch_size: a number or a tensor.
    """
    layers = self._num_layers * self.num_dirs
    return ([layers, batch_size, self._num_units],) * self._states

  def build(self, input_shape: Any) -> None:
    """Makes the variable.

    Args:
      input_shape: [time, batch, depth].

    Raises:
      ValueError: if the inputs have not three dimensions, the last one known.
    """
    shape = tf.TensorShape(input_shape)
    if shape.rank != 3:
      raise ValueError(
        f"the inputs have the shape {shape}; {type(self).__name__} needs "
        "[time, batch, depth]."
      )
    self._layout = parameters.Layout(
      parameters.GATES[self._rnn_mode],
      self._num_layers,
      self._num_units,
      depth_of(shape),
      self.num_dirs,
    )
    self._opaque = self.add_weight(
      "opaque_kernel", [self._layout.size], initializer=self._first_values
    )
    self._add_saveable()
    self.built = True

  def _first_values(self, shape: Any, dtype: Any = None, **unused: Any) -> Any:
    del shape, unused
    layout = self._known_layout("kernel")
    make_weights, make_biases = self._kernel_initializer, self._bias_initializer
    weights = [make_weights(one, dtype) for one in layout.weight_shapes]
    biases = [make_biases(one, dtype) for one in layout.bias_shapes]
    return layout.join(weights, biases)

  def _add_saveable(self) -> None:
    """Lets a Saver store the parameters under the names of the cells."""
    if tf.executing_eagerly():
      return
    scope = tf.compat.v1.get_variable_scope()
    key = tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS
    name = "opaque_kernel_saveable"
    full = f"{scope.name}/{name}" if scope.name else name
    for known in tf.compat.v1.get_collection(key):
      if getattr(known, "name", None) == full:
        # Another layer has the same variable.
        self._saveable = known
        return
    self._saveable = self._saveable_type(
      self._opaque,
      self._num_layers,
      self._num_units,
      self.input_size,
      self._input_mode,
      self._direction,
      scope,
      name,
    )
    tf.compat.v1.add_to_collection(key, self._saveable)

  @unconverted
  def call(
    self,
    inputs: Any,
    initial_state: Any = None,
    sequence_lengths: Any = None,
    time_major: bool = True,
    training: bool = True,
  ) -> Any:
    """Runs the layers over a batch of sequences.

    Args:
      inputs: [time, batch, depth].
      initial_state: a tuple of the states, each [layers, batch, num_units],
        forward and backward layers in turn; zeros by default.
      sequence_lengths: [batch] integers; outputs after them are zeros. All
        sequences are as long as the inputs by default.
      time_major: False if inputs and outputs are [batch, time, ...].
      training: whether there is dropout.

    Returns:
      The outputs [time, batch, directions * num_units], and the states after
      each sequence's last step.

    Raises:
      TypeError: if the initial state is no tuple.
      ValueError: if the tuple has another length.
    """
    inputs = tf.convert_to_tensor(inputs, dtype=self.dtype)
    if not time_major:
      inputs = tf.transpose(inputs, [1, 0, 2])
    states = self._states_before(initial_state, inputs)
    layout = self._known_layout("call")
    weights, biases = layout.split(self._opaque)
    outputs, after = inputs, []
    for layer in range(layout.num_layers):
      if layer and training and self._dropout:
        outputs = tf.nn.dropout(outputs, self._dropout, seed=self._seed)
      sides = []
      for direction in range(layout.directions):
        place = layer * layout.directions + direction
        start = place * layout.parts
        step = _Step(
          self._step,
          self._states,
          weights[start : start + layout.parts],
          biases[start : start + layout.parts],
        )
        side, state = _run(
          step,
          outputs,
          tuple(one[place] for one in states),
          sequence_lengths,
          bool(direction),
        )
        sides.append(side)
        after.append(state)
      outputs = tf.concat(sides, 2)
    if not time_major:
      outputs = tf.transpose(outputs, [1, 0, 2])
    return outputs, tuple(tf.stack(parts) for parts in zip(*after, strict=True))

  def _states_before(self, initial_state: Any, inputs: Any) -> tuple[Any, ...]:
    if initial_state is None:
      (shape, *_) = self.state_shape(tf.shape(inputs)[1])
      return (tf.zeros(shape, inputs.dtype),) * self._states
    if not isinstance(initial_state, tuple):
      raise TypeError(
        f"initial_state is {initial_state}; {type(self).__name__} needs a "
        f"tuple of {self._states}."
      )
    if len(initial_state) != self._states:
      raise ValueError(
        f"initial_state has {len(initial_state)} parts; {type(self).__name__} "
        f"needs {self._states}."
      )
    return initial_state

  @staticmethod
  def _step(
    of_inputs: list[Any], of_state: list[Any], state: tuple[Any, ...]
  ) -> tuple[Any, ...]:
    """The new states, h first, of what each gate reads."""
    raise NotImplementedError


class _Step(RNNCell):
  """One layer's step as a cell that has its weights given.

  It takes what the gates read of the inputs, which is computed for all steps at
  once by `of_inputs`.
  """

  def __init__(
    self,
    step: Callable[..., Any],
    states: int,
    weights: list[Any],
    biases: list[Any],
  ):
    super().__init__()
    gates = len(weights) // 2
    self._states = states
    self._units: int = weights[-1].shape.as_list()[1]
    self._step = step
    self._gates = gates
    self._inputs = (tf.concat(weights[:gates], 0), tf.concat(biases[:gates], 0))
    self._state = (tf.concat(weights[gates:], 0), tf.concat(biases[gates:], 0))

  def of_inputs(self, inputs: Any) -> Any:
    """Returns the inputs' part of all gates, [time, batch, gates * units]."""
    weights, biases = self._inputs
    return tf.tensordot(inputs, weights, [[2], [1]]) + biases

  @property
  def state_size(self) -> Any:
    """The sizes of the states."""
    return (self._units,) * self._states

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._units

  def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
    """Runs one step."""
    del scope
    weights, biases = self._state
    of_state = tf.matmul(state[0], weights, transpose_b=True) + biases
    state = self._step(
      tf.split(inputs, self._gates, 1),
      tf.split(of_state, self._gates, 1),
      state,
    )
    return state[0], state


def _run(
  step: _Step, inputs: Any, state: Any, lengths: Any, backward: bool
) -> tuple[Any, Any]:
  """The outputs [time, batch, units], and the last states, of one direction."""
  if backward:
    inputs = _reversed(inputs, lengths)
  outputs, state = tf.compat.v1.nn.dynamic_rnn(
    step,
    step.of_inputs(inputs),
    lengths,
    initial_state=state,
    time_major=True,
  )
  return (_reversed(outputs, lengths) if backward else outputs), state


def _reversed(sequence: Any, lengths: Any) -> Any:
  if lengths is None:
    return tf.reverse(sequence, [0])
  return tf.reverse_sequence(sequence, lengths, seq_axis=0, batch_axis=1)


class CudnnLSTM(_CudnnRNN):
  """cuDNN's LSTM; its states are (h, c)."""

  _rnn_mode = "lstm"
  _states = 2
  _saveable_type = saveables.CudnnLSTMSaveable

  @staticmethod
  def _step(
    of_inputs: list[Any], of_state: list[Any], state: tuple[Any, ...]
  ) -> tuple[Any, ...]:
    i, f, j, o = (a + b for a, b in zip(of_inputs, of_state, strict=True))
    c = tf.sigmoid(f) * state[1] + tf.sigmoid(i) * tf.tanh(j)
    return tf.sigmoid(o) * tf.tanh(c), c


class CudnnGRU(_CudnnRNN):
  """cuDNN's GRU, whose reset gate comes after a product; its state is (h,)."""

  _rnn_mode = "gru"
  _saveable_type = saveables.CudnnGRUSaveable

  @staticmethod
  def _step(
    of_inputs: list[Any], of_state: list[Any], state: tuple[Any, ...]
  ) -> tuple[Any, ...]:
    reset = tf.sigmoid(of_inputs[0] + of_state[0])
    update = tf.sigmoid(of_inputs[1] + of_state[1])
    candidate = tf.tanh(of_inputs[2] + reset * of_state[2])
    return ((1 - update) * candidate + update * state[0],)


class CudnnRNNTanh(_CudnnRNN):
  """cuDNN's plain RNN with tanh; its state is (h,)."""

  _rnn_mode = "rnn_tanh"
  _saveable_type = saveables.CudnnRNNTanhSaveable

  @staticmethod
  def _step(
    of_inputs: list[Any], of_state: list[Any], state: tuple[Any, ...]
  ) -> tuple[Any, ...]:
    return (tf.tanh(of_inputs[0] + of_state[0]),)


class CudnnRNNRelu(_CudnnRNN):
  """cuDNN's plain RNN with relu; its state is (h,)."""

  _rnn_mode = "rnn_relu"
  _saveable_type = saveables.CudnnRNNReluSaveable

  @staticmethod
  def _step(
    of_inputs: list[Any], of_state: list[Any], state: tuple[Any, ...]
  ) -> tuple[Any, ...]:
    return (tf.nn.relu(of_inputs[0] + of_state[0]),)
