"""Models of tf.keras.applications, as small as they can be."""

import functools

import numpy as np
import tensorflow as tf

CLASSES = 4
BATCH = 4
STEPS = 10
# The smallest images that each takes, [size, size, 3], at most 75 pixels.
SIZES = {
  "MobileNet": 32,
  "MobileNetV2": 32,
  "MobileNetV3Small": 32,
  "ResNet50": 32,
  "ResNet50V2": 32,
  "ResNet101": 32,
  "DenseNet121": 32,
  "DenseNet169": 32,
  "NASNetMobile": 32,
  "EfficientNetB0": 32,
  "VGG16": 32,
  "VGG19": 32,
  "Xception": 71,
  "InceptionV3": 75,
}


def make(name, optimizer=None):
  """Returns a compiled model with the weights and names of the one before.

  Its dropout drops nothing: the masks of an Estimator's graph are others.

  Args:
    name: One of `SIZES`.
    optimizer: A function that makes an optimizer; None for SGD with momentum.
  """
  tf.keras.backend.clear_session()
  tf.keras.utils.set_random_seed(2)
  size = SIZES[name]
  model = getattr(tf.keras.applications, name)(
    weights=None, input_shape=(size, size, 3), classes=CLASSES
  )
  for layer in model.layers:
    if isinstance(layer, tf.keras.layers.Dropout):
      layer.rate = 0.0
  model.compile(
    optimizer() if optimizer else tf.keras.optimizers.SGD(0.001, 0.9),
    "sparse_categorical_crossentropy",
    ["accuracy"],
  )
  return model


@functools.cache
def _examples(size):
  rng = np.random.RandomState(5)
  images = rng.uniform(0, 1, [BATCH * STEPS, size, size, 3])
  return images.astype(np.float32), rng.randint(CLASSES, size=[BATCH * STEPS])


def dataset(name):
  """Returns the batches of `STEPS` steps."""
  examples = _examples(SIZES[name])
  return tf.data.Dataset.from_tensor_slices(examples).batch(BATCH)
