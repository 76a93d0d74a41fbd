"""The metrics of tf.contrib.learn's heads, by their names in 1.15."""

from collections.abc import Mapping, Sequence
from typing import Any

from compat.contrib.learn.constants import MetricKey, PredictionKey

import tensorflow as tf

metrics = tf.compat.v1.metrics


def accuracy(
  predictions: Mapping[str, Any], labels: Any, weights: Any
) -> dict[str, Any]:
  """Returns how often the predicted class is the label.

  Args:
    predictions: of the head.
    labels: classes.
    weights: of the examples, or None.
  """
  classes = predictions[PredictionKey.CLASSES]
  return {MetricKey.ACCURACY: metrics.accuracy(labels, classes, weights)}


def of_two_classes(
  predictions: Mapping[str, Any],
  labels: Any,
  weights: Any,
  thresholds: Sequence[float],
) -> dict[str, Any]:
  """Returns the metrics of a head for two classes.

  Args:
    predictions: of the head.
    labels: zeros and ones.
    weights: of the examples, or None.
    thresholds: of probabilities.
  """
  logistic = predictions[PredictionKey.LOGISTIC]
  found = accuracy(predictions, labels, weights) | {
    MetricKey.PREDICTION_MEAN: metrics.mean(logistic, weights),
    MetricKey.LABEL_MEAN: metrics.mean(labels, weights),
    MetricKey.ACCURACY_BASELINE: metrics.mean(labels, weights),
    MetricKey.AUC: _auc(labels, logistic, weights),
    MetricKey.AUC_PR: _auc(labels, logistic, weights, "PR"),
  }
  for one in thresholds:
    predicted = tf.cast(logistic >= one, tf.float32)
    given = (labels, logistic, [one], weights)
    found |= {
      MetricKey.ACCURACY_MEAN % one: metrics.accuracy(
        labels, predicted, weights
      ),
      MetricKey.PRECISION_MEAN % one: _squeezed(
        metrics.precision_at_thresholds(*given)
      ),
      MetricKey.RECALL_MEAN % one: _squeezed(
        metrics.recall_at_thresholds(*given)
      ),
    }
  return found


def of_a_class(
  predictions: Mapping[str, Any], ids: Any, weights: Any, class_id: int
) -> dict[str, Any]:
  """Returns the metrics of one class among several.

  Args:
    predictions: of the head.
    ids: the labels' classes.
    weights: of the examples, or None.
    class_id: the class.
  """
  means = {
    MetricKey.CLASS_PREDICTION_MEAN: metrics.mean(
      tf.equal(predictions[PredictionKey.CLASSES], class_id), weights
    ),
    MetricKey.CLASS_LABEL_MEAN: metrics.mean(tf.equal(ids, class_id), weights),
  }
  return {key % class_id: one for key, one in means.items()} | _of_a_column(
    predictions, weights, class_id
  )


def of_several_labels(
  predictions: Mapping[str, Any],
  labels: Any,
  weights: Any,
  class_ids: Sequence[int],
) -> dict[str, Any]:
  """Returns the metrics of a head for any number of classes.

  Args:
    predictions: of the head.
    labels: [batch, classes], zeros and ones.
    weights: of the examples, or None.
    class_ids: the classes that have metrics of their own.
  """
  probabilities = predictions[PredictionKey.PROBABILITIES]
  classes = predictions[PredictionKey.CLASSES]
  found = accuracy(predictions, labels, weights) | {
    MetricKey.AUC: _auc(labels, probabilities, weights),
    MetricKey.AUC_PR: _auc(labels, probabilities, weights, "PR"),
  }
  for one in class_ids:
    of_one = _column(weights, probabilities, one)
    given = (labels[:, one], probabilities[:, one], of_one)
    of_class = {
      MetricKey.CLASS_PREDICTION_MEAN: metrics.mean(classes[:, one], of_one),
      MetricKey.CLASS_LABEL_MEAN: metrics.mean(labels[:, one], of_one),
      MetricKey.CLASS_AUC: _auc(*given),
      MetricKey.CLASS_AUC_PR: _auc(*given, "PR"),
    }
    found |= {key % one: metric for key, metric in of_class.items()}
    found |= _of_a_column(predictions, weights, one)
  return found


def _of_a_column(
  predictions: Mapping[str, Any], weights: Any, index: int
) -> dict[str, Any]:
  """The means of one class's probabilities and logits."""
  return {
    name % index: metrics.mean(
      predictions[key][:, index], _column(weights, predictions[key], index)
    )
    for name, key in (
      (MetricKey.CLASS_PROBABILITY_MEAN, PredictionKey.PROBABILITIES),
      (MetricKey.CLASS_LOGITS_MEAN, PredictionKey.LOGITS),
    )
  }


def _column(weights: Any, like: Any, index: int) -> Any:
  """The weights of one column of a matrix."""
  if weights is None:
    return None
  return (weights * tf.ones_like(like))[:, index]


def _auc(
  labels: Any, predictions: Any, weights: Any, curve: str = "ROC"
) -> Any:
  labels = tf.cast(labels, tf.bool)
  if weights is not None:
    weights = weights * tf.ones_like(predictions)
  return metrics.auc(labels, predictions, weights, curve=curve)


def _squeezed(metric: tuple[Any, Any]) -> tuple[Any, Any]:
  value, update = metric
  return tf.squeeze(value), tf.squeeze(update)
