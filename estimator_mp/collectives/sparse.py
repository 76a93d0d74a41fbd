"""Sparse aggregation: the sum of `IndexedSlices` of several replicas.

An embedding lookup has a gradient of the rows that were looked up; the dense
one would be as large as the table. The sum of such gradients is the list of
all their rows, as optimizers sum rows that occur several times.

Every replica gets the rows of all the others. Each of n devices receives
(n-1)/n of all rows then, and 2(n-1)/n of the table in a dense sum by a ring: a
dense sum sends less if the replicas list more than twice the rows of the
table. It may pay before that, as no optimizer has to sum repeated rows; but a
clip by the global norm takes the norm of the listed rows, so that duplicates
count apart until they are summed. Kim et
al. (2018, arXiv:1808.02621) also choose how to send a gradient by how sparse
it is.
"""

from collections.abc import Sequence

from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import placed_ops
from estimator_mp.graph.gradient import Gradient, Reduce

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


def density(per_replica: Sequence[tf.IndexedSlices]) -> float | None:
  """Returns the rows of all replicas, divided by the rows of the table.

  Repeated rows count as often as they occur, so it may be above 1.

  Args:
    per_replica: A gradient of one variable for every replica.

  Returns:
    The density, or None if the graph does not know the numbers of rows.
  """
  table = gradient_lib.common_shape(0, per_replica)
  if table.rank is None:
    return None
  rows = [_num_rows(slices) for slices in per_replica]
  table_rows: int | None = table.as_list()[0]
  if not table_rows or None in rows:
    return None
  return sum(n for n in rows if n is not None) / table_rows


def becomes_dense(density: float | None, threshold: float | None) -> bool:
  """Whether sparse gradients of replicas are summed as dense ones.

  Args:
    density: Their density, as `density` returns it.
    threshold: The density from which on they are; None for never.

  Raises:
    ValueError: If the threshold is out of its range.
  """
  if threshold is not None and not threshold > 0:
    raise ValueError(
      f"dense_threshold={threshold} is not above 0; use the density from "
      "which on a sum is dense, such as 0.5, or None for never"
    )
  if density is None or threshold is None:
    return False
  return density >= threshold


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


def sum_as_dense(
  per_replica: Sequence[tf.IndexedSlices],
  devices: Sequence[str],
  reduce: Reduce,
) -> list[tf.Tensor]:
  """Sums the sparse gradients of one variable as dense ones.

  Args:
    per_replica: The gradient of every replica, on the replica's device.
    devices: The device of each replica.
    reduce: Sums n dense tensors, one on each of n devices.

  Returns:
    For every replica the sum on its device, as large as the table.

  Raises:
    ValueError: If the shape of the table is not known.
  """
  shape = gradient_lib.common_shape(0, per_replica)
  with tf.compat.v1.name_scope("reduce_slices"):
    tensors = placed_ops.on_each(devices, dense, per_replica)
    for tensor in tensors:
      tensor.set_shape(shape)
    return reduce(tensors, devices)


def _num_rows(slices: tf.IndexedSlices) -> int | None:
  """Returns the number of listed rows, if the graph knows it."""
  rows: int | None = slices.indices.shape.num_elements()
  if rows is None and slices.values.shape.rank:
    rows = slices.values.shape.as_list()[0]
  return rows
