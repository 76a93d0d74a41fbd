"""Sparse aggregation: the sum of `IndexedSlices` of several devices.

An embedding lookup has a gradient of the rows that were looked up; the dense
one would be as large as the table. The sum of such gradients is the list of
all their rows, as optimizers sum rows that occur several times.
"""

from collections.abc import Sequence

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
