"""cifar10_cnn: a small convolutional network in three blocks."""

import tensorflow as tf


def layers(num_classes: int, seed: int) -> list[tf.Module]:
  """Returns a network of three blocks, one for each of three devices.

  Two convolutional blocks (3x3 convolution with ReLU, 2x2 max-pooling) and a
  dense block with dropout, the shape of TensorFlow's CIFAR-10 tutorial
  (Krizhevsky, 2009, for the data; LeCun et al., 1998, for the shape).

  Args:
    num_classes: The number of classes, at least 2.
    seed: The seed of the initial values and of dropout.

  Returns:
    Three unbuilt Keras blocks; the first takes float32 images of the shape
    [batch, height, width, channels], height and width at least 4, the last
    returns float32 logits of the shape [batch, num_classes].

  Raises:
    ValueError: If there are fewer than 2 classes.
  """
  if num_classes < 2:
    raise ValueError(
      f"num_classes={num_classes} is too few; a classifier needs at least 2"
    )
  keras = tf.keras.layers

  def he_normal(offset: int) -> tf.keras.initializers.Initializer:
    return tf.keras.initializers.HeNormal(seed=seed + offset)

  def conv_block(number: int, filters: int) -> tf.keras.Sequential:
    return tf.keras.Sequential(
      [
        keras.Conv2D(
          filters,
          kernel_size=3,
          padding="same",
          activation="relu",
          kernel_initializer=he_normal(number),
          name=f"conv{number}",
        ),
        keras.MaxPooling2D(name=f"pool{number}"),
      ],
      name=f"block{number}",
    )

  dense_block = tf.keras.Sequential(
    [
      keras.Flatten(name="flatten"),
      keras.Dense(
        128, activation="relu", kernel_initializer=he_normal(3), name="dense"
      ),
      keras.Dropout(0.3, seed=seed, name="dropout"),
      keras.Dense(
        num_classes,
        kernel_initializer=tf.keras.initializers.GlorotUniform(seed=seed + 4),
        name="logits",
      ),
    ],
    name="block3",
  )
  return [conv_block(1, 32), conv_block(2, 64), dense_block]
