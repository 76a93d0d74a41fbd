"""LSTMs that convolve."""

from collections.abc import Sequence
from typing import Any

from compat.contrib.rnn.cells import (
  LSTMStateTuple,
  RNNCell,
  depth_of,
  unconverted,
)

import tensorflow as tf


class ConvLSTMCell(RNNCell):
  """An LSTM whose inputs and state are images, and its products convolutions.

  Shi et al., "Convolutional LSTM Network", 2015. Its variables are "kernel" and
  "biases".
  """

  def __init__(
    self,
    conv_ndims: int,
    input_shape: Sequence[int],
    output_channels: int,
    kernel_shape: Sequence[int],
    use_bias: bool = True,
    skip_connection: bool = False,
    forget_bias: float = 1.0,
    initializers: Any = None,
    name: str = "conv_lstm_cell",
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      conv_ndims: 1, 2 or 3.
      input_shape: of one example, channels last.
      output_channels: of the state.
      kernel_shape: of the kernel, conv_ndims sizes.
      use_bias: whether there are biases.
      skip_connection: whether the inputs are appended to the outputs.
      forget_bias: added to the forget gate.
      initializers: unused, as in 1.15; the kernel has the scope's initializer.
      name: of the variables' scope.

    Raises:
      ValueError: if the input shape has not conv_ndims + 1 dimensions.
    """
    super().__init__(name=name)
    del initializers
    if conv_ndims != len(input_shape) - 1:
      raise ValueError(
        f"input_shape={list(input_shape)} does not fit conv_ndims="
        f"{conv_ndims}; give {conv_ndims} sizes, and the channels."
      )
    self._conv_ndims = conv_ndims
    self._input_shape = list(input_shape)
    self._output_channels = output_channels
    self._kernel_shape = list(kernel_shape)
    self._use_bias = use_bias
    self._skip_connection = skip_connection
    self._forget_bias = forget_bias

  @property
  def output_size(self) -> Any:
    """The shape of h."""
    channels = self._output_channels
    if self._skip_connection:
      channels += self._input_shape[-1]
    return tf.TensorShape([*self._input_shape[:-1], channels])

  @property
  def state_size(self) -> Any:
    """The shapes of c and h.

    As in 1.15, that of h is without the inputs of a skip connection: such a
    cell takes one step.
    """
    shape = tf.TensorShape([*self._input_shape[:-1], self._output_channels])
    return LSTMStateTuple(shape, shape)

  @unconverted
  def call(self, inputs: Any, state: Any, scope: Any = None) -> Any:
    """Runs one step.

    Args:
      inputs: [batch, *input_shape].
      state: (c, h).
      scope: given by the layer, unused.
    """
    del scope
    c, h = state
    gates = self._convolved(tf.concat([inputs, h], -1))
    i, j, f, o = tf.split(gates, 4, -1)
    c = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
    h = tf.tanh(c) * tf.sigmoid(o)
    if self._skip_connection:
      h = tf.concat([h, inputs], -1)
    return h, LSTMStateTuple(c, h)

  def _convolved(self, joined: Any) -> Any:
    get, dtype = tf.compat.v1.get_variable, joined.dtype
    columns = 4 * self._output_channels
    shape = [*self._kernel_shape, depth_of(joined), columns]
    product = tf.nn.convolution(joined, get("kernel", shape, dtype), 1, "SAME")
    if not self._use_bias:
      return product
    zeros = tf.compat.v1.zeros_initializer()
    return product + get("biases", [columns], dtype, zeros)


class Conv1DLSTMCell(ConvLSTMCell):
  """ConvLSTMCell for [batch, width, channels]."""

  def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any):
    """Makes the cell.

    Args:
      name: of the variables' scope.
      **kwargs: of ConvLSTMCell.
    """
    super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
  """ConvLSTMCell for [batch, height, width, channels]."""

  def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any):
    """Makes the cell.

    Args:
      name: of the variables' scope.
      **kwargs: of ConvLSTMCell.
    """
    super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
  """ConvLSTMCell for [batch, depth, height, width, channels]."""

  def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any):
    """Makes the cell.

    Args:
      name: of the variables' scope.
      **kwargs: of ConvLSTMCell.
    """
    super().__init__(conv_ndims=3, name=name, **kwargs)
