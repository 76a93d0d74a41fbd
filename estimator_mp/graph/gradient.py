"""A gradient of one variable, and reductions of those of replicas.

A gradient is a dense tensor, an `IndexedSlices` (some rows of a larger
tensor, as embedding lookups make), or None where a loss does not depend on a
variable.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow as tf

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices

# From n tensors, one on each of n devices, to their sum on each device.
Reduce: TypeAlias = Callable[
  [Sequence[tf.Tensor], Sequence[str]], list[tf.Tensor]
]


def common_shape(index: int, parts: Sequence[Gradient]) -> tf.TensorShape:
  """Returns the shape of the gradients of one variable.

  Args:
    index: Which variable, for the error.
    parts: Its gradients, at least one.

  Returns:
    The shape, with each dimension that any of them knows.

  Raises:
    ValueError: If they differ in shape or dtype, so that they cannot be added.
  """
  dtypes = {part.dtype for part in parts}
  if len(dtypes) > 1:
    names = sorted(dtype.name for dtype in dtypes)
    raise ValueError(
      f"the gradients at index {index} have dtypes {', '.join(names)}; "
      "gradients of one variable need one dtype"
    )
  shape = parts[0].shape
  for part in parts[1:]:
    if not shape.is_compatible_with(part.shape):
      raise ValueError(
        f"the gradients at index {index} have shapes {shape} and "
        f"{part.shape}; gradients of one variable need one shape"
      )
    shape = shape.merge_with(part.shape)
  return shape
