"""Functions that make the inputs of a model that serves requests."""

from collections.abc import Callable, Mapping
from typing import Any

from compat.contrib.learn.model_fn import InputFnOps

import tensorflow as tf

__all__ = [
  "InputFnOps",
  "build_default_serving_input_fn",
  "build_parsing_serving_input_fn",
]


def build_parsing_serving_input_fn(
  feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
  """Returns a serving_input_fn for requests of serialized tf.Examples.

  Args:
    feature_spec: as tf.io.parse_example takes it.
    default_batch_size: how many examples a request has; None is any number.
  """

  def serving_input_fn() -> InputFnOps:
    serialized = tf.compat.v1.placeholder(
      tf.string, [default_batch_size], name="input_example_tensor"
    )
    features = tf.io.parse_example(serialized, dict(feature_spec))
    return InputFnOps(features, None, {"examples": serialized})

  return serving_input_fn


def build_default_serving_input_fn(
  features: Mapping[str, tf.Tensor], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
  """Returns a serving_input_fn for requests of tensors.

  Args:
    features: tensors by name that those of a request look like.
    default_batch_size: how many examples a request has; None is any number.
  """

  def serving_input_fn() -> InputFnOps:
    fed = {
      name: tf.compat.v1.placeholder(
        tensor.dtype,
        [default_batch_size, *tensor.shape.as_list()[1:]],
        name=tensor.op.name,
      )
      for name, tensor in features.items()
    }
    return InputFnOps(fed, None, fed)

  return serving_input_fn
