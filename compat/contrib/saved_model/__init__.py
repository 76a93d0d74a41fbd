"""Names of tf.contrib.saved_model."""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)


def save_keras_model(
  model: Any,
  saved_model_path: str,
  custom_objects: Any = None,
  as_text: bool = False,
  input_signature: Any = None,
  serving_only: bool = False,
) -> None:
  """Writes a Keras model as a SavedModel; load_keras_model reads it.

  Args:
    model: a Keras 2 model.
    saved_model_path: the folder.
    custom_objects: must be left out; give them to load_keras_model.
    as_text: must not be True; SavedModels of today's Keras are binary.
    input_signature: of the serving function.
    serving_only: must be False.

  Raises:
    NotImplementedError: for an argument that today's Keras has not.
  """
  for name, value in (
    ("custom_objects", custom_objects),
    ("as_text", as_text),
    ("serving_only", serving_only),
  ):
    if value:
      raise NotImplementedError(f"{name}={value!r} must be left out.")
  tf.keras.models.save_model(
    model, saved_model_path, save_format="tf", signatures=input_signature
  )


def load_keras_model(saved_model_path: str, custom_objects: Any = None) -> Any:
  """Reads a model that save_keras_model has written.

  Args:
    saved_model_path: the folder.
    custom_objects: classes and functions of the model, by name.
  """
  return tf.keras.models.load_model(
    saved_model_path, custom_objects=custom_objects
  )
