"""Layers of a factory: functions or Keras layers, under one interface.

An Estimator builds its graph anew for training, evaluation and prediction,
and a Keras layer keeps the variables of the first graph it was called in. So
a factory treats the Keras layers it is given as descriptions, and makes a
fresh copy of each one per graph, with the same name and configuration.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Layer:
  """One layer, bound to the graph that is being built.

  Attributes:
    name: The layer's name, for people.
    call: The function or Keras layer.
    takes_training: Whether `call` has an argument `training`.
  """

  name: str
  call: Callable[..., Any]
  takes_training: bool

  def __call__(self, inputs: Any, training: bool) -> Any:
    """Applies the layer.

    Args:
      inputs: The outputs of the layer before, or the features.
      training: Whether the graph is for training.

    Returns:
      Whatever the layer returns.
    """
    if self.takes_training:
      return self.call(inputs, training=training)
    return self.call(inputs)

  @property
  def update_ops(self) -> list[tf.Operation]:
    """A Keras layer's updates, such as batch normalisation's statistics."""
    return list(getattr(self.call, "updates", ()))

  @property
  def regularization_losses(self) -> list[tf.Tensor]:
    """A Keras layer's regularization losses."""
    return list(getattr(self.call, "losses", ()))


def is_keras_layer(layer: Any) -> bool:
  """Whether an object is a layer or model of Keras 2."""
  return isinstance(layer, tf.Module) and hasattr(layer, "from_config")


def layer_name(layer: Any) -> str:
  """Returns the name of a function or a Keras layer, for people."""
  if is_keras_layer(layer):
    return str(layer.name)
  function = getattr(layer, "func", layer)  # functools.partial
  return getattr(function, "__name__", type(function).__name__)


def check_layers(layers: Sequence[Any]) -> None:
  """Raises if something in a list is no layer that a factory can use.

  Args:
    layers: The list to check, of functions and unbuilt Keras layers.

  Raises:
    ValueError: If the list is empty, or a Keras layer has variables already.
    TypeError: If something is neither a function nor a Keras layer.
  """
  if not layers:
    raise ValueError("layers is empty; pass at least one layer")
  for index, layer in enumerate(layers):
    if not callable(layer):
      raise TypeError(
        f"layers[{index}] is {layer!r}; a layer is a function of the previous "
        "layer's outputs, or a tf_keras layer"
      )
    if is_keras_layer(layer) and layer.built and layer.weights:
      raise ValueError(
        f"layers[{index}] ({layer.name}) has variables already, whose values "
        "would be lost; pass a layer that was never called or a function that "
        "makes it, and give values by a checkpoint (warm_start_from)"
      )


def bind_layers(layers: Sequence[Any]) -> list[Layer]:
  """Returns layers for the graph that is being built.

  Args:
    layers: Functions and Keras layers. A Keras layer that occurs twice shares
      its variables between both places, as one copy is made of it.

  Returns:
    As many `Layer`s, in order.
  """
  copies: dict[int, Any] = {}
  bound = []
  for layer in layers:
    call = layer
    if is_keras_layer(layer):
      if id(layer) not in copies:
        copies[id(layer)] = type(layer).from_config(layer.get_config())
      call = copies[id(layer)]
    bound.append(Layer(layer_name(layer), call, _takes_training(layer)))
  return bound


def _takes_training(layer: Any) -> bool:
  """Whether a layer can be called with `training=`."""
  function = layer.call if is_keras_layer(layer) else layer
  try:
    parameters = inspect.signature(function).parameters
  except (TypeError, ValueError):  # some builtins have no signature
    return False
  return "training" in parameters


def select_inputs(features: Any, feature_key: str | None) -> Any:
  """Returns what the first layer gets of the features.

  Args:
    features: The features that the Estimator passes to the model_fn.
    feature_key: The feature to select, or None for all of them.

  Returns:
    `features[feature_key]`, or `features`.

  Raises:
    ValueError: If there is no such feature.
  """
  if feature_key is None:
    return features
  if not isinstance(features, Mapping) or feature_key not in features:
    names = (
      ", ".join(map(repr, features))
      if isinstance(features, Mapping)
      else f"a single {type(features).__name__}"
    )
    raise ValueError(
      f"feature_key={feature_key!r} is not among the features ({names}); "
      "change feature_key or the input_fn"
    )
  return features[feature_key]


def collect_update_ops(
  layers: Sequence[Layer],
) -> list[tf.Operation]:
  """Returns what has to run beside a training step, each op once."""
  collected = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
  return _unique([*collected, *(op for x in layers for op in x.update_ops)])


def collect_regularization_losses(
  layers: Sequence[Layer],
) -> list[tf.Tensor]:
  """Returns the scalar losses that variables add, each one once."""
  collected = tf.compat.v1.losses.get_regularization_losses()
  added = (loss for x in layers for loss in x.regularization_losses)
  return _unique([*collected, *added])


def _unique(items: Sequence[Any]) -> list[Any]:
  """Returns the items in order, without repetitions of the same object."""
  return list({id(item): item for item in items}.values())
