"""Cutting a batch into consecutive slices, one per device."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def batch_size(features: Any) -> int | tf.Tensor:
  """Returns the number of examples of a batch.

  Args:
    features: A nest of tensors, `SparseTensor`s and `RaggedTensor`s whose first
      dimension is the batch.

  Returns:
    A Python int if any tensor says it statically, otherwise an int32 scalar.

  Raises:
    ValueError: If there is no tensor, a tensor is a scalar, or tensors have
      different static sizes.
  """
  tensors = tf.nest.flatten(features)
  if not tensors:
    raise ValueError("the features are empty; batch_split needs a batch to cut")
  static = {}
  for tensor in tensors:
    if tensor.shape.rank == 0:
      raise ValueError(
        f"feature {tensor.name!r} is a scalar; every feature needs the batch "
        "as its first dimension, so that it can be cut"
      )
    size = tensor.shape[0] if tensor.shape.rank is not None else None
    if size is not None:
      static[size] = getattr(tensor, "name", str(tensor))
  if len(static) > 1:
    sizes = ", ".join(f"{size} ({name})" for size, name in static.items())
    raise ValueError(
      f"the features have different batch sizes: {sizes}; every feature needs "
      "the same first dimension"
    )
  if static:
    return next(iter(static))
  first = tensors[0]
  if isinstance(first, tf.SparseTensor):
    return tf.cast(first.dense_shape[0], tf.int32)
  if isinstance(first, tf.RaggedTensor):
    return tf.cast(first.nrows(), tf.int32)
  return tf.shape(first)[0]


def slice_bounds(
  size: int | tf.Tensor, num_slices: int
) -> list[int | tf.Tensor]:
  """Returns where consecutive slices of a batch begin and end.

  Slice i goes from bound i to bound i + 1. The lengths differ by at most one,
  so the last, short batch of a data set can be cut too; with fewer examples
  than slices, some slices are empty.

  Args:
    size: The number of examples.
    num_slices: The number of slices.

  Returns:
    `num_slices + 1` bounds, from 0 to `size`.
  """
  return [size * i // num_slices for i in range(num_slices + 1)]


def slice_features(
  features: Any, begin: int | tf.Tensor, end: int | tf.Tensor
) -> Any:
  """Returns the examples of a batch from `begin` up to, without, `end`.

  Args:
    features: A nest as for `batch_size`.
    begin: The first example.
    end: The example after the last one.

  Returns:
    The same nest, of the slices.
  """
  return tf.nest.map_structure(lambda x: _slice(x, begin, end), features)


def _slice(value: Any, begin: int | tf.Tensor, end: int | tf.Tensor) -> Any:
  if not isinstance(value, tf.SparseTensor):
    return value[begin:end]
  rank = value.shape.rank
  zeros: Sequence[int] = [0] * (rank - 1)
  start = tf.cast(tf.stack([begin, *zeros]), tf.int64)
  count = tf.cast(tf.stack([end - begin]), tf.int64)
  return tf.sparse.slice(
    value, start, tf.concat([count, value.dense_shape[1:]], axis=0)
  )
