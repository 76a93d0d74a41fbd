"""How the layers of tf.contrib make variables and collect results."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def make(
  name: str,
  shape: Sequence[int],
  initializer: Any,
  *,
  dtype: tf.DType,
  collections: Any = None,
  trainable: bool = True,
  regularizer: Any = None,
) -> Any:
  """Returns the variable of that name in the current scope.

  Args:
    name: such as "weights".
    shape: all sizes known.
    initializer: called with the shape.
    dtype: of the variable.
    collections: more collections that it joins: one, a list, or by its name.
    trainable: whether an optimizer may change it.
    regularizer: its penalty goes to the regularization losses.
  """
  if isinstance(collections, dict):
    collections = collections.get(name)
  return tf.compat.v1.get_variable(
    name,
    shape,
    dtype,
    initializer,
    regularizer,
    trainable,
    [tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, *_as_list(collections)],
  )


def collect(outputs: Any, collections: Any) -> Any:
  """Adds a layer's result to collections, and returns it.

  Args:
    outputs: the result.
    collections: the name of one collection, or a list, or None.
  """
  for collection in _as_list(collections):
    tf.compat.v1.add_to_collection(collection, outputs)
  return outputs


def _as_list(collections: Any) -> list[str]:
  if not collections:
    return []
  return [collections] if isinstance(collections, str) else list(collections)
