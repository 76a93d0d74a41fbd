"""The weights of a Keras model, into an Estimator's graph and back."""

import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

from model_fns.keras_models import classes

import numpy as np
import tensorflow as tf


class Values:
  """The values of a model's weights, in a checkpoint of their own.

  As constants they would make a graph as large as the model.
  """

  def __init__(self, values: Sequence[np.ndarray]) -> None:
    # Is removed when these values are no longer referenced.
    self._folder = tempfile.TemporaryDirectory(prefix="keras_weights")
    self._path = str(pathlib.Path(self._folder.name, "weights"))
    self._shapes = [value.shape for value in values]
    names = [_name(i) for i in range(len(values))]
    tf.raw_ops.SaveV2(
      prefix=self._path,
      tensor_names=names,
      shape_and_slices=[""] * len(names),
      tensors=list(values),
    )

  def start(self, weights: Sequence[tf.Variable]) -> None:
    """Lets the weights of a graph start from these values.

    Args:
      weights: Variables of the current graph, in the order of the values.

    Raises:
      ValueError: If they have other shapes.
    """
    shapes = [tuple(weight.shape) for weight in weights]
    if shapes != self._shapes:
      raise ValueError(
        f"the model has weights of the shapes {_text(self._shapes)}, but the "
        f"one that is made of its config has {_text(shapes)}; let get_config "
        "tell all that its class takes"
      )
    tf.compat.v1.train.init_from_checkpoint(
      self._path, {_name(i): weight for i, weight in enumerate(weights)}
    )


def load_keras_weights(model: tf.keras.Model, checkpoint: str) -> None:
  """Sets a model's weights to those that an Estimator has trained.

  Names are those of the variables in the Estimator's graph. Where the names of
  an eager model's variables are the same, as they are unless layers have the
  same names, `model.load_weights(checkpoint)` does so, too.

  Args:
    model: The model that `model_fns.keras` was given, or an equal one, made
      eagerly and with weights.
    checkpoint: The path of a checkpoint, or the model_dir, for its last one.

  Raises:
    ValueError: If there is no checkpoint, it lacks a weight, or has another
      shape for it.
  """
  path = tf.train.latest_checkpoint(checkpoint) or checkpoint
  if not tf.io.gfile.exists(f"{path}.index"):
    raise ValueError(
      f"there is no checkpoint in {checkpoint!r}; train the Estimator first, "
      "or give the path that its latest_checkpoint() returns"
    )
  if not model.built:
    raise ValueError(
      f"model {model.name!r} has no weights yet; call it on a batch, or build "
      "it, and then load"
    )
  reader = tf.train.load_checkpoint(path)
  shapes = reader.get_variable_to_shape_map()
  names = _graph_names(model)
  missing = [name for name in names if name not in shapes]
  if missing:
    raise ValueError(
      f"checkpoint {path} has no variable {missing[0]!r} "
      f"({len(missing)} of {len(names)} are missing); layers have to have the "
      "names that they had in training: give them names, or make the model "
      "after tf.keras.backend.clear_session()"
    )
  for name, weight in zip(names, model.weights, strict=True):
    if tuple(weight.shape) != tuple(shapes[name]):
      raise ValueError(
        f"{name} has the shape {tuple(shapes[name])} in checkpoint {path}, but "
        f"{tuple(weight.shape)} in model {model.name!r}"
      )
  model.set_weights([reader.get_tensor(name) for name in names])


def _graph_names(model: Any) -> list[str]:
  """Returns the names that the weights have in the graph of an Estimator."""
  if not classes.is_cloneable(model):
    return [weight.name.split(":")[0] for weight in model.weights]
  with tf.Graph().as_default(), classes.kept():
    tf.compat.v1.train.create_global_step()
    clone = tf.keras.models.clone_model(
      model, clone_function=classes.clone_layer
    )
    if not clone.weights:
      clone.build(model.input_shape)
    return [weight.op.name for weight in clone.weights]


def _name(number: int) -> str:
  return f"weight_{number}"


def _text(shapes: Sequence[tuple[int, ...]]) -> str:
  return ", ".join(map(str, shapes))
