"""Functions of private modules of TensorFlow 1.15 that nothing has today.

Tested on TensorFlow 2.15.1 and 2.21.0.
"""

from typing import Any

import tensorflow as tf


def scalar() -> Any:
  """Returns the shape of a scalar."""
  return tf.TensorShape([])


def vector(length: Any) -> Any:
  """Returns the shape of a vector.

  Args:
    length: how many elements it has, or None.
  """
  return tf.TensorShape([length])


def matrix(rows: Any, cols: Any) -> Any:
  """Returns the shape of a matrix.

  Args:
    rows: how many it has, or None.
    cols: the same of columns.
  """
  return tf.TensorShape([rows, cols])
