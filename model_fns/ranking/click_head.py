"""The head of a model of clicks: loss, metrics and predictions."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_NUM_THRESHOLDS = 1000


def create_spec(
  features: Any,
  labels: tf.Tensor | None,
  mode: str,
  logits: tf.Tensor,
  train_op_fn: Callable[[tf.Tensor], tf.Operation],
) -> tf.estimator.EstimatorSpec:
  """Returns the EstimatorSpec of a model of clicks.

  The loss is the mean cross-entropy of examples. Predictions and signatures are
  those of `tf.estimator.BinaryClassHead`.

  Evaluation gives `auc`, `logloss`, and `calibration`: the mean predicted
  probability by the share of clicks, which is 1 if a model is right on the
  whole (McMahan et al., 2013, Ad click prediction: a view from the trenches).
  It is 0 if there is no click.

  Args:
    features: The features.
    labels: 1 for a click and 0 for none, [batch] or [batch, 1]; None to
      predict.
    mode: A `tf.estimator.ModeKeys`.
    logits: float32 [batch, 1].
    train_op_fn: Makes the training step from the loss.
  """
  if labels is not None and labels.shape.rank == 1:
    labels = labels[:, tf.newaxis]
  head = tf.estimator.BinaryClassHead()
  spec = head.create_estimator_spec(
    features=features,
    mode=mode,
    logits=logits,
    labels=labels,
    train_op_fn=train_op_fn,
  )
  if mode != tf.estimator.ModeKeys.EVAL:
    return spec
  return spec._replace(eval_metric_ops=_metrics(labels, logits))


def _metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
  metrics = tf.compat.v1.metrics
  clicks = tf.cast(labels, tf.float32)
  probabilities = tf.sigmoid(logits)
  losses = tf.nn.sigmoid_cross_entropy_with_logits(clicks, logits)
  of_clicks = metrics.mean(clicks)
  of_probabilities = metrics.mean(probabilities)
  return {
    "auc": metrics.auc(clicks, probabilities, num_thresholds=_NUM_THRESHOLDS),
    "logloss": metrics.mean(losses),
    "calibration": tuple(
      map(tf.math.divide_no_nan, of_probabilities, of_clicks)
    ),
  }
