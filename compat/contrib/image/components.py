"""Connected components of images."""

from typing import Any

import tensorflow as tf


def connected_components(images: Any) -> tf.Tensor:
  """Numbers the components of equal pixels that touch at a side.

  Args:
    images: [height, width] or [batch, height, width]; a pixel of 0 (False, "")
      belongs to no component.

  Returns:
    int64 of the images' shape: 0 for no component; the others from 1 on, in the
    order of their first pixels, over the whole batch.

  Raises:
    TypeError: if the images have another rank.
  """
  images = tf.convert_to_tensor(images)
  if images.shape.rank not in (2, 3):
    raise TypeError(
      f"images have the shape {images.shape}; they must be [height, width] or "
      "[batch, height, width]."
    )
  batch = images[tf.newaxis] if images.shape.rank == 2 else images
  is_set = tf.not_equal(batch, tf.zeros_like(batch))
  places = tf.reshape(tf.range(tf.size(batch)), tf.shape(batch))
  # Each pixel points to one of its component that comes before it, or itself.
  _, first = tf.compat.v1.while_loop(
    lambda before, now: tf.reduce_any(tf.not_equal(before, now)),
    lambda before, now: (now, _closer(batch, now)),
    (places - 1, places),
    back_prop=False,
  )
  starts = tf.logical_and(is_set, tf.equal(first, places))
  numbers = tf.cumsum(tf.cast(tf.reshape(starts, [-1]), tf.int64))
  found = tf.where(is_set, tf.gather(numbers, first), tf.zeros([], tf.int64))
  return tf.reshape(found, tf.shape(images))


def _closer(images: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
  """Points each pixel to the earliest that it or a neighbour points to."""
  for axis in (1, 2):
    for backwards in (False, True):
      first = tf.minimum(first, _of_neighbour(images, first, axis, backwards))
  return tf.gather(tf.reshape(first, [-1]), first)


def _of_neighbour(
  images: tf.Tensor, first: tf.Tensor, axis: int, backwards: bool
) -> tf.Tensor:
  """Returns what the neighbour of each pixel points to, if it is equal."""
  if backwards:
    images, first = tf.reverse(images, [axis]), tf.reverse(first, [axis])
  size = tf.shape(images)[axis]
  places = tf.maximum(tf.range(size) - 1, 0)
  is_equal = tf.equal(tf.gather(images, places, axis=axis), images)
  pointed = tf.where(is_equal, tf.gather(first, places, axis=axis), first)
  return tf.reverse(pointed, [axis]) if backwards else pointed
