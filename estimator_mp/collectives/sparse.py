"""Sparse aggregation: the sum of `IndexedSlices` of several replicas.

An embedding lookup has a gradient of the rows that were looked up; the dense
one would be as large as the table. The sum of such gradients is the list of
all their rows, as optimizers sum rows that occur several times.

Every replica gets the rows of all the others, each as often as it is listed: a
clip by the global norm takes the norm of the listed rows, so that duplicates
count apart, as they do without replicas.
"""

from collections.abc import Sequence

from estimator_mp.graph import placed_ops
from estimator_mp.graph.gradient import Gradient

import tensorflow as tf


def concatenate(parts: Sequence[tf.IndexedSlices]) -> tf.IndexedSlices:
  """Returns the sum of sparse gradients, as the list of all their rows.

  Args:
    parts: Gradients of one variable, at least one.

  Returns:
    The rows of the first, then of the second, and so on, repeated ones as
    often as they are there. The indices are int64 if those of the parts differ
    in dtype, and of the parts' dtype otherwise.
  """
  if len(parts) == 1:
    return parts[0]
  shapes = [part.dense_shape for part in parts if part.dense_shape is not None]
  dtypes = {part.indices.dtype for part in parts}
  dtype = dtypes.pop() if len(dtypes) == 1 else tf.int64
  return tf.IndexedSlices(
    values=tf.concat([part.values for part in parts], axis=0),
    indices=tf.concat([tf.cast(x.indices, dtype) for x in parts], axis=0),
    dense_shape=shapes[0] if shapes else None,
  )


def dense(gradient: Gradient) -> tf.Tensor:
  """Returns a gradient as a dense tensor; repeated rows are summed.

  Args:
    gradient: A dense tensor, which is returned as it is, or a sparse one.

  Raises:
    ValueError: If a sparse gradient does not say the shape of its table.
  """
  if not isinstance(gradient, tf.IndexedSlices):
    return gradient
  if gradient.dense_shape is None:
    raise ValueError(
      f"{gradient.values.name} is a sparse gradient without a dense_shape, so "
      "it cannot become dense; give its IndexedSlices the shape of the table"
    )
  rows = tf.cast(gradient.dense_shape[0], tf.int64)
  return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, rows)


def sum_on(device: str, parts: Sequence[tf.IndexedSlices]) -> tf.IndexedSlices:
  """Returns the sum of sparse gradients on one device.

  Args:
    device: The device.
    parts: Gradients of one variable, those of the first slices first.
  """
  (total,) = placed_ops.on_each([device], concatenate, [parts])
  return total


def sum_rows(
  per_replica: Sequence[tf.IndexedSlices], devices: Sequence[str]
) -> list[tf.IndexedSlices]:
  """Sums the sparse gradients of one variable over replicas.

  Args:
    per_replica: The gradient of every replica, on the replica's device: all
      rows of `IndexedSlices` count apart.
    devices: The device of each replica.

  Returns:
    For every replica the sum on its device: the same rows in the same order on
    each.
  """
  sums = []
  with tf.compat.v1.name_scope("reduce_slices"):
    for slices, device in zip(per_replica, devices, strict=True):
      total = sum_on(device, per_replica)
      # The replica's own, so that the shape of the table does not travel.
      own_shape = slices.dense_shape
      if own_shape is None:
        own_shape = total.dense_shape
      sums.append(tf.IndexedSlices(total.values, total.indices, own_shape))
  return sums
