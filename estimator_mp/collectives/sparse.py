"""Sparse aggregation: the sum of `IndexedSlices` of several replicas.

An embedding lookup has a gradient of the rows that were looked up; the dense
one would be as large as the table. The sum of such gradients is the list of
all their rows, as optimizers sum rows that occur several times.

Every replica gets the rows of all the others. Each of n devices receives
(n-1)/n of all rows then, and 2(n-1)/n of the table in a dense sum by a ring: a
dense sum sends less if the replicas list more than twice the rows of the
table. It may pay before that, as no optimizer has to sum repeated rows. Kim et
al. (2018, arXiv:1808.02621) also choose how to send a gradient by how sparse
it is.
"""

from collections.abc import Sequence

from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph.gradient import Gradient, Reduce

import tensorflow as tf

DUPLICATES = ("keep", "sum")


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
  dtypes = {part.indices.dtype for part in parts}
  dtype = dtypes.pop() if len(dtypes) == 1 else tf.int64
  shapes = [part.dense_shape for part in parts if part.dense_shape is not None]
  return tf.IndexedSlices(
    values=tf.concat([part.values for part in parts], axis=0),
    indices=tf.concat([tf.cast(part.indices, dtype) for part in parts], axis=0),
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


def sum_duplicates(slices: tf.IndexedSlices) -> tf.IndexedSlices:
  """Returns a sparse gradient in which each row occurs once.

  The value is the same, but not what depends on the list of rows:
  `tf.clip_by_global_norm` takes the norm of the listed rows, so that
  duplicates count apart, and clips otherwise once they are summed.

  Args:
    slices: A sparse gradient, on one device.

  Returns:
    Its different rows, in the order in which they first occur, summed on the
    device of the values. The number of rows is not known to the graph.
  """
  with tf.compat.v1.colocate_with(slices.values):
    indices, segments = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(
      slices.values, segments, tf.size(indices)
    )
  return tf.IndexedSlices(values, indices, slices.dense_shape)


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


def reduce_slices(
  per_replica: Sequence[tf.IndexedSlices],
  devices: Sequence[str],
  reduce: Reduce,
  duplicates: str = "keep",
  dense_threshold: float | None = None,
) -> list[Gradient]:
  """Sums the sparse gradients of one variable over replicas.

  Args:
    per_replica: The gradient of every replica, on the replica's device.
    devices: The device of each replica.
    reduce: Sums n dense tensors, one on each of n devices: gets the tensors
      and the devices, and returns the sums, each on its device.
    duplicates: "keep": all rows are sent. "sum": rows that occur several times
      in one replica are summed before; less is sent, but clipping by the
      global norm is no longer that of the plain model (see `sum_duplicates`).
    dense_threshold: If `density` is at least this, each replica's gradient is
      made dense, and `reduce` sums them. None, or where the graph does not
      know the density: they stay sparse.

  Returns:
    For every replica the sum on its device: the same rows in the same order on
    each, or dense tensors.

  Raises:
    ValueError: If there is no replica or not one device for each, gradients
      differ in shape or dtype or are not sparse, or an option is out of its
      range.
  """
  _check(per_replica, devices, duplicates, dense_threshold)
  shape = gradient_lib.common_shape(0, per_replica)
  with tf.compat.v1.name_scope("reduce_slices"):
    if dense_threshold is not None:
      found = density(per_replica)
      if found is not None and found >= dense_threshold:
        tensors = []
        for slices, device in zip(per_replica, devices, strict=True):
          with tf.compat.v1.device(None), tf.compat.v1.device(device):
            tensors.append(dense(slices))
          tensors[-1].set_shape(shape)
        return [*reduce(tensors, devices)]
    if duplicates == "sum":
      per_replica = [sum_duplicates(slices) for slices in per_replica]
    sums: list[Gradient] = []
    for slices, device in zip(per_replica, devices, strict=True):
      with tf.compat.v1.device(None), tf.compat.v1.device(device):
        total = concatenate(per_replica)
      # The replica's own, so that the shape of the table does not travel.
      own_shape = slices.dense_shape
      if own_shape is None:
        own_shape = total.dense_shape
      sums.append(tf.IndexedSlices(total.values, total.indices, own_shape))
    return sums


def _num_rows(slices: tf.IndexedSlices) -> int | None:
  """Returns the number of listed rows, if the graph knows it."""
  rows: int | None = slices.indices.shape.num_elements()
  if rows is None and slices.values.shape.rank:
    rows = slices.values.shape.as_list()[0]
  return rows


def _check(
  per_replica: Sequence[tf.IndexedSlices],
  devices: Sequence[str],
  duplicates: str,
  dense_threshold: float | None,
) -> None:
  """Raises if sparse gradients cannot be summed as asked."""
  gradient_lib.check_one_per_device(per_replica, devices)
  if duplicates not in DUPLICATES:
    raise ValueError(
      f"duplicates={duplicates!r} is unknown; use one of "
      f"{', '.join(DUPLICATES)}"
    )
  if dense_threshold is not None and not dense_threshold > 0:
    raise ValueError(
      f"dense_threshold={dense_threshold} is not above 0; use the density from "
      "which on a sum is dense, such as 0.5, or None for never"
    )
  for replica, slices in enumerate(per_replica):
    if not isinstance(slices, tf.IndexedSlices):
      raise ValueError(
        f"the gradient of replica {replica} is of type "
        f"{type(slices).__name__}, not IndexedSlices; sum dense gradients "
        "by buckets.reduce_in_buckets"
      )
