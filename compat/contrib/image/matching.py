"""Matching rows and columns by their distances."""

from typing import Any

import tensorflow as tf


def bipartite_match(
  distance_mat: Any,
  num_valid_rows: Any,
  top_k: int = -1,
  name: str = "bipartite_match",
) -> tuple[tf.Tensor, tf.Tensor]:
  """Matches the closest row and column, then the closest of the others.

  Args:
    distance_mat: float32 [rows, columns].
    num_valid_rows: how many rows count: a scalar or a vector of one; all, if it
      is below 0.
    top_k: how many matches are made; as many as there are, if it is below 1.
    name: of the operations.

  Returns:
    For each row its column, and for each column its row: int32, -1 for none.
  """
  with tf.name_scope(name):
    distances = tf.convert_to_tensor(distance_mat, tf.float32)
    rows, columns = tf.unstack(tf.shape(distances))
    valid = tf.cast(tf.reshape(num_valid_rows, []), tf.int32)
    valid = tf.where(valid < 0, rows, tf.minimum(valid, rows))
    count = tf.minimum(valid, columns)
    if top_k > 0:
      count = tf.minimum(count, top_k)
    taken = tf.constant(float("inf"))
    free = tf.where(tf.range(rows)[:, tf.newaxis] < valid, distances, taken)

    def match(made: Any, free: Any, by_row: Any, by_column: Any) -> Any:
      place = tf.argmin(tf.reshape(free, [-1]), output_type=tf.int32)
      row, column = place // columns, place % columns
      by_row = tf.tensor_scatter_nd_update(by_row, [[row]], [column])
      by_column = tf.tensor_scatter_nd_update(by_column, [[column]], [row])
      is_taken = tf.logical_or(
        tf.equal(tf.range(rows), row)[:, tf.newaxis],
        tf.equal(tf.range(columns), column),
      )
      return made + 1, tf.where(is_taken, taken, free), by_row, by_column

    _, _, by_row, by_column = tf.compat.v1.while_loop(
      lambda made, *_: made < count,
      match,
      (tf.constant(0), free, tf.fill([rows], -1), tf.fill([columns], -1)),
      back_prop=False,
    )
    return (
      tf.ensure_shape(by_row, distances.shape[:1]),
      tf.ensure_shape(by_column, distances.shape[1:]),
    )
