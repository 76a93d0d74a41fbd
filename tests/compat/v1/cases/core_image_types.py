"""tf.image's standardization keeps the type of what it is given."""

import numpy as np
import tensorflow as tf


def standardized_types():
  image = np.random.RandomState(3).randint(0, 256, (2, 5, 4, 3))
  return {
    one.__name__: tf.image.per_image_standardization(
      tf.placeholder_with_default(image.astype(one), [None, 5, 4, 3])
    )
    for one in (np.uint8, np.int32, np.float32, np.float64)
  }
