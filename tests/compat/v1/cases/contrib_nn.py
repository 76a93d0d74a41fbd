"""tf.contrib.nn."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(1)
_X = _RANDOM.normal(size=(4, 6)).astype(np.float32)
_RANDOM.normal(size=(2, 5, 3))  # Drawn when 1.15.5 ran.
_LABELS = np.abs(_RANDOM.normal(size=(4, 6))).astype(np.float32)
_LABELS /= _LABELS.sum(1, keepdims=True)
_CLASSES = np.array([[3], [0], [11], [3]])


def _x(array=_X):
  value = tf.placeholder_with_default(array, [None, array.shape[1]])
  return value * tf.get_variable("scale", initializer=np.ones(6, np.float32))


def activations():
  nn = tf.contrib.nn
  x = _x()
  alpha = tf.get_variable("alpha", initializer=0.7)
  return {
    "softplus": nn.scaled_softplus(x, alpha),
    "clipped": nn.scaled_softplus(x, 0.3, clip=0.8),
  }


def alpha_dropout():
  nn = tf.contrib.nn
  x = _x()
  return {
    "dropped": nn.alpha_dropout(x, 0.7),
    "seeded": nn.alpha_dropout(x, tf.constant(0.4), [4, 1], seed=3),
    "kept": nn.alpha_dropout(x, 1.0),
  }


def cross_entropies():
  nn = tf.contrib.nn
  x = _x()
  labels = tf.placeholder_with_default(_LABELS, [None, 6])
  return {
    "softmax": nn.deprecated_flipped_softmax_cross_entropy_with_logits(
      x, labels
    ),
    "first_axis": nn.deprecated_flipped_softmax_cross_entropy_with_logits(
      x, labels, dim=0
    ),
    "sparse": nn.deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
      x, tf.argmax(labels, 1)
    ),
    "sigmoid": nn.deprecated_flipped_sigmoid_cross_entropy_with_logits(
      x, labels
    ),
  }


def sampled_softmax():
  weights = tf.get_variable("weights", [12, 6])
  biases = tf.get_variable("biases", [12])
  loss = tf.contrib.nn.sampled_sparse_softmax_loss(
    weights, biases, tf.constant(_CLASSES), _x(), num_sampled=5, num_classes=12
  )
  sampled = tf.nn.uniform_candidate_sampler(
    tf.constant(_CLASSES), 1, 4, True, 12, seed=2
  )
  given = tf.contrib.nn.sampled_sparse_softmax_loss(
    weights,
    biases,
    tf.constant(_CLASSES),
    _x_again(),
    4,
    12,
    sampled_values=sampled,
    remove_accidental_hits=False,
    partition_strategy="div",
  )
  return {"loss_of_each": loss, "given": given}


def _x_again():
  with tf.variable_scope(tf.get_variable_scope(), reuse=True):
    return _x()


def nth_element():
  x = tf.placeholder_with_default(_X, [None, 6])
  return {
    "second": tf.contrib.nn.nth_element(x, 1),
    "largest": tf.contrib.nn.nth_element(x, n=tf.constant(0), reverse=True),
  }
