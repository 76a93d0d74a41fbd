"""Rows by owner: updates of a table whose rows are split, in TensorFlow.

Each part gets the rows of an update that it owns. Of a result as large as the
table, such as the sum of a gradient's rows, each makes its own part, and leaves
out the rows of others.
"""

from estimator_mp.propagate.layouts import Partition

import tensorflow as tf


def or_none(part: int, partition: Partition, rows: tf.Tensor) -> tf.Tensor:
  """Returns places of rows in a part, and for others one of nobody.

  Args:
    part: The number of the part.
    partition: The rows that each part has.
    rows: The numbers of rows.
  """
  places, are_owned = _owned(part, partition, rows)
  nobody = rows.dtype.max if rows.dtype.is_unsigned else -1
  return tf.where(are_owned, places, tf.constant(nobody, rows.dtype))


def taken(
  part: int, partition: Partition, rows: tf.Tensor, *values: tf.Tensor
) -> list[tf.Tensor]:
  """Returns the places of the rows that a part owns, and their values.

  Args:
    part: The number of the part.
    partition: The rows that each part has.
    rows: The numbers of rows.
    *values: Tensors with an entry for each row.
  """
  places, are_owned = _owned(part, partition, rows)
  numbers = tf.reshape(tf.where(tf.reshape(are_owned, [-1])), [-1])
  return [tf.gather(x, numbers) for x in (places, *values)]


def _owned(
  part: int, partition: Partition, rows: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns places of rows in a part, any for others, and which it has.

  A row that nobody has is the first part's, or the last one's, which will
  complain of it.
  """
  sizes = [x for x in partition.parts if isinstance(x, int)]
  if partition.is_cyclic:
    return rows // len(sizes), tf.equal(rows % len(sizes), part)
  places = rows - sum(sizes[:part]) if part else rows
  tests = []
  if part:
    tests.append(places >= 0)
  if part + 1 < len(sizes):
    tests.append(places < sizes[part])
  return places, tests[0] if len(tests) == 1 else tf.logical_and(*tests)
