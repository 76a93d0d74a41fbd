"""Names of tf.contrib.metrics.

Most streaming metrics are those of tf.compat.v1.metrics; tf.contrib's take the
predictions first and the labels second. What TensorFlow has not is tf-slim's.
"""

from collections.abc import Callable
from typing import Any

from compat.contrib import packages

import tensorflow as tf

_OF_SLIM = (
  "auc_using_histogram",
  "auc_with_confidence_intervals",
  "cohen_kappa",
  "count",
  "f1_score",
  "precision_at_recall",
  "precision_recall_at_equal_thresholds",
  "recall_at_precision",
  "sparse_recall_at_top_k",
  "streaming_concat",
  "streaming_covariance",
  "streaming_curve_points",
  "streaming_dynamic_auc",
  "streaming_false_negative_rate",
  "streaming_false_negative_rate_at_thresholds",
  "streaming_false_negatives_at_thresholds",
  "streaming_false_positive_rate",
  "streaming_false_positive_rate_at_thresholds",
  "streaming_false_positives_at_thresholds",
  "streaming_mean_cosine_distance",
  "streaming_mean_relative_error",
  "streaming_pearson_correlation",
  "streaming_precision_at_thresholds",
  "streaming_recall_at_k",
  "streaming_recall_at_thresholds",
  "streaming_sensitivity_at_specificity",
  "streaming_sparse_average_precision_at_k",
  "streaming_sparse_average_precision_at_top_k",
  "streaming_sparse_precision_at_k",
  "streaming_sparse_precision_at_top_k",
  "streaming_sparse_recall_at_k",
  "streaming_specificity_at_sensitivity",
  "streaming_true_negatives_at_thresholds",
  "streaming_true_positives_at_thresholds",
)

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = packages.getter(
  __name__, {name: f"tf_slim.metrics:{name}" for name in _OF_SLIM}
)

confusion_matrix = tf.compat.v1.confusion_matrix
set_difference = tf.sets.difference
set_intersection = tf.sets.intersection
set_size = tf.sets.size
set_union = tf.sets.union

_metrics = tf.compat.v1.metrics


def _predictions_first(metric: Callable[..., Any]) -> Callable[..., Any]:
  """Returns a metric of (labels, predictions) as tf.contrib has it."""

  def streaming(
    predictions: Any, labels: Any, *args: Any, **kwargs: Any
  ) -> Any:
    return metric(labels, predictions, *args, **kwargs)

  streaming.__name__ = f"streaming_{metric.__name__}"
  streaming.__doc__ = (
    f"As tf.compat.v1.metrics.{metric.__name__}, with predictions first."
  )
  return streaming


streaming_accuracy = _predictions_first(_metrics.accuracy)
streaming_auc = _predictions_first(_metrics.auc)
streaming_false_negatives = _predictions_first(_metrics.false_negatives)
streaming_false_positives = _predictions_first(_metrics.false_positives)
streaming_mean_absolute_error = _predictions_first(_metrics.mean_absolute_error)
streaming_mean_iou = _predictions_first(_metrics.mean_iou)
streaming_mean_squared_error = _predictions_first(_metrics.mean_squared_error)
streaming_precision = _predictions_first(_metrics.precision)
streaming_recall = _predictions_first(_metrics.recall)
streaming_root_mean_squared_error = _predictions_first(
  _metrics.root_mean_squared_error
)
streaming_true_negatives = _predictions_first(_metrics.true_negatives)
streaming_true_positives = _predictions_first(_metrics.true_positives)
streaming_mean = _metrics.mean
streaming_mean_tensor = _metrics.mean_tensor
streaming_percentage_less = _metrics.percentage_below


def accuracy(
  predictions: tf.Tensor,
  labels: tf.Tensor,
  weights: Any = None,
  name: str | None = None,
) -> tf.Tensor:
  """Returns the share of one batch's predictions that equal the labels.

  Args:
    predictions: of an integer, bool or string type, of any shape.
    labels: of the same type and shape.
    weights: None, or a factor per prediction.
    name: of the operations.

  Raises:
    ValueError: if the types differ.
  """
  predictions = tf.convert_to_tensor(predictions)
  labels = tf.convert_to_tensor(labels)
  if predictions.dtype != labels.dtype:
    raise ValueError(
      f"predictions are {predictions.dtype.name}, labels {labels.dtype.name}; "
      "cast one of them to the other's type."
    )
  with tf.name_scope(name or "accuracy"):
    right = tf.cast(tf.equal(predictions, labels), tf.float32)
    if weights is None:
      return tf.reduce_mean(right)
    weights = tf.cast(weights, tf.float32) * tf.ones_like(right)
    return tf.reduce_sum(right * weights) / tf.reduce_sum(weights)


def aggregate_metrics(
  *value_update_tuples: tuple[Any, Any],
) -> tuple[list[Any], list[Any]]:
  """Splits (value, update) pairs into all values and all updates.

  Args:
    *value_update_tuples: what streaming metrics return.

  Raises:
    ValueError: if there are none.
  """
  if not value_update_tuples:
    raise ValueError("aggregate_metrics needs at least one (value, update).")
  values, updates = zip(*value_update_tuples, strict=True)
  return list(values), list(updates)


def aggregate_metric_map(
  names_to_tuples: dict[str, tuple[Any, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
  """Splits named (value, update) pairs into named values and named updates.

  Args:
    names_to_tuples: maps each metric's name to what it returns.
  """
  values = {name: pair[0] for name, pair in names_to_tuples.items()}
  updates = {name: pair[1] for name, pair in names_to_tuples.items()}
  return values, updates


__all__ = sorted(
  {name for name in globals() if not name.startswith("_")}.union(_OF_SLIM)
  - {"Any", "Callable", "packages", "tf"}
)


def __dir__() -> list[str]:
  return __all__
