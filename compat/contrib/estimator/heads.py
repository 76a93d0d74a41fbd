"""Heads of tf.contrib.estimator for one label of each example.

They are those of tf.estimator in TensorFlow 1, but for the losses' reduction:
here the loss is divided by the batch size if nothing is said.
"""

from collections.abc import Callable, Sequence
from typing import Any

from compat.private import wheel_names

import tensorflow as tf

_MEAN = tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE

LossFn = Callable[..., Any]


def multi_class_head(
  n_classes: int,
  weight_column: Any = None,
  label_vocabulary: Sequence[str] | None = None,
  loss_reduction: str = _MEAN,
  loss_fn: LossFn | None = None,
  name: str | None = None,
) -> Any:
  """Returns a head for one of several classes, with softmax.

  Args:
    n_classes: how many classes, three or more.
    weight_column: the examples' weights: a column, or the feature's name.
    label_vocabulary: the classes' names, if labels are strings.
    loss_reduction: a tf.losses.Reduction.
    loss_fn: of labels and logits, in the place of the cross entropy.
    name: of the head.
  """
  return wheel_names.multi_class_head(
    n_classes,
    weight_column=weight_column,
    label_vocabulary=label_vocabulary,
    loss_reduction=loss_reduction,
    loss_fn=loss_fn,
    name=name,
  )


def binary_classification_head(
  weight_column: Any = None,
  thresholds: Sequence[float] | None = None,
  label_vocabulary: Sequence[str] | None = None,
  loss_reduction: str = _MEAN,
  loss_fn: LossFn | None = None,
  name: str | None = None,
) -> Any:
  """Returns a head for one of two classes, with a sigmoid.

  Args:
    weight_column: the examples' weights: a column, or the feature's name.
    thresholds: of probabilities, for metrics.
    label_vocabulary: the classes' names, if labels are strings.
    loss_reduction: a tf.losses.Reduction.
    loss_fn: of labels and logits, in the place of the cross entropy.
    name: of the head.
  """
  return wheel_names.binary_classification_head(
    weight_column=weight_column,
    thresholds=thresholds,
    label_vocabulary=label_vocabulary,
    loss_reduction=loss_reduction,
    loss_fn=loss_fn,
    name=name,
  )


def regression_head(
  weight_column: Any = None,
  label_dimension: int = 1,
  loss_reduction: str = _MEAN,
  loss_fn: LossFn | None = None,
  inverse_link_fn: Callable[[Any], Any] | None = None,
  name: str | None = None,
) -> Any:
  """Returns a head for numbers, with the mean squared error.

  Args:
    weight_column: the examples' weights: a column, or the feature's name.
    label_dimension: how many numbers an example has.
    loss_reduction: a tf.losses.Reduction.
    loss_fn: of labels and logits, in the place of the squared error.
    inverse_link_fn: makes predictions of logits.
    name: of the head.
  """
  return wheel_names.regression_head(
    weight_column=weight_column,
    label_dimension=label_dimension,
    loss_reduction=loss_reduction,
    loss_fn=loss_fn,
    inverse_link_fn=inverse_link_fn,
    name=name,
  )


def poisson_regression_head(
  weight_column: Any = None,
  label_dimension: int = 1,
  loss_reduction: str = _MEAN,
  compute_full_loss: bool = True,
  name: str | None = None,
) -> Any:
  """Returns a head for counts, whose logarithms the logits are.

  Args:
    weight_column: the examples' weights: a column, or the feature's name.
    label_dimension: how many counts an example has.
    loss_reduction: a tf.losses.Reduction.
    compute_full_loss: whether the loss has the terms of labels only.
    name: of the head.
  """

  def loss_fn(labels: Any, logits: Any) -> Any:
    return tf.nn.log_poisson_loss(
      targets=labels, log_input=logits, compute_full_loss=compute_full_loss
    )

  return regression_head(
    weight_column, label_dimension, loss_reduction, loss_fn, tf.exp, name
  )


def logistic_regression_head(
  weight_column: Any = None,
  loss_reduction: str = _MEAN,
  name: str | None = None,
) -> Any:
  """Returns a head for probabilities: labels are numbers from 0 to 1.

  Args:
    weight_column: the examples' weights: a column, or the feature's name.
    loss_reduction: a tf.losses.Reduction.
    name: of the head.
  """

  def loss_fn(labels: Any, logits: Any) -> Any:
    inside = (
      tf.compat.v1.assert_non_negative(labels),
      (tf.compat.v1.assert_less_equal(labels, tf.ones([], labels.dtype))),
    )
    with tf.control_dependencies(inside):
      labels = tf.identity(labels)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

  return regression_head(
    weight_column, 1, loss_reduction, loss_fn, tf.sigmoid, name
  )
