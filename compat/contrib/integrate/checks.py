"""What an initial value problem has to be."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# dy/dt, of the state and the time.
Derivative = Callable[[tf.Tensor, tf.Tensor], Any]


def problem(y0: Any, t: Any) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the initial state, and the times, as tensors.

  Args:
    y0: the state, of floats or complex numbers.
    t: the times [times]; Python's numbers become float64.

  Raises:
    TypeError: for other dtypes.
    ValueError: if `t` is no vector.
  """
  y0 = tf.convert_to_tensor(y0, name="y0")
  t = tf.convert_to_tensor(t, dtype_hint=tf.float64, name="t")
  if not (y0.dtype.is_floating or y0.dtype.is_complex):
    raise TypeError(
      f"y0 is of {y0.dtype.name}; it must be of floats or complex numbers."
    )
  if not t.dtype.is_floating:
    raise TypeError(f"t is of {t.dtype.name}; it must be of floats.")
  if t.shape.rank not in (None, 1):
    raise ValueError(
      f"t has the shape {tuple(t.shape)}; it must be a vector of times."
    )
  return y0, t


def increasing(t: tf.Tensor) -> tf.Operation:
  """Returns what fails where times do not increase.

  Args:
    t: [times].
  """
  return tf.debugging.Assert(
    tf.reduce_all(t[1:] > t[:-1]), ["t must be monotonic increasing", t]
  )
