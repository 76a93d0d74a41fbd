"""Cells that compute what cuDNN's layers do."""

from typing import Any

from compat.contrib.rnn.block_cells import LSTMBlockCell
from compat.contrib.rnn.cells import depth_of, unconverted

import tensorflow as tf


class CudnnCompatibleLSTMCell(LSTMBlockCell):
  """The LSTM of CudnnLSTM: no forget bias, no clipping, no peepholes."""

  def __init__(self, num_units: int, reuse: bool | None = None):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(
      num_units,
      forget_bias=0,
      cell_clip=None,
      use_peephole=False,
      reuse=reuse,
      name="cudnn_compatible_lstm_cell",
    )


class CudnnCompatibleGRUCell(tf.compat.v1.nn.rnn_cell.GRUCell):
  """The GRU of CudnnGRU, whose reset gate comes after a product.

  Its variables are "gates/kernel" and "gates/bias", and "kernel" and "bias" in
  "candidate/input_projection" and in "candidate/hidden_projection".
  """

  def __init__(
    self,
    num_units: int,
    reuse: bool | None = None,
    kernel_initializer: Any = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      reuse: whether the variables exist already, as tf.variable_scope says it.
      kernel_initializer: the scope's by default.
    """
    super().__init__(
      num_units, reuse=reuse, kernel_initializer=kernel_initializer
    )
    self._units = num_units
    self._of_kernels = kernel_initializer

  def build(self, inputs_shape: Any) -> None:
    """Makes the variables.

    Args:
      inputs_shape: [batch, depth].
    """
    depth, units = depth_of(inputs_shape), self._units
    zeros = tf.compat.v1.zeros_initializer()
    ones = tf.compat.v1.ones_initializer()

    def kernel(name: str, rows: int, columns: int) -> Any:
      return self.add_weight(
        f"{name}/kernel", [rows, columns], initializer=self._of_kernels
      )

    of_inputs = "candidate/input_projection"
    of_state = "candidate/hidden_projection"
    self._gates_kernel = kernel("gates", depth + units, 2 * units)
    self._gates_bias = self.add_weight(
      "gates/bias", [2 * units], initializer=ones
    )
    self._input_kernel = kernel(of_inputs, depth, units)
    self._state_kernel = kernel(of_state, units, units)
    self._input_bias, self._state_bias = (
      self.add_weight(f"{name}/bias", [units], initializer=zeros)
      for name in (of_inputs, of_state)
    )
    self.built = True

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, depth].
      state: [batch, num_units].
    """
    gates = tf.matmul(tf.concat([inputs, state], 1), self._gates_kernel)
    reset, update = tf.split(
      tf.sigmoid(tf.nn.bias_add(gates, self._gates_bias)), 2, 1
    )
    of_inputs = tf.matmul(inputs, self._input_kernel) + self._input_bias
    of_state = tf.matmul(state, self._state_kernel) + self._state_bias
    candidate = tf.tanh(of_inputs + reset * of_state)
    state = (1 - update) * candidate + update * state
    return state, state
