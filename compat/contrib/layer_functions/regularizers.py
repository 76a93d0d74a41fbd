"""Weight penalties of tf.contrib.layers."""

import numbers
from collections.abc import Callable
from typing import Any

import tensorflow as tf

Regularizer = Callable[[Any], Any]


def _check_scale(scale: float, name: str) -> None:
  # An integer is most often a mistaken argument, a size for a scale.
  if isinstance(scale, numbers.Integral) or not isinstance(scale, numbers.Real):
    raise ValueError(f"{name}={scale!r} must be a float, such as 0.01.")
  if scale < 0:
    raise ValueError(f"{name}={scale!r} must be at least 0.")


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
  """Returns a penalty of scale * sum(|weights|).

  Args:
    scale: at least 0.0; with 0.0 there is no penalty, and None is returned.
    scope: of the operations.

  Raises:
    ValueError: if the scale is negative or not a float.
  """
  _check_scale(scale, "scale")

  def penalty(weights: Any) -> Any:
    if scale == 0:
      return None
    with tf.name_scope(scope or "l1_regularizer"):
      return tf.reduce_sum(tf.abs(weights)) * scale

  return penalty


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
  """Returns a penalty of scale * sum(weights ** 2) / 2.

  Args:
    scale: at least 0.0; with 0.0 there is no penalty, and None is returned.
    scope: of the operations.

  Raises:
    ValueError: if the scale is negative or not a float.
  """
  _check_scale(scale, "scale")

  def penalty(weights: Any) -> Any:
    if scale == 0:
      return None
    with tf.name_scope(scope or "l2_regularizer"):
      return tf.nn.l2_loss(weights) * scale

  return penalty


def l1_l2_regularizer(
  scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer:
  """Returns the sum of an l1 and an l2 penalty.

  Args:
    scale_l1: of l1_regularizer.
    scale_l2: of l2_regularizer.
    scope: of the operations.

  Raises:
    ValueError: if a scale is negative or not a float.
  """
  parts = [l1_regularizer(scale_l1), l2_regularizer(scale_l2)]

  def penalty(weights: Any) -> Any:
    with tf.name_scope(scope or "l1_l2_regularizer"):
      terms = [part(weights) for part in parts]
      terms = [term for term in terms if term is not None]
      return tf.add_n(terms) if terms else None

  return penalty
