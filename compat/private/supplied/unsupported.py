"""The error for programs that need a TPU where TensorFlow dropped it."""

from typing import NoReturn

import tensorflow as tf


def refuse_tpu(what: str) -> NoReturn:
  """Raises the error for a part of TPUEstimator that only TPUs use.

  Args:
    what: the part, as the user or the log knows it.

  Raises:
    NotImplementedError: always.
  """
  raise NotImplementedError(
    f"{what} drives a TPU, and TensorFlow {tf.__version__} no longer has the "
    "code for that. Use TPUEstimator(use_tpu=False) to run on CPU or GPU, or "
    "TensorFlow 2.15 on a TPU."
  )
