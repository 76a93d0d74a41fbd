"""Cells whose whole state is their output, and the LSTM of a search."""

from collections.abc import Callable
from typing import Any

from compat.contrib.rnn.cells import (
  InputSpec,
  LayerRNNCell,
  LSTMStateTuple,
  RNNCell,
  depth_of,
  linear,
  unconverted,
)

import tensorflow as tf


class UGRNNCell(RNNCell):
  """An RNN with one gate, between its state and a new one.

  Collins et al., "Capacity and Trainability in Recurrent Neural Networks",
  2016. Its variables are "kernel" [inputs + units, 2 * units], of gate and
  candidate, and "bias".
  """

  def __init__(
    self,
    num_units: int,
    initializer: Any = None,
    forget_bias: float = 1.0,
    activation: Callable[..., Any] = tf.tanh,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      initializer: of the kernel; the scope's by default.
      forget_bias: added to the gate.
      activation: of the candidate.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(_reuse=reuse)
    self._num_units = num_units
    self._initializer = initializer
    self._forget_bias = forget_bias
    self._activation = activation

  @property
  def state_size(self) -> int:
    """The size of the state."""
    return self._num_units

  @property
  def output_size(self) -> int:
    """The size of the state."""
    return self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: [batch, num_units].
    """
    gates = linear(
      [inputs, state],
      2 * self._num_units,
      kernel_initializer=self._initializer,
    )
    gate, candidate = tf.split(gates, 2, 1)
    gate = tf.sigmoid(gate + self._forget_bias)
    state = gate * state + (1 - gate) * self._activation(candidate)
    return state, state


class IntersectionRNNCell(RNNCell):
  """A gated RNN in time and, from inputs to outputs, in depth.

  Collins et al., "Capacity and Trainability in Recurrent Neural Networks",
  2016. Its variables are "kernel" [inputs + units, 4 * units] and "bias", and
  those of the scope "in_projection" where the inputs are projected.
  """

  def __init__(
    self,
    num_units: int,
    num_in_proj: int | None = None,
    initializer: Any = None,
    forget_bias: float = 1.0,
    y_activation: Callable[..., Any] = tf.nn.relu,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of state and output.
      num_in_proj: num_units, for inputs of another size.
      initializer: of the kernels; the scope's by default.
      forget_bias: added to both gates.
      y_activation: of the outputs' candidate.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(_reuse=reuse)
    self._num_units = num_units
    self._num_in_proj = num_in_proj
    self._initializer = initializer
    self._forget_bias = forget_bias
    self._y_activation = y_activation

  @property
  def state_size(self) -> int:
    """The size of the state."""
    return self._num_units

  @property
  def output_size(self) -> int:
    """The size of the output, the same."""
    return self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth]; depth is num_units unless num_in_proj is given.
      state: [batch, num_units].

    Raises:
      ValueError: if the inputs have another size.
    """
    depth, units = depth_of(inputs), self._num_units
    if depth != units:
      if not self._num_in_proj:
        raise ValueError(
          f"the inputs' depth is {depth}, and IntersectionRNNCell adds them to "
          f"its {units} units; give it num_in_proj={units}."
        )
      with tf.compat.v1.variable_scope("in_projection"):
        inputs = linear(
          [inputs], self._num_in_proj, kernel_initializer=self._initializer
        )
    gates = linear(
      [inputs, state], 4 * units, kernel_initializer=self._initializer
    )
    state_gate, new_state, output_gate, new_output = tf.split(gates, 4, 1)
    state_gate = tf.sigmoid(state_gate + self._forget_bias)
    output_gate = tf.sigmoid(output_gate + self._forget_bias)
    new_state = tf.tanh(new_state)
    new_output = self._y_activation(new_output)
    return (
      output_gate * inputs + (1 - output_gate) * new_output,
      state_gate * state + (1 - state_gate) * new_state,
    )


class SRUCell(LayerRNNCell):
  """The simple recurrent unit, whose gates do not read the state.

  Lei et al., "Training RNNs as Fast as CNNs", 2017. Its variables are "kernel"
  [inputs, 4 * units] of candidate, forget gate, reset gate and highway, and
  "bias" [2 * units] of the gates.
  """

  def __init__(
    self,
    num_units: int,
    activation: Callable[..., Any] | None = None,
    reuse: bool | None = None,
    name: str | None = None,
    **kwargs: Any,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      activation: of the output, tanh by default.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      name: of the variables' scope.
      **kwargs: a layer's, such as dtype.
    """
    super().__init__(_reuse=reuse, name=name, **kwargs)
    self._num_units = num_units
    self._activation = activation or tf.tanh
    self.input_spec = InputSpec(ndim=2)

  @property
  def state_size(self) -> int:
    """The size of the state."""
    return self._num_units

  @property
  def output_size(self) -> int:
    """The size of the output, the same."""
    return self._num_units

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    units = self._num_units
    self._kernel = self.add_weight(
      "kernel", [depth_of(inputs_shape), 4 * units]
    )
    self._bias = self.add_weight(
      "bias", [2 * units], initializer=tf.compat.v1.zeros_initializer()
    )
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: [batch, num_units].
    """
    candidate, forget, reset, highway = tf.split(
      tf.matmul(inputs, self._kernel), 4, 1
    )
    gates = tf.nn.bias_add(tf.concat([forget, reset], 1), self._bias)
    forget, reset = tf.split(tf.sigmoid(gates), 2, 1)
    c = forget * state + (1 - forget) * candidate
    h = reset * self._activation(c) + (1 - reset) * highway
    return h, c


class MinimalRNNCell(LayerRNNCell):
  """An RNN that puts its inputs into a latent space, and gates the two.

  Chen, "MinimalRNN", 2017. Its variables are "kernel" [inputs + 2 * units,
  units] and "bias".
  """

  def __init__(
    self,
    units: int,
    activation: Any = "tanh",
    kernel_initializer: Any = "glorot_uniform",
    bias_initializer: Any = "ones",
    name: str | None = None,
    dtype: tf.DType | None = None,
    **kwargs: Any,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      units: the size of the state.
      activation: of the inputs, a function or the name of one of tf.keras.
      kernel_initializer: an initializer, or the name of one of tf.keras.
      bias_initializer: an initializer, or the name of one of tf.keras.
      name: of the variables' scope.
      dtype: of the variables; the inputs' by default.
      **kwargs: a layer's.
    """
    super().__init__(name=name, dtype=dtype, **kwargs)
    self.units = units
    self.activation = tf.compat.v1.keras.activations.get(activation)
    self.kernel_initializer = initializer_of(kernel_initializer)
    self.bias_initializer = initializer_of(bias_initializer)
    self.input_spec = InputSpec(ndim=2)

  @property
  def state_size(self) -> int:
    """The size of the state."""
    return self.units

  @property
  def output_size(self) -> int:
    """The size of the state."""
    return self.units

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    self._depth = depth_of(inputs_shape)
    self.kernel = self.add_weight(
      "kernel",
      [self._depth + 2 * self.units, self.units],
      initializer=self.kernel_initializer,
    )
    self.bias = self.add_weight(
      "bias", [self.units], initializer=self.bias_initializer
    )
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: [batch, units].
    """
    of_inputs, of_gate = tf.split(self.kernel, [self._depth, 2 * self.units], 0)
    latent = self.activation(tf.matmul(inputs, of_inputs))
    gate = tf.matmul(tf.concat([latent, state], 1), of_gate)
    gate = tf.sigmoid(tf.nn.bias_add(gate, self.bias))
    state = gate * state + (1 - gate) * latent
    return state, state


def initializer_of(chosen: Any) -> Any:
  """Returns an initializer of TensorFlow 1 by its name in tf.keras."""
  if chosen == "glorot_uniform":
    return tf.compat.v1.glorot_uniform_initializer()
  if chosen == "ones":
    return tf.compat.v1.ones_initializer()
  return tf.compat.v1.keras.initializers.get(chosen)


class NASCell(LayerRNNCell):
  """The cell that a search found: Zoph and Le, 2017.

  "Neural Architecture Search with Reinforcement Learning". Its variables are
  "recurrent_kernel" [outputs, 8 * units], "kernel" [inputs, 8 * units], and if
  asked for "bias" and "projection_weights".
  """

  def __init__(
    self,
    num_units: int,
    num_proj: int | None = None,
    use_bias: bool = False,
    reuse: bool | None = None,
    **kwargs: Any,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the cell state.
      num_proj: the size of the output, if it is projected.
      use_bias: whether there is a bias.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      **kwargs: a layer's, such as name and dtype.
    """
    super().__init__(_reuse=reuse, **kwargs)
    self._num_units = num_units
    self._num_proj = num_proj
    self._use_bias = use_bias
    self.input_spec = InputSpec(ndim=2)

  @property
  def state_size(self) -> Any:
    """The sizes of c and h."""
    return LSTMStateTuple(self._num_units, self.output_size)

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._num_proj or self._num_units

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    add, columns = self.add_weight, 8 * self._num_units
    self._recurrent = add("recurrent_kernel", [self.output_size, columns])
    self._kernel = add("kernel", [depth_of(inputs_shape), columns])
    if self._use_bias:
      self._bias = add(
        "bias", [columns], initializer=tf.compat.v1.zeros_initializer()
      )
    if self._num_proj is not None:
      self._projection = add(
        "projection_weights", [self._num_units, self._num_proj]
      )
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: (c, h).
    """
    c, h = state
    of_state = tf.matmul(h, self._recurrent)
    if self._use_bias:
      of_state = tf.nn.bias_add(of_state, self._bias)
    of_inputs = tf.split(tf.matmul(inputs, self._kernel), 8, 1)
    pairs = list(zip(of_inputs, tf.split(of_state, 8, 1), strict=True))
    # The leaves of the tree that was found, from left to right.
    sigmoid, tanh, relu = tf.sigmoid, tf.tanh, tf.nn.relu
    functions = (sigmoid, relu, sigmoid, relu, tanh, sigmoid, tanh, sigmoid)
    leaves = [
      # The fourth alone is of a product.
      function(x * m if index == 3 else x + m)
      for index, (function, (x, m)) in enumerate(
        zip(functions, pairs, strict=True)
      )
    ]
    first = tanh(leaves[0] * leaves[1])
    second = tanh(leaves[2] + leaves[3])
    third = tanh(leaves[4] * leaves[5])
    fourth = sigmoid(leaves[6] + leaves[7])
    c = tanh(first + c) * second
    h = tanh(c * tanh(third + fourth))
    if self._num_proj is not None:
      h = tf.matmul(h, self._projection)
    return h, LSTMStateTuple(c, h)
