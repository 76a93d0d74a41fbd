"""A gradient of one variable, and what can be done with those of replicas.

A gradient is a dense tensor, an `IndexedSlices` (some rows of a larger
tensor, as embedding lookups make), or None where a loss does not depend on a
variable.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

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


def add(one: Gradient | None, other: Gradient | None) -> Gradient | None:
  """Returns the sum of two gradients of one variable, where the first one is.

  Args:
    one: A gradient.
    other: Another.
  """
  if one is None or other is None:
    return other if one is None else one
  with tf.compat.v1.device(getattr(one, "values", one).device):
    if isinstance(one, tf.IndexedSlices) and isinstance(
      other, tf.IndexedSlices
    ):
      return tf.IndexedSlices(
        tf.concat([one.values, other.values], 0),
        tf.concat([one.indices, other.indices], 0),
        one.dense_shape,
      )
    return tf.add(tf.convert_to_tensor(one), tf.convert_to_tensor(other))


def add_at_once(terms: Sequence[tf.Tensor]) -> tf.Tensor:
  """Adds tensors of several devices, rounded as on a single device.

  `AddN` adds from left to right, but begins with the first input whose memory
  it may reuse: its own device's, for one that comes from another device may
  still be held there. TensorFlow's optimizer sorts the inputs by name. So the
  sum is where the first of them is.

  Args:
    terms: At least two tensors; they have devices.

  Returns:
    Their sum.
  """
  with _beside(min(terms, key=lambda term: term.op.name)):
    return tf.add_n(terms)


def add_by_device(terms: Sequence[tf.Tensor]) -> tf.Tensor:
  """Adds tensors of several devices, those of each device first.

  So each device sends one tensor, whenever it has all of its own.

  Args:
    terms: At least two tensors; they have devices.

  Returns:
    Their sum, where the caller makes ops.
  """
  by_device: dict[str, list[tf.Tensor]] = {}
  for term in terms:
    by_device.setdefault(term.op.device, []).append(term)
  return tf.add_n([_add_beside(x[0], x) for x in by_device.values()])


def _add_beside(place: tf.Tensor, terms: Sequence[tf.Tensor]) -> tf.Tensor:
  """Adds tensors on the device of one, without taking a name of the model."""
  with _beside(place), tf.compat.v1.name_scope("estimator_mp/terms/"):
    return tf.add_n(terms)


def _beside(tensor: tf.Tensor) -> Any:
  """Returns a context whose ops are colocated with a tensor, and no other."""
  return tensor.graph.colocate_with(tensor.op, ignore_existing=True)
