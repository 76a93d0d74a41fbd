"""Initial values of tf.contrib.layers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Initializer = Callable[..., Any]

_MODES = ("FAN_IN", "FAN_OUT", "FAN_AVG")


def variance_scaling_initializer(
  factor: float = 2.0,
  mode: str = "FAN_IN",
  uniform: bool = False,
  seed: int | None = None,
  dtype: tf.DType = tf.float32,
) -> Initializer:
  """Returns initial values whose variance is factor / n.

  With the defaults they are those of He et al., "Delving Deep into Rectifiers",
  2015. A normal distribution is cut off at two standard deviations, and made
  wider (1.3 instead of 1) to make up for it.

  Args:
    factor: of the variance.
    mode: what n is: "FAN_IN", inputs; "FAN_OUT", outputs; "FAN_AVG", the mean.
    uniform: whether the values are uniform instead of normal.
    seed: of the random numbers.
    dtype: of the values, a float.

  Raises:
    TypeError: if the type is not a float, or the mode is unknown.
  """
  if not dtype.is_floating:
    raise TypeError(f"dtype={dtype.name} must be a floating-point type.")
  if mode not in _MODES:
    raise TypeError(f"mode={mode!r} must be one of {', '.join(_MODES)}.")

  def initialize(
    shape: Sequence[int],
    dtype: tf.DType | None = dtype,
    partition_info: Any = None,
  ) -> Any:
    whole = shape if partition_info is None else partition_info.full_shape
    n = _fan(whole, mode)
    if uniform:
      limit = math.sqrt(3.0 * factor / n)
      return tf.compat.v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
    deviation = math.sqrt(1.3 * factor / n)
    return tf.compat.v1.truncated_normal(
      shape, 0.0, deviation, dtype, seed=seed
    )

  return initialize


def _fan(shape: Sequence[int], mode: str) -> float:
  """Returns n for a variable's shape: [..., inputs, outputs]."""
  sizes = [float(size) for size in shape] or [1.0]
  positions = math.prod(sizes[:-2])
  fan_in = (sizes[-2] if len(sizes) > 1 else sizes[-1]) * positions
  fan_out = sizes[-1] * positions
  by_mode = {
    "FAN_IN": fan_in,
    "FAN_OUT": fan_out,
    "FAN_AVG": (fan_in + fan_out) / 2,
  }
  return max(by_mode[mode], 1.0)


def xavier_initializer(
  uniform: bool = True,
  seed: int | None = None,
  dtype: tf.DType = tf.float32,
) -> Initializer:
  """Returns the initial values of Glorot and Bengio, 2010.

  "Understanding the difficulty of training deep feedforward neural networks":
  the variance is 1 over the mean of the numbers of inputs and of outputs.

  Args:
    uniform: whether the values are uniform instead of normal.
    seed: of the random numbers.
    dtype: of the values, a float.
  """
  return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)
