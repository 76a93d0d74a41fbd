"""Interpolation between scattered points by polyharmonic splines."""

from typing import Any

import tensorflow as tf

# What distances are at least, where a logarithm or a power is taken.
_LEAST = 1e-10


def interpolate_spline(
  train_points: Any,
  train_values: Any,
  query_points: Any,
  order: int,
  regularization_weight: float = 0.0,
  name: str = "interpolate_spline",
) -> tf.Tensor:
  """Returns values between points whose values are known.

  The spline is a sum of functions of the distances to the known points and of a
  linear function.

  Args:
    train_points: where values are known [batch, points, dimensions].
    train_values: those values [batch, points, size].
    query_points: where they are wanted [batch, queries, dimensions].
    order: of the spline: 1 is linear, 2 the thin plate, ...
    regularization_weight: above 0 the spline is smoother, and near to the known
      values only.
    name: of the operations.

  Returns:
    [batch, queries, size].

  Raises:
    ValueError: if dimensions or size are not known.
  """
  with tf.name_scope(name):
    points = tf.convert_to_tensor(train_points)
    values = tf.convert_to_tensor(train_values)
    queries = tf.convert_to_tensor(query_points)
    for what, one in (("train_points", points), ("train_values", values)):
      if one.shape[-1] is None:
        raise ValueError(
          f"{what} have the shape {one.shape}; the last size must be known."
        )
    near, linear = _weights(points, values, order, regularization_weight)
    bumps = _bump(_squared_distances(queries, points), order)
    return tf.matmul(bumps, near) + tf.matmul(_with_one(queries), linear)


def _weights(
  points: tf.Tensor, values: tf.Tensor, order: int, regularization: float
) -> tuple[tf.Tensor, tf.Tensor]:
  """Solves for the weights of the points, and of the linear function."""
  shape = tf.shape(points)
  count = shape[1]
  bumps = _bump(_squared_distances(points, points), order)
  if regularization > 0:
    bumps += regularization * tf.eye(count, dtype=points.dtype)
  linear = _with_one(points)
  terms = points.shape[-1] + 1
  none = tf.zeros([shape[0], terms, terms], points.dtype)
  system = tf.concat(
    [
      tf.concat([bumps, linear], 2),
      tf.concat([tf.linalg.matrix_transpose(linear), none], 2),
    ],
    1,
  )
  zeros = tf.zeros([shape[0], terms, values.shape[-1]], points.dtype)
  solved = tf.linalg.solve(system, tf.concat([values, zeros], 1))
  return solved[:, :count], solved[:, count:]


def _with_one(points: tf.Tensor) -> tf.Tensor:
  return tf.concat([points, tf.ones_like(points[..., :1])], -1)


def _squared_distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
  """Returns [batch, points of x, points of y]."""
  own_x = tf.reduce_sum(tf.square(x), 2)[:, :, tf.newaxis]
  own_y = tf.reduce_sum(tf.square(y), 2)[:, tf.newaxis]
  return own_x - 2 * tf.matmul(x, y, transpose_b=True) + own_y


def _bump(squared: tf.Tensor, order: int) -> tf.Tensor:
  """Returns the spline's function of squared distances."""
  positive = tf.maximum(squared, _LEAST)
  if order == 1:
    return tf.sqrt(positive)
  if order == 2:
    return 0.5 * squared * tf.math.log(positive)
  if order == 4:
    return 0.5 * tf.square(squared) * tf.math.log(positive)
  power = tf.pow(positive, 0.5 * order)
  return power if order % 2 else 0.5 * power * tf.math.log(positive)
