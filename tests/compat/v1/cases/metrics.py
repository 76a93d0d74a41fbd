"""Metrics of tf.contrib.metrics, over three batches."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import metrics

_RANDOM = np.random.RandomState(3)
_SCORES = _RANDOM.uniform(size=(3, 8)).astype(np.float32)
_RANDOM.normal(size=(3, 8))  # Drawn when 1.15.5 ran.
_LABELS = _RANDOM.randint(2, size=(3, 8)).astype(np.int64)
_WEIGHTS = _RANDOM.randint(3, size=(3, 8)).astype(np.float32)
_CLASSES = _RANDOM.randint(4, size=(3, 8)).astype(np.int64)
_OTHER_CLASSES = _RANDOM.randint(4, size=(3, 8)).astype(np.int64)
_LOGITS = _RANDOM.normal(size=(3, 8, 4)).astype(np.float32)


def _streams(*arrays):
  """The batch of the step of each array, and what goes to the next batch."""
  step = tf.get_variable(
    "batch", [], tf.int32, tf.zeros_initializer(), trainable=False
  )
  inputs = [tf.placeholder_with_default(one, one.shape) for one in arrays]
  batches = [tf.gather(one, step % 3) for one in inputs]
  for batch, one in zip(batches, arrays):
    batch.set_shape(one.shape[1:])
  return batches, step


def _run(step, pairs):
  """Results and train_op of pairs of a value and an update."""
  values, updates = metrics.aggregate_metric_map(pairs)
  with tf.control_dependencies(list(updates.values())):
    train_op = step.assign_add(1).op
  # What is read of a batch, "accuracy", is not there before its update.
  names = [one.op.name for one in tf.local_variables()]
  return dict(values, local_variables=" ".join(names)), train_op


def confusion():
  (scores, labels, weights), step = _streams(_SCORES, _LABELS, _WEIGHTS)
  truth = tf.cast(labels, tf.bool)
  hard = tf.greater(scores, 0.4)
  found = {}
  for name in (
    "streaming_true_positives",
    "streaming_true_negatives",
    "streaming_false_positives",
    "streaming_false_negatives",
    "streaming_false_positive_rate",
    "streaming_false_negative_rate",
    "streaming_precision",
    "streaming_recall",
    "streaming_accuracy",
  ):
    metric = getattr(metrics, name)
    found[name] = metric(hard, truth)
    found[name + "_weighted"] = metric(hard, truth, weights, name="named")
  return _run(step, found)


def areas_and_operating_points():
  (scores, labels, weights), step = _streams(_SCORES, _LABELS, _WEIGHTS)
  truth = tf.cast(labels, tf.bool)
  return _run(
    step,
    {
      "auc": metrics.streaming_auc(scores, truth, weights, 20),
      "pr": metrics.streaming_auc(scores, truth, curve="PR", num_thresholds=30),
      "curve": metrics.streaming_curve_points(truth, scores, weights, 5),
      "dynamic": metrics.streaming_dynamic_auc(truth, scores),
      "specificity": metrics.streaming_specificity_at_sensitivity(
        scores, truth, 0.7, weights, 20
      ),
      "sensitivity": metrics.streaming_sensitivity_at_specificity(
        scores, truth, 0.7, num_thresholds=20
      ),
      "f1": metrics.f1_score(truth, scores, weights, 20),
      "recall": metrics.recall_at_precision(truth, scores, 0.6, weights, 20),
      "precision": metrics.precision_at_recall(truth, scores, 0.6, None, 20),
    },
  )


def auc_by_histogram():
  labels = tf.placeholder_with_default(_LABELS.astype(bool).ravel(), [24])
  scores = tf.placeholder_with_default(_SCORES.ravel(), [24])
  value, update = metrics.auc_using_histogram(labels, scores, [0.0, 1.0], 10)
  return {"auc": value}, update


def classes():
  (found, wanted, weights), step = _streams(_CLASSES, _OTHER_CLASSES, _WEIGHTS)
  results, train_op = _run(
    step,
    {
      "iou": metrics.streaming_mean_iou(found, wanted, 4),
      "iou_weighted": metrics.streaming_mean_iou(found, wanted, 4, weights),
      "kappa": metrics.cohen_kappa(wanted, found, 4),
      "kappa_weighted": metrics.cohen_kappa(wanted, found, 4, weights),
    },
  )
  results["accuracy"] = metrics.accuracy(found, wanted)
  results["accuracy_weighted"] = metrics.accuracy(found, wanted, weights)
  results["confusion"] = metrics.confusion_matrix(wanted, found)
  results["confusion_weighted"] = metrics.confusion_matrix(
    wanted, found, 5, tf.float32, weights=weights
  )
  return results, train_op


def at_k():
  (logits, labels, weights), step = _streams(
    _LOGITS, _CLASSES[..., np.newaxis], _WEIGHTS
  )
  _, top = tf.nn.top_k(logits, 2)
  top = tf.cast(top, tf.int64)
  return _run(
    step,
    {
      "recall": metrics.streaming_recall_at_k(logits, labels[:, 0], 2, weights),
      "sparse_recall": metrics.streaming_sparse_recall_at_k(logits, labels, 2),
      "recall_of_class": metrics.streaming_sparse_recall_at_k(
        logits, labels, 2, class_id=1, weights=weights
      ),
      "recall_of_top": metrics.sparse_recall_at_top_k(labels, top),
      "precision": metrics.streaming_sparse_precision_at_k(
        logits, labels, 2, weights=weights
      ),
      "precision_of_top": metrics.streaming_sparse_precision_at_top_k(
        top, labels, class_id=2
      ),
      "average": metrics.streaming_sparse_average_precision_at_k(
        logits, labels, 3
      ),
      "average_of_top": metrics.streaming_sparse_average_precision_at_top_k(
        top, labels, weights
      ),
    },
  )


def sets():
  a = tf.placeholder_with_default(np.array([[1, 2, 3], [4, 4, 5]]), [2, 3])
  b = tf.placeholder_with_default(np.array([[3, 1], [6, 4]]), [2, 2])
  return {
    "difference": metrics.set_difference(a, b),
    "other_difference": metrics.set_difference(a, b, aminusb=False),
    "intersection": metrics.set_intersection(a, b),
    "union": metrics.set_union(a, b),
    "size": metrics.set_size(metrics.set_union(a, b)),
  }


def collections():
  (scores, labels), step = _streams(_SCORES, _LABELS)
  value, update = metrics.streaming_accuracy(
    tf.cast(scores > 0.5, tf.int64),
    labels,
    metrics_collections=["values"],
    updates_collections="updates",
  )
  assert tf.get_collection("values") == [value]
  assert tf.get_collection("updates") == [update]
  values, updates = metrics.aggregate_metrics((value, update), (value, update))
  assert list(updates) == [update, update]
  local = [one.op.name for one in tf.local_variables()]
  with tf.control_dependencies([update]):
    train_op = step.assign_add(1).op
  return {"value": values[1], "local": " ".join(local)}, train_op
