"""keras: a functional tf_keras model, compiled, on digits or CIFAR-10."""

import dataclasses

import model_fns
from model_fns import datasets, sharded
from model_fns.recipes import images
from model_fns.recipes import recipe as recipe_lib

import tensorflow as tf

_FILTERS = 32


def recipe(request: recipe_lib.Request) -> recipe_lib.Recipe:
  """Returns the recipe.

  Args:
    request: The request of the train command.

  Raises:
    ValueError: If the data cannot be used, or the batch size does not fit it.
  """
  made = images.of_images(
    request,
    datasets.load(request.dataset, request.data_dir),
    lambda data, config: _model_fn(request, data, config),
  )
  return dataclasses.replace(made, loss="loss")


def _model_fn(
  request: recipe_lib.Request, data: datasets.Dataset, config: sharded.Config
) -> sharded.ModelFn:
  def make() -> tf.keras.Model:
    model = residual_network(data.image_shape, data.num_classes, request.seed)
    model.compile(
      request.make_optimizer(),
      tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      ["accuracy"],
    )
    return model

  return model_fns.keras(make, config)


def residual_network(
  image_shape: tuple[int, int, int], num_classes: int, seed: int
) -> tf.keras.Model:
  """Returns a small network with a shortcut around two convolutions.

  The shortcut is that of He et al., 2016, arXiv:1512.03385.

  Args:
    image_shape: Height and width, at least 4, and channels.
    num_classes: The number of classes.
    seed: Fixes the initial values.

  Returns:
    A functional model from float32 images to float32 logits [batch, classes].
  """
  layers = tf.keras.layers

  def convolution(number: int) -> tf.keras.layers.Layer:
    return layers.Conv2D(
      _FILTERS,
      3,
      padding="same",
      activation="relu",
      kernel_initializer=tf.keras.initializers.HeNormal(seed=seed + number),
      name=f"conv{number}",
    )

  image = tf.keras.Input(image_shape, name="image")
  net = layers.MaxPooling2D(name="pool")(convolution(1)(image))
  net = layers.add([net, convolution(3)(convolution(2)(net))], name="shortcut")
  net = layers.Flatten(name="flatten")(net)
  logits = layers.Dense(
    num_classes,
    kernel_initializer=tf.keras.initializers.GlorotUniform(seed=seed),
    name="logits",
  )(net)
  return tf.keras.Model(image, logits, name="residual_network")
