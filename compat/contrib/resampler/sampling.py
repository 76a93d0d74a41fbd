"""Images at places between their pixels.

Jaderberg, Simonyan, Zisserman and Kavukcuoglu, "Spatial Transformer Networks",
2015.
"""

from typing import Any

import tensorflow as tf


def resampler(data: Any, warp: Any, name: str = "resampler") -> tf.Tensor:
  """Returns images at places, with bilinear interpolation.

  Args:
    data: [batch, height, width, channels]; around them all is 0.
    warp: places (x, y) [batch, ..., 2].
    name: of the operations.

  Returns:
    [batch, ..., channels].
  """
  with tf.name_scope(name):
    data = tf.convert_to_tensor(data, name="data")
    warp = tf.convert_to_tensor(warp, name="warp")
    size = tf.cast(tf.shape(data)[2:0:-1], warp.dtype)
    # Farther away there is nothing, either.
    places = tf.clip_by_value(warp, -tf.ones_like(size), size)
    corner = tf.floor(places)
    right, down = tf.split(places - corner, 2, -1)
    framed = tf.pad(data, [[0, 0], [1, 2], [1, 2], [0, 0]])
    first = tf.reverse(tf.cast(corner, tf.int32), [-1]) + 1

    def pixels(dy: int, dx: int) -> tf.Tensor:
      return tf.gather_nd(framed, first + tf.constant([dy, dx]), batch_dims=1)

    top = (1 - right) * pixels(0, 0) + right * pixels(0, 1)
    bottom = (1 - right) * pixels(1, 0) + right * pixels(1, 1)
    return (1 - down) * top + down * bottom
