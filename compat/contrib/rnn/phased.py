"""The LSTM with a time gate."""

import math
from typing import Any

from compat.contrib.rnn.cells import (
  LSTMStateTuple,
  RNNCell,
  linear,
  unconverted,
)

import tensorflow as tf


class PhasedLSTMCell(RNNCell):
  """An LSTM whose units are updated in a part of a period of their own.

  Neil et al., "Phased LSTM", 2016. Its variables are "period", "phase" and
  "ratio_on", each [units], and "kernel" and "bias" in "mask_gates", "new_input"
  and "output_gate".
  """

  def __init__(
    self,
    num_units: int,
    use_peepholes: bool = False,
    leak: float = 0.001,
    ratio_on: float = 0.1,
    trainable_ratio_on: bool = True,
    period_init_min: float = 1.0,
    period_init_max: float = 1000.0,
    reuse: bool | None = None,
  ):
    """Makes the cell; its variables are made by the first call.

    Args:
      num_units: the size of the state.
      use_peepholes: whether the gates see the cell state.
      leak: how much of an update passes a closed gate.
      ratio_on: the first share of a period in which the gate is open.
      trainable_ratio_on: whether that share is learned.
      period_init_min: the shortest first period.
      period_init_max: the longest.
      reuse: whether the variables exist already, as tf.variable_scope says it.
    """
    super().__init__(_reuse=reuse)
    self._num_units = num_units
    self._use_peepholes = use_peepholes
    self._leak = leak
    self._ratio_on = ratio_on
    self._trainable_ratio_on = trainable_ratio_on
    self._periods = (period_init_min, period_init_max)

  @property
  def state_size(self) -> Any:
    """The sizes of c and h."""
    return LSTMStateTuple(self._num_units, self._num_units)

  @property
  def output_size(self) -> int:
    """The size of h."""
    return self._num_units

  @unconverted
  def call(self, inputs: Any, state: Any) -> Any:
    """Runs one step.

    Args:
      inputs: the times [batch, 1], of any float type, and [batch, depth].
      state: (c, h), each [batch, num_units].
    """
    times, x = inputs
    c_before, h_before = state
    units = self._num_units
    peephole = [c_before] if self._use_peepholes else []
    with tf.compat.v1.variable_scope("mask_gates"):
      gates = tf.sigmoid(linear([x, h_before, *peephole], 2 * units))
    i, f = tf.split(gates, 2, 1)
    with tf.compat.v1.variable_scope("new_input"):
      candidate = tf.tanh(linear([x, h_before], units))
    c = c_before * f + i * candidate
    peephole = [c] if self._use_peepholes else []
    with tf.compat.v1.variable_scope("output_gate"):
      o = tf.sigmoid(linear([x, h_before, *peephole], units))
    h = tf.tanh(c) * o
    openness = self._openness(times, x.dtype)
    c = openness * c + (1 - openness) * c_before
    h = openness * h + (1 - openness) * h_before
    return h, LSTMStateTuple(c, h)

  def _openness(self, times: Any, dtype: tf.DType) -> Any:
    """How far the time gate of each unit is open, [batch, units]."""
    period, phase, ratio_on = self._variables(dtype)
    shifted = times - tf.cast(phase, times.dtype)
    period = tf.cast(period, times.dtype)
    # Only the shift has a gradient, not the number of periods in it.
    whole = tf.stop_gradient(tf.math.floormod(shifted, period) - shifted)
    cycle = tf.cast((shifted + whole) / period, dtype)
    rising = 2 * cycle / ratio_on
    closed = tf.where(cycle < ratio_on, 2 - rising, self._leak * cycle)
    return tf.where(cycle < 0.5 * ratio_on, rising, closed)

  def _variables(self, dtype: tf.DType) -> tuple[Any, Any, Any]:
    get, units = tf.compat.v1.get_variable, [self._num_units]
    shortest, longest = map(math.log, self._periods)
    exponents = tf.compat.v1.random_uniform_initializer(shortest, longest)

    def first_period(shape: Any, dtype: Any, **unused: Any) -> Any:
      return tf.exp(exponents(shape, dtype))

    period = get("period", units, dtype, first_period)

    def first_phase(shape: Any, dtype: Any, **unused: Any) -> Any:
      return tf.random.uniform(shape, 0.0, period.initialized_value(), dtype)

    return (
      period,
      get("phase", units, dtype, first_phase),
      get(
        "ratio_on",
        units,
        dtype,
        tf.compat.v1.constant_initializer(self._ratio_on),
        trainable=self._trainable_ratio_on,
      ),
    )
