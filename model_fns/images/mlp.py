"""mlp: a multi-layer perceptron."""

from collections.abc import Sequence

import tensorflow as tf


def layers(
  num_classes: int, seed: int, hidden_units: Sequence[int] = (256, 128, 64)
) -> list[tf.Module]:
  """Returns dense layers with ReLU, and a last one for the logits.

  Args:
    num_classes: The number of classes, at least 2.
    seed: The seed of the initial values.
    hidden_units: The width of each hidden layer, each at least 1.

  Returns:
    `len(hidden_units) + 1` unbuilt Keras layers; the first takes a float32
    tensor of the shape [batch, ...] and flattens it, the last returns float32
    logits of the shape [batch, num_classes].

  Raises:
    ValueError: If there are fewer than 2 classes, or a width is below 1.
  """
  if num_classes < 2:
    raise ValueError(
      f"num_classes={num_classes} is too few; a classifier needs at least 2"
    )
  if any(units < 1 for units in hidden_units):
    raise ValueError(
      f"hidden_units={list(hidden_units)} has a width below 1; each hidden "
      "layer needs at least 1 unit"
    )
  keras = tf.keras.layers

  def he_normal(offset: int) -> tf.keras.initializers.Initializer:
    return tf.keras.initializers.HeNormal(seed=seed + offset)

  dense = [
    keras.Dense(
      units,
      activation="relu",
      kernel_initializer=he_normal(number),
      name=f"hidden{number}",
    )
    for number, units in enumerate(hidden_units, start=1)
  ]
  dense.append(
    keras.Dense(
      num_classes,
      kernel_initializer=tf.keras.initializers.GlorotUniform(
        seed=seed + len(hidden_units) + 1
      ),
      name="logits",
    )
  )
  first = tf.keras.Sequential(
    [keras.Flatten(name="flatten"), dense[0]], name="flatten_" + dense[0].name
  )
  return [first, *dense[1:]]
