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


def absolute_difference():
  return _both(tf.losses.absolute_difference, _Y)


def mean_squared_error():
  return _both(tf.losses.mean_squared_error, _Y)


def huber_loss():
  return _both(tf.losses.huber_loss, _Y, delta=0.3)


def log_loss():
  x = tf.sigmoid(_logits())
  return {"y": tf.losses.log_loss(_ONE_HOT, x, _W)}


def hinge_loss():
  x = _logits()
  return {"y": tf.losses.hinge_loss(_ONE_HOT, x, _W)}


def cosine_distance():
  x = tf.nn.l2_normalize(_logits(), dim=1)
  y = tf.nn.l2_normalize(_Y, 1)
  return {
    "axis": tf.losses.cosine_distance(y, x, axis=1),
    "dim": tf.losses.cosine_distance(y, x, dim=1, weights=_W),
  }


def mean_pairwise_squared_error():
  return {"y": tf.losses.mean_pairwise_squared_error(_Y, _logits(), _W)}


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


def raw_cross_entropies():
  x = _logits()
  return {
    "softmax": tf.nn.softmax_cross_entropy_with_logits(
      labels=_ONE_HOT, logits=x
    ),
    "v2": tf.nn.softmax_cross_entropy_with_logits_v2(_ONE_HOT, x),
    "sparse": tf.nn.sparse_softmax_cross_entropy_with_logits(
      labels=_CLASSES, logits=x
    ),
    "sigmoid": tf.nn.sigmoid_cross_entropy_with_logits(
      labels=_ONE_HOT, logits=x
    ),
    "weighted": tf.nn.weighted_cross_entropy_with_logits(_ONE_HOT, x, 2.0),
    "targets": tf.nn.weighted_cross_entropy_with_logits(
      targets=_ONE_HOT, logits=x, pos_weight=2.0
    ),
    "poisson": tf.nn.log_poisson_loss(_ONE_HOT, x, compute_full_loss=True),
  }


def no_gradient_to_labels():
  labels = tf.get_variable("labels", initializer=_ONE_HOT)
  y = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=_logits())
  z = tf.nn.softmax_cross_entropy_with_logits_v2(
    labels=tf.get_variable("other", initializer=_ONE_HOT), logits=_logits()
  )
  return {"y": y, "z": z}


def sampled_losses():
  weights = tf.get_variable("weights", [20, 4])
  biases = tf.get_variable("biases", [20])
  labels = tf.constant(_CLASSES[:, None], tf.int64)
  x = _logits()
  sampled = tf.nn.uniform_candidate_sampler(labels, 1, 5, True, 20, seed=3)
  return {
    "nce": tf.nn.nce_loss(
      weights, biases, labels, x, 5, 20, sampled_values=sampled
    ),
    "softmax": tf.nn.sampled_softmax_loss(
      weights, biases, labels, x, 5, 20, sampled_values=sampled
    ),
  }


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


def metrics_of_numbers():
  return _metric(
    tf.metrics.mean(_X, _W),
    tf.metrics.mean_tensor(_X),
    tf.metrics.mean_squared_error(_Y, _X),
    tf.metrics.mean_absolute_error(_Y, _X, _W),
    tf.metrics.root_mean_squared_error(_Y, _X),
    tf.metrics.mean_relative_error(_Y, _X, np.abs(_Y) + 1),
    tf.metrics.mean_cosine_distance(_Y, _X, 1),
    tf.metrics.percentage_below(_X, 0.1),
  )


def metrics_of_thresholds():
  chance = tf.sigmoid(tf.constant(_X))
  labels = _ONE_HOT > 0
  return _metric(
    tf.metrics.auc(labels, chance),
    tf.metrics.auc(labels, chance, curve="PR", num_thresholds=50),
    tf.metrics.auc(
      labels, chance, summation_method="careful_interpolation", curve="PR"
    ),
    tf.metrics.precision_at_thresholds(labels, chance, [0.3, 0.6]),
    tf.metrics.recall_at_thresholds(labels, chance, [0.3, 0.6]),
    tf.metrics.sensitivity_at_specificity(labels, chance, 0.5),
    tf.metrics.specificity_at_sensitivity(labels, chance, 0.5),
  )


def metrics_at_k():
  labels = tf.constant(_CLASSES[:, None], tf.int64)
  return _metric(
    tf.metrics.precision_at_k(labels, _X, 2),
    tf.metrics.recall_at_k(labels, _X, 2),
    tf.metrics.average_precision_at_k(labels, _X, 2),
  )
