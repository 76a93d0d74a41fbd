"""resnet: a residual network on the digits, or on CIFAR-10."""

from typing import Any

import model_fns
from model_fns import datasets, sharded
from model_fns.images import resnet
from model_fns.recipes import catalogue, images
from model_fns.recipes import recipe as recipe_lib

import tensorflow as tf

# The digits are 8x8: a quarter of the channels will do.
_SIZES: dict[str, dict[str, Any]] = {
  "digits": {"depth": 10, "width": 16},
  "cifar10": {"depth": 18, "width": 64},
}


def recipe(request: recipe_lib.Request) -> recipe_lib.Recipe:
  """Returns the recipe.

  Args:
    request: The request of the train command.

  Raises:
    ValueError: If the data cannot be used, or the batch size does not fit it.
  """
  return images.of_images(
    request,
    datasets.load(request.dataset, request.data_dir),
    lambda data, config: _model_fn(request, data, config),
  )


def _model_fn(
  request: recipe_lib.Request, data: datasets.Dataset, config: sharded.Config
) -> sharded.ModelFn:
  def optimizer() -> tf.compat.v1.train.Optimizer:
    if request.optimizer == catalogue.OWN:
      return resnet.stepped_momentum(request.learning_rate, request.train_steps)
    return request.make_optimizer()

  return model_fns.resnet(
    data.num_classes,
    **_SIZES[request.dataset],
    config=config,
    optimizer=optimizer,
  )
