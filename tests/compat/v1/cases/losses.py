"""Losses of tf.contrib.losses, and its metric_learning."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import losses
from tensorflow.contrib.losses import metric_learning

_RANDOM = np.random.RandomState(4)
_X = _RANDOM.normal(size=(8, 5)).astype(np.float32)
_Y = _RANDOM.uniform(0.1, 0.9, size=(8, 3)).astype(np.float32)
_ONE_HOT = np.eye(3, dtype=np.float32)[_RANDOM.randint(3, size=8)]
_WEIGHTS = _RANDOM.randint(3, size=(8, 1)).astype(np.float32)
_CLASSES = np.array([0, 1, 2, 1, 0, 2, 0, 1])


def _outputs(activation=None, name="outputs", use_bias=True):
  x = tf.placeholder_with_default(_X, [8, 5])
  return tf.layers.dense(x, 3, activation, use_bias, name=name)


def _total(*terms):
  """Their sum is the loss that gradients are of; each is a result."""
  names = " ".join(one.op.name for one in losses.get_losses())
  results = {"term_%d" % i: one for i, one in enumerate(terms)}
  return dict(results, loss=losses.get_total_loss(), in_collection=names)


def regression():
  found = _outputs()
  wanted = tf.placeholder_with_default(_Y, [8, 3])
  weights = tf.placeholder_with_default(_WEIGHTS, [8, 1])
  return _total(
    losses.absolute_difference(found, wanted),
    losses.absolute_difference(found, wanted, weights, "named"),
    losses.mean_squared_error(found, wanted),
    losses.mean_squared_error(found, wanted, 0.5),
    losses.mean_squared_error(found, wanted, weights),
    losses.mean_pairwise_squared_error(found, wanted),
    losses.mean_pairwise_squared_error(found, wanted, weights[:, 0]),
  )


def probabilities():
  found = _outputs(tf.sigmoid)
  wanted = tf.placeholder_with_default(_ONE_HOT, [8, 3])
  weights = tf.placeholder_with_default(_WEIGHTS, [8, 1])
  return _total(
    losses.log_loss(found, wanted),
    losses.log_loss(found, wanted, weights, 0.01, "named"),
    losses.hinge_loss(found, wanted),
  )


def logits():
  found = _outputs()
  wanted = tf.placeholder_with_default(_ONE_HOT, [8, 3])
  numbers = tf.argmax(wanted, 1)
  weights = tf.placeholder_with_default(_WEIGHTS, [8, 1])
  return _total(
    losses.sigmoid_cross_entropy(found, wanted),
    losses.sigmoid_cross_entropy(found, wanted, weights, 0.1),
    losses.softmax_cross_entropy(found, wanted),
    losses.softmax_cross_entropy(found, wanted, weights[:, 0], 0.1, "named"),
    losses.sparse_softmax_cross_entropy(found, numbers),
    losses.sparse_softmax_cross_entropy(found, numbers, weights[:, 0]),
  )


def cosine():
  found = tf.nn.l2_normalize(_outputs(), 1)
  wanted = tf.nn.l2_normalize(tf.placeholder_with_default(_Y, [8, 3]), 1)
  return _total(
    losses.cosine_distance(found, wanted, 1),
    losses.cosine_distance(found, wanted, dim=1, weights=_WEIGHTS[:, 0]),
  )


def own_and_regularization():
  x = tf.placeholder_with_default(_X, [8, 5])
  regularizer = tf.contrib.layers.l2_regularizer(0.1)
  found = tf.layers.dense(x, 3, kernel_regularizer=regularizer)
  losses.add_loss(tf.reduce_mean(found))
  losses.add_loss(tf.reduce_sum(found), loss_collection="other")
  weighted = losses.compute_weighted_loss(tf.square(found), _WEIGHTS)
  (penalty,) = losses.get_regularization_losses()
  assert len(losses.get_losses(loss_collection="other")) == 1
  assert len(losses.get_losses(scope="nothing")) == 0
  results = _total(weighted, penalty)
  return dict(results, plain=losses.get_total_loss(False, "plain"))


def triplet():
  return {
    "loss": metric_learning.triplet_semihard_loss(
      _CLASSES.astype(np.int32), tf.nn.l2_normalize(_outputs(), 1), 0.7
    )
  }


def lifted_structure():
  return {
    "loss": metric_learning.lifted_struct_loss(
      _CLASSES.astype(np.int32), _outputs(use_bias=False)
    )
  }


def pairs():
  anchors, others = _outputs(name="anchors"), _outputs(name="others")
  return {
    "contrastive": metric_learning.contrastive_loss(
      (_CLASSES > 0).astype(np.int32), anchors, others, 2.0
    ),
    "npairs": metric_learning.npairs_loss(
      _CLASSES.astype(np.int32), anchors, others, 0.01
    ),
  }


def pairs_of_many_labels():
  anchors = _outputs(name="anchors")
  others = _outputs(name="others", use_bias=False)
  labels = [
    tf.SparseTensor(
      indices=np.array([[0], [1]]), values=[number, 3], dense_shape=[2]
    )
    for number in _CLASSES
  ]
  return {
    "npairs": metric_learning.npairs_loss_multilabel(labels, anchors, others)
  }
