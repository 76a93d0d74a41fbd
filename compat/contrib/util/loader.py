"""tf.contrib.util.loader: loads ops from a library."""

from typing import Any

import tensorflow as tf


def load_op_library(path: str) -> Any:
  """Loads a library of ops; returns the module of their functions.

  Args:
    path: of the library.

  Raises:
    RuntimeError: if it cannot be loaded; it has to be built for this
      TensorFlow.
  """
  return tf.load_op_library(path)
