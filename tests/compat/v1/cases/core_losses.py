"""tf.losses and tf.metrics."""

import numpy as np
import tensorflow as tf

_R = np.random.RandomState(5)
_X = _R.normal(size=(6, 4)).astype(np.float32)
_Y = _R.normal(size=(6, 4)).astype(np.float32)
_W = np.array([[1], [0], [2], [0.5], [1], [0]], np.float32)
_CLASSES = np.array([0, 3, 1, 2, 2, 0])
_ONE_HOT = np.eye(4, dtype=np.float32)[_CLASSES]


def _logits():
  x = tf.placeholder_with_default(_X, [None, 4])
  return tf.layers.dense(x, 4)


def _both(function, labels, **kwargs):
  x = _logits()
  results = {"plain": function(labels, x, **kwargs)}
  results["weighted"] = function(labels, x, weights=_W, **kwargs)
  for name in ("SUM", "MEAN", "SUM_OVER_BATCH_SIZE", "NONE"):
    if name == "NONE":
      results["collected"] = len(tf.losses.get_losses())
      results["total"] = tf.losses.get_total_loss()
    results[name] = function(
      labels, x, _W, reduction=getattr(tf.losses.Reduction, name), **kwargs
    )
  return results


def mean_squared_error():
  return _both(tf.losses.mean_squared_error, _Y)


def sigmoid_cross_entropy():
  x = _logits()
  return {
    "plain": tf.losses.sigmoid_cross_entropy(_ONE_HOT, x),
    "smooth": tf.losses.sigmoid_cross_entropy(
      _ONE_HOT, x, _W, label_smoothing=0.1
    ),
  }


def softmax_cross_entropy():
  x = _logits()
  return {
    "plain": tf.losses.softmax_cross_entropy(_ONE_HOT, x),
    "smooth": tf.losses.softmax_cross_entropy(
      onehot_labels=_ONE_HOT, logits=x, weights=_W[:, 0], label_smoothing=0.1
    ),
  }


def sparse_softmax_cross_entropy():
  x = _logits()
  return {
    "plain": tf.losses.sparse_softmax_cross_entropy(_CLASSES, x),
    "columns": tf.losses.sparse_softmax_cross_entropy(
      _CLASSES[:, None], x, weights=_W
    ),
  }


def no_gradient_to_labels():
  labels = tf.get_variable("labels", initializer=_ONE_HOT)
  y = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=_logits())
  z = tf.nn.softmax_cross_entropy_with_logits_v2(
    labels=tf.get_variable("other", initializer=_ONE_HOT), logits=_logits()
  )
  return {"y": y, "z": z}


def _metric(*pairs):
  values = {"value%d" % k: value for k, (value, _) in enumerate(pairs)}
  values["names"] = " ".join(
    "%s %s" % (value.name, update.name) for value, update in pairs
  )
  return values, tf.group(*[update for _, update in pairs])


def metrics_of_classes():
  guess = tf.argmax(tf.constant(_X), 1)
  return _metric(
    tf.metrics.accuracy(_CLASSES, guess),
    tf.metrics.mean_per_class_accuracy(tf.constant(_CLASSES), guess, 4),
    tf.metrics.mean_iou(tf.constant(_CLASSES), guess, 4),
    tf.metrics.precision(_CLASSES > 1, guess > 1, np.arange(6.0)),
    tf.metrics.recall(_CLASSES > 1, guess > 1),
    tf.metrics.true_positives(_CLASSES > 1, guess > 1),
    tf.metrics.false_negatives(_CLASSES > 1, guess > 1),
  )


def metrics_at_k():
  labels = tf.constant(_CLASSES[:, None], tf.int64)
  return _metric(
    tf.metrics.precision_at_k(labels, _X, 2),
    tf.metrics.recall_at_k(labels, _X, 2),
    tf.metrics.average_precision_at_k(labels, _X, 2),
  )
