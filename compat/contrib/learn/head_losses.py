"""The losses of tf.contrib.learn's heads: what is trained on, and reported.

With weights, a step is of the mean of weighted losses, as in 1.15; what is
reported is the weighted mean.
"""

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

# Of labels, logits and weights: the loss to train on and the one to report.
LossFn = Callable[[Any, Any, Any], tuple[Any, Any]]


def _weighted(losses: Any, weights: Any) -> tuple[Any, Any]:
  """The mean of losses that are weighted, and their weighted mean."""
  if weights is None:
    mean = tf.reduce_mean(losses)
    return mean, mean
  weighted = v1.losses.compute_weighted_loss(
    losses, weights, loss_collection=None, reduction="none"
  )
  total = tf.reduce_sum(weights * tf.ones_like(losses))
  return tf.reduce_mean(weighted), tf.reduce_sum(weighted) / total


def squared(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
  """Returns the squared errors, as a LossFn does."""
  return _of_each(tf.math.squared_difference, labels, logits, weights)


def poisson(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
  """Returns Poisson's loss of counts, as a LossFn does."""

  def loss(logits: Any, labels: Any) -> Any:
    return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=True)

  return _of_each(loss, labels, logits, weights)


def sigmoid(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
  """Returns the cross entropy of zeros and ones, as a LossFn does."""

  def loss(logits: Any, labels: Any) -> Any:
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

  return _of_each(loss, labels, logits, weights)


def _of_each(
  loss: Callable[[Any, Any], Any], labels: Any, logits: Any, weights: Any
) -> tuple[Any, Any]:
  """The loss of each logit and its label, which may be [batch] of one each."""
  labels = tf.cast(labels, tf.float32)
  if labels.shape.rank == 1:
    labels = tf.expand_dims(labels, 1)
  logits.shape.assert_is_compatible_with(labels.shape)
  return _weighted(loss(logits, labels), weights)


def softmax(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
  """Returns the cross entropy of classes, as a LossFn does.

  Raises:
    ValueError: if labels are not integers.
  """
  if not labels.dtype.is_integer:
    raise ValueError(
      f"Labels are {labels.dtype.name}; multi_class_head needs integers, or "
      "label_keys for names."
    )
  is_column = labels.shape.rank == 2
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
    labels=tf.squeeze(labels, [1]) if is_column else labels, logits=logits
  )
  return _weighted(tf.expand_dims(losses, 1) if is_column else losses, weights)


def hinge(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
  """Returns the hinge loss of zeros and ones, as a LossFn does."""
  losses = v1.losses.hinge_loss(
    tf.reshape(labels, [-1, 1]), logits, reduction="none", loss_collection=None
  )
  return _weighted(losses, weights)


def of_users(function: Callable[..., Any] | None) -> LossFn | None:
  """Returns a loss_fn of a program, whose one loss is trained on and reported.

  Args:
    function: of labels, logits and, where there are some, weights; or None.

  Raises:
    ValueError: if it takes other arguments.
  """
  if function is None:
    return None
  names = inspect.signature(function).parameters
  for name in ("labels", "logits", "weights"):
    if name not in names:
      raise ValueError(
        f"loss_fn {function} takes {list(names)}; it has to take labels, "
        "logits and weights."
      )

  def loss_fn(labels: Any, logits: Any, weights: Any) -> tuple[Any, Any]:
    given = () if weights is None else (weights,)
    loss = function(labels, logits, *given)
    return loss, loss

  return loss_fn
