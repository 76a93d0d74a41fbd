"""The dense part of a ranking model: numbers, and fully connected layers."""

from collections.abc import Sequence
from typing import Any

from model_fns.ranking import categories

import tensorflow as tf


def numbers(features: Any, name: str, count: int) -> tf.Tensor:
  """Returns the dense features of a batch.

  Args:
    features: Features by name.
    name: The name of the dense ones.
    count: How many numbers an example has.

  Returns:
    float32 [batch, count].

  Raises:
    ValueError: If there is no such feature, or it has another shape.
  """
  found = tf.cast(categories.feature(features, name), tf.float32)
  if found.shape.rank != 2 or found.shape[1] not in (None, count):
    raise ValueError(
      f"feature {name!r} has the shape {found.shape}; pass [batch, {count}], "
      "or say num_dense"
    )
  return tf.ensure_shape(found, [None, count])


def optional_numbers(features: Any, name: str, count: int) -> tf.Tensor | None:
  """Returns what `numbers` does; None if an example has no number."""
  return numbers(features, name, count) if count else None


def check_num_dense(num_dense: int) -> None:
  """Raises if there cannot be so many dense features.

  Args:
    num_dense: Their number.

  Raises:
    ValueError: If it is negative.
  """
  if num_dense < 0:
    raise ValueError(
      f"num_dense={num_dense} is negative; pass how many numbers an example "
      "has, or 0"
    )


def check_units(**units: Sequence[int]) -> None:
  """Raises if a layer would have no unit.

  Args:
    **units: The widths of layers, by the name of the argument.

  Raises:
    ValueError: If one is below 1.
  """
  for name, widths in units.items():
    if any(width < 1 for width in widths):
      raise ValueError(
        f"{name}={list(widths)} has a width below 1; each layer needs at "
        "least 1 unit"
      )


def layer(net: tf.Tensor, units: int, name: str) -> tf.Tensor:
  """Returns a fully connected layer, without an activation.

  Initial values are those of Naumov et al. (2019): normal, with the variances
  2 / (inputs + units) of the kernel and 1 / units of the bias.

  Args:
    net: float32 [batch, inputs].
    units: The width.
    name: The scope of its variables, `kernel` and `bias`.
  """
  normal = tf.compat.v1.random_normal_initializer
  inputs = net.shape[1]
  with tf.compat.v1.variable_scope(name):
    kernel = tf.compat.v1.get_variable(
      "kernel",
      [inputs, units],
      initializer=normal(stddev=(2.0 / (inputs + units)) ** 0.5),
    )
    bias = tf.compat.v1.get_variable(
      "bias", [units], initializer=normal(stddev=units**-0.5)
    )
    return tf.nn.bias_add(tf.matmul(net, kernel), bias)


def hidden_layers(net: tf.Tensor, units: Sequence[int], name: str) -> tf.Tensor:
  """Returns layers with ReLU, one on the other.

  Args:
    net: float32 [batch, inputs].
    units: The width of each.
    name: The scope of their variables, in which layer i is `layer_i`.

  Returns:
    float32 [batch, units[-1]].
  """
  with tf.compat.v1.variable_scope(name):
    for number, width in enumerate(units):
      net = tf.nn.relu(layer(net, width, f"layer_{number}"))
  return net
