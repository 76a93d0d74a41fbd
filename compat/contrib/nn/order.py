"""Elements by their order."""

from typing import Any

import tensorflow as tf


def nth_element(
  input: Any, n: Any, reverse: bool = False, name: str | None = None
) -> tf.Tensor:
  """Returns the n-th smallest element of each row.

  Args:
    input: [..., size].
    n: from 0 on, below the size; a scalar.
    reverse: whether it is the n-th largest.
    name: of the operation.

  Returns:
    [...].
  """
  return tf.raw_ops.NthElement(input=input, n=n, reverse=reverse, name=name)
