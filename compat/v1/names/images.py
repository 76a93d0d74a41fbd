"""Functions of tf.image whose results have another type today."""

from typing import Any

import tensorflow as tf


def per_image_standardization(image: Any) -> tf.Tensor:
  """Scales images to mean 0 and variance 1, and keeps their type.

  Today's returns floats. 1.15's went back to integers, so that what was below
  0 became 0 there. Of half precision it also computed in half precision, and
  overflowed above 255; this does not.

  Args:
    image: tensor [..., height, width, channels].

  Returns:
    The tensor, of the same shape and type.
  """
  with tf.name_scope("per_image_standardization"):
    image = tf.convert_to_tensor(image, name="image")
    # Of integers, what 1.15 standardized were fractions of the largest.
    floats = tf.image.convert_image_dtype(image, tf.float32)
    found = tf.image.per_image_standardization(floats)
    return tf.image.convert_image_dtype(found, image.dtype, saturate=True)
