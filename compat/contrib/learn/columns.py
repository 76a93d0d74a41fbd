"""Feature columns of tf.contrib.layers for numbers given as they are."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf


def _column(name: str, tensor: Any) -> Any:
  from compat.contrib import layers

  if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
    raise ValueError(
      f"The feature {name!r} has the type {tensor.dtype.name}, not numbers."
    )
  shape = tensor.shape.as_list()
  if len(shape) != 2 or shape[1] is None:
    raise ValueError(
      f"The feature {name!r} has the shape {shape}; [examples, width] with a "
      "known width is needed."
    )
  return layers.real_valued_column(name, dimension=shape[1], dtype=tensor.dtype)


def infer_real_valued_columns_from_input_fn(
  input_fn: Callable[[], tuple[Any, Any]],
) -> list[Any]:
  """Returns a real_valued_column for each feature of an input_fn.

  Args:
    input_fn: returns features and labels.

  Raises:
    ValueError: if a feature is not [examples, width] of numbers.
  """
  with tf.Graph().as_default():
    features, _ = input_fn()
    if not isinstance(features, Mapping):
      features = {"": features}
    return [
      _column(name, tf.convert_to_tensor(tensor))
      for name, tensor in sorted(features.items())
    ]


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
  """Returns a real_valued_column for each array that `fit(x, y)` takes.

  Args:
    x: an array, or arrays by name.

  Raises:
    ValueError: if an array is not [examples, width] of numbers.
  """
  from compat.contrib.learn import feeding

  def input_fn() -> tuple[Any, Any]:
    data = feeding.input_fn(x, None, None, shuffle=False, epochs=1)()
    return tf.nest.map_structure(
      lambda one: tf.compat.v1.placeholder(one.dtype, one.shape),
      data.element_spec,
    ), None

  return infer_real_valued_columns_from_input_fn(input_fn)
