"""Cells in which each unit reads of the state only itself.

Li et al., "Independently Recurrent Neural Network", 2018.
"""

from collections.abc import Callable
from typing import Any

from compat.contrib.rnn.cells import (
  InputSpec,
  LayerRNNCell,
  LSTMStateTuple,
  depth_of,
  unconverted,
)

import tensorflow as tf


class _IndependentCell(LayerRNNCell):
  """The base class of the three cells."""

  def __init__(
    self,
    num_units: int,
    activation: Callable[..., Any] | None,
    reuse: bool | None,
    name: str | None,
    dtype: tf.DType | None,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
  ):
    super().__init__(_reuse=reuse, name=name, dtype=dtype)
    self._num_units = num_units
    self._activation = activation or tf.tanh
    self._kernel_initializer = kernel_initializer
    self._bias_initializer = bias_initializer
    self.input_spec = InputSpec(ndim=2)

  @property
  def state_size(self) -> Any:
    """The size of the state."""
    return self._num_units

  @property
  def output_size(self) -> int:
    """The size of the output."""
    return self._num_units

  def _add(
    self,
    names: tuple[str, str, str],
    depth: int,
    size: int,
    bias_by_default: Any = tf.compat.v1.zeros_initializer,
  ) -> Any:
    """Makes kernel, recurrent kernel and bias of some gates."""
    of_inputs, of_state, bias = names
    columns = size * self._num_units
    return (
      self.add_weight(
        of_inputs, [depth, columns], initializer=self._kernel_initializer
      ),
      self.add_weight(
        of_state,
        [1, columns],
        initializer=tf.compat.v1.random_uniform_initializer(-1, 1),
      ),
      self.add_weight(
        bias,
        [columns],
        initializer=self._bias_initializer or bias_by_default(),
      ),
    )


def _gates(inputs: Any, state: Any, weights: Any, size: int) -> Any:
  of_inputs, of_state, bias = weights
  states = tf.tile(state, [1, size])
  return tf.nn.bias_add(tf.matmul(inputs, of_inputs) + states * of_state, bias)


class IndRNNCell(_IndependentCell):
  """The plain RNN of this kind.

  Its variables are "kernel_w" [inputs, units], "kernel_u" [1, units], "bias".
  """

  def __init__(
    self,
    num_units: int,
    activation: Callable[..., Any] | None = None,
    reuse: bool | None = None,
    name: str | None = None,
    dtype: tf.DType | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      activation: tanh by default.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      name: of the variables' scope.
      dtype: of the variables; the inputs' by default.
    """
    super().__init__(num_units, activation, reuse, name, dtype)

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    names = ("kernel_w", "kernel_u", "bias")
    self._weights = self._add(names, depth_of(inputs_shape), 1)
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: [batch, num_units].
    """
    output = self._activation(_gates(inputs, state, self._weights, 1))
    return output, output


class IndyGRUCell(_IndependentCell):
  """The GRU of this kind.

  Its variables are "gates/kernel_w", "gates/kernel_u" and "gates/bias",
  "candidate/kernel", "candidate/kernel_u" and "candidate/bias".
  """

  def __init__(
    self,
    num_units: int,
    activation: Callable[..., Any] | None = None,
    reuse: bool | None = None,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    name: str | None = None,
    dtype: tf.DType | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      activation: of the candidate, tanh by default.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      kernel_initializer: of what reads the inputs; the scope's by default. What
        reads the state starts uniform in [-1, 1].
      bias_initializer: ones for the gates, zeros for the candidate by default.
      name: of the variables' scope.
      dtype: of the variables; the inputs' by default.
    """
    super().__init__(
      num_units,
      activation,
      reuse,
      name,
      dtype,
      kernel_initializer,
      bias_initializer,
    )

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    depth = depth_of(inputs_shape)
    names = ("gates/kernel_w", "gates/kernel_u", "gates/bias")
    ones = tf.compat.v1.ones_initializer
    self._of_gates = self._add(names, depth, 2, ones)
    names = ("candidate/kernel", "candidate/kernel_u", "candidate/bias")
    self._of_candidate = self._add(names, depth, 1)
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: [batch, num_units].
    """
    gates = tf.sigmoid(_gates(inputs, state, self._of_gates, 2))
    reset, update = tf.split(gates, 2, 1)
    candidate = self._activation(
      _gates(inputs, reset * state, self._of_candidate, 1)
    )
    state = update * state + (1 - update) * candidate
    return state, state


class IndyLSTMCell(_IndependentCell):
  """The LSTM of this kind: Gonnet and Deselaers, "IndyLSTMs", 2019.

  Its variables are "kernel_w" [inputs, 4 * units], "kernel_u" [1, 4 * units]
  and "bias".
  """

  def __init__(
    self,
    num_units: int,
    forget_bias: float = 1.0,
    activation: Callable[..., Any] | None = None,
    reuse: bool | None = None,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    name: str | None = None,
    dtype: tf.DType | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      forget_bias: added to the forget gate.
      activation: of input and output, tanh by default.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      kernel_initializer: of what reads the inputs; the scope's by default. What
        reads the state starts uniform in [-1, 1].
      bias_initializer: zeros by default.
      name: of the variables' scope.
      dtype: of the variables; the inputs' by default.
    """
    super().__init__(
      num_units,
      activation,
      reuse,
      name,
      dtype,
      kernel_initializer,
      bias_initializer,
    )
    self._forget_bias = forget_bias

  @property
  def state_size(self) -> Any:
    """The sizes of c and h."""
    return LSTMStateTuple(self._num_units, self._num_units)

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    names = ("kernel_w", "kernel_u", "bias")
    self._weights = self._add(names, depth_of(inputs_shape), 4)
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: (c, h), each [batch, num_units].
    """
    c, h = state
    gates = _gates(inputs, h, self._weights, 4)
    i, j, f, o = tf.split(gates, 4, 1)
    c = c * tf.sigmoid(f + self._forget_bias)
    c += tf.sigmoid(i) * self._activation(j)
    h = self._activation(c) * tf.sigmoid(o)
    return h, LSTMStateTuple(c, h)
