"""tf.image: resizing with 1.15's corners and centers, standardization."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(9).uniform(size=(2, 5, 6, 3)).astype(np.float32)


def _x():
  return tf.placeholder_with_default(_X, [None, 5, 6, 3])


def resizing():
  x = _x()
  size = [7, 4]
  return {
    "bilinear": tf.image.resize_bilinear(x, size),
    "bilinear_corners": tf.image.resize_bilinear(x, size, align_corners=True),
    "bilinear_centers": tf.image.resize_bilinear(
      x, size, half_pixel_centers=True
    ),
    "nearest": tf.image.resize_nearest_neighbor(x, size),
    "nearest_corners": tf.image.resize_nearest_neighbor(x, size, True),
    "bicubic": tf.image.resize_bicubic(x, size),
    "bicubic_corners": tf.image.resize_bicubic(x, size, align_corners=True),
    "area": tf.image.resize_area(x, size),
    "images": tf.image.resize_images(x, size),
    "images_corners": tf.image.resize_images(x, size, align_corners=True),
    "images_nearest": tf.image.resize_images(
      x, size, tf.image.ResizeMethod.NEAREST_NEIGHBOR
    ),
    "images_bicubic": tf.image.resize_images(
      x, size, method=tf.image.ResizeMethod.BICUBIC
    ),
    "images_area": tf.image.resize_images(x, size, tf.image.ResizeMethod.AREA),
    "images_ratio": tf.image.resize_images(
      x, [20, 12], preserve_aspect_ratio=True
    ),
    "same_size": tf.image.resize_images(x, [5, 6]),
    "resize": tf.image.resize(x, size),
    "pad": tf.image.resize_image_with_pad(x, 8, 8),
    "crop_or_pad": tf.image.resize_image_with_crop_or_pad(x, 3, 9),
    "crop_and_pad": tf.image.resize_with_crop_or_pad(x, 8, 4),
  }


def colors():
  x = _x()
  return {
    "standard": tf.image.per_image_standardization(x[0]),
    "standards": tf.image.per_image_standardization(x),
  }
