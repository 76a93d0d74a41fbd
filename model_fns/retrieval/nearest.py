"""The items with the largest inner products, found exactly, chunk by chunk."""

import tensorflow as tf


def nearest(
  queries: tf.Tensor, items: tf.Tensor, k: int, chunk_size: int
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the k items with the largest inner products.

  No more than [queries, chunk_size] scores are there at a time. Of equal ones
  the item that comes first is nearer.

  Args:
    queries: float32 [queries, size].
    items: float32 [items, size]; at least k, as the graph knows.
    k: How many are wanted.
    chunk_size: How many items are scored at a time.

  Returns:
    The scores, float32 [queries, k], the largest first, and the rows of the
    items, int32 [queries, k].
  """
  num_items = int(items.shape[0])
  num_queries = tf.shape(queries)[0]

  def visit(
    start: tf.Tensor, scores: tf.Tensor, rows: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    some = items[start : start + chunk_size]
    found = tf.matmul(queries, some, transpose_b=True)
    numbers = tf.range(start, start + tf.shape(some)[0])
    numbers = tf.tile(numbers[tf.newaxis], [num_queries, 1])
    best, places = tf.math.top_k(tf.concat([scores, found], axis=1), k)
    rows = tf.gather(tf.concat([rows, numbers], axis=1), places, batch_dims=1)
    return start + chunk_size, best, tf.ensure_shape(rows, [None, k])

  shape = tf.TensorShape([None, k])
  start = (
    tf.constant(0),
    tf.fill([num_queries, k], -float("inf")),
    tf.fill([num_queries, k], -1),
  )
  _, scores, rows = tf.while_loop(
    lambda start, *_: start < num_items,
    visit,
    start,
    (tf.TensorShape([]), shape, shape),
    back_prop=False,
  )
  return scores, rows
