"""Warping of images: by a flow of every pixel, or of some points."""

from typing import Any

from compat.contrib.image.spline import interpolate_spline

import numpy as np
import tensorflow as tf


def dense_image_warp(
  image: Any, flow: Any, name: str = "dense_image_warp"
) -> tf.Tensor:
  """Moves pixels along a flow, with bilinear interpolation.

  Args:
    image: [batch, height, width, channels], at least 2 by 2.
    flow: (dy, dx) [batch, height, width, 2]: the pixel (y, x) of the result is
      the image's (y - dy, x - dx), or the nearest within it.
    name: of the operations.

  Returns:
    [batch, height, width, channels].
  """
  with tf.name_scope(name):
    image = tf.convert_to_tensor(image)
    flow = tf.convert_to_tensor(flow)
    shape = tf.shape(image)
    rows, columns = tf.meshgrid(
      tf.range(shape[1]), tf.range(shape[2]), indexing="ij"
    )
    grid = tf.cast(tf.stack([rows, columns], 2), flow.dtype)
    result = _bilinear(image, grid[tf.newaxis] - flow)
    return tf.ensure_shape(tf.reshape(result, shape), image.shape)


def _bilinear(image: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
  """Returns the image at places (y, x) [batch, height, width, 2]."""
  last = tf.cast(tf.shape(image)[1:3] - 2, places.dtype)
  least = tf.zeros([], places.dtype)
  corner = tf.minimum(tf.maximum(least, tf.floor(places)), last)
  within = tf.clip_by_value(places - corner, 0.0, 1.0)
  within = tf.cast(within, image.dtype)
  down, right = within[..., :1], within[..., 1:]
  first = tf.cast(corner, tf.int32)

  def pixels(dy: int, dx: int) -> tf.Tensor:
    return tf.gather_nd(image, first + tf.constant([dy, dx]), batch_dims=1)

  top = pixels(0, 0) + right * (pixels(0, 1) - pixels(0, 0))
  bottom = pixels(1, 0) + right * (pixels(1, 1) - pixels(1, 0))
  return top + down * (bottom - top)


def sparse_image_warp(
  image: Any,
  source_control_point_locations: Any,
  dest_control_point_locations: Any,
  interpolation_order: int = 2,
  regularization_weight: float = 0.0,
  num_boundary_points: int = 0,
  name: str = "sparse_image_warp",
) -> tuple[tf.Tensor, tf.Tensor]:
  """Moves some points of images, and all others with them.

  Args:
    image: [batch, height, width, channels], all sizes but the last known.
    source_control_point_locations: where points are (y, x) [batch, points, 2].
    dest_control_point_locations: where they come to [batch, points, 2].
    interpolation_order: of interpolate_spline.
    regularization_weight: of interpolate_spline.
    num_boundary_points: how many points of each edge stay where they are: 1 is
      the corners, 2 the corners and the middles, ...
    name: of the operations.

  Returns:
    The images, and the flow (dy, dx) [batch, height, width, 2].
  """
  with tf.name_scope(name):
    image = tf.convert_to_tensor(image)
    source = tf.convert_to_tensor(source_control_point_locations)
    points = tf.convert_to_tensor(dest_control_point_locations)
    flows = points - source
    batch, height, width = image.shape[:3]
    if num_boundary_points > 0:
      edge = _edge(height, width, num_boundary_points)
      points = tf.concat([points, _repeated(edge, batch, points.dtype)], 1)
      still = _repeated(np.zeros_like(edge), batch, flows.dtype)
      flows = tf.concat([flows, still], 1)
    grid = np.stack(np.mgrid[:height, :width], -1).reshape([-1, 2])
    flow = interpolate_spline(
      points,
      flows,
      _repeated(grid, batch, image.dtype),
      interpolation_order,
      regularization_weight,
    )
    flow = tf.reshape(flow, [batch, height, width, 2])
    return dense_image_warp(image, flow), flow


def _edge(height: int, width: int, count: int) -> Any:
  """Returns evenly spaced points (y, x) of the edges [points, 2]."""
  ys, xs = np.meshgrid(
    np.linspace(0, height - 1, count + 1),
    np.linspace(0, width - 1, count + 1),
    indexing="ij",
  )
  is_edge = (ys == 0) | (ys == height - 1) | (xs == 0) | (xs == width - 1)
  return np.stack([ys[is_edge], xs[is_edge]], 1)


def _repeated(points: Any, batch: int, dtype: Any) -> tf.Tensor:
  return tf.constant(np.stack([points] * batch), dtype)
