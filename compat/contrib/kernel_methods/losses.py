"""The hinge loss of several classes.

Crammer and Singer, "On the Algorithmic Implementation of Multiclass
Kernel-based Vector Machines", 2001.
"""

from typing import Any

import tensorflow as tf

_losses = tf.compat.v1.losses


def sparse_multiclass_hinge_loss(
  labels: Any,
  logits: Any,
  weights: Any = 1.0,
  scope: str | None = None,
  loss_collection: str | None = tf.compat.v1.GraphKeys.LOSSES,
  reduction: str = _losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> tf.Tensor:
  """Returns by how much another class comes within 1 of the right one, or more.

  Args:
    labels: classes, of int32 or int64, [batch] or [batch, 1].
    logits: [batch, classes].
    weights: of the examples: a number, [batch] or [batch, 1].
    scope: of the operations.
    loss_collection: that the loss is added to.
    reduction: of tf.compat.v1.losses.Reduction.

  Returns:
    The loss as `reduction` says, of float32.

  Raises:
    ValueError: for other dtypes and shapes.
  """
  with tf.compat.v1.name_scope(
    scope, "sparse_multiclass_hinge_loss", [logits, labels]
  ) as scope:
    logits = tf.cast(logits, tf.float32)
    weights = tf.convert_to_tensor(weights)
    _check(labels, logits, weights)
    count = tf.shape(logits)[1]
    is_class = tf.compat.v1.assert_less(labels, tf.cast(count, labels.dtype))
    with tf.control_dependencies([is_class]):
      labels = tf.reshape(labels, [-1])
    if weights.shape.rank:
      weights = tf.reshape(weights, [-1])
      weights.shape.assert_is_compatible_with(labels.shape)
    right = tf.gather(logits, labels[:, tf.newaxis], axis=1, batch_dims=1)
    margin = tf.one_hot(labels, count, on_value=0.0, off_value=1.0)
    found = tf.reduce_max(tf.nn.relu(logits - right + margin), axis=1)
    return _losses.compute_weighted_loss(
      found, weights, scope, loss_collection, reduction
    )


def _check(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> None:
  if logits.shape.rank != 2:
    raise ValueError(
      f"logits have the shape {logits.shape}; they must be [batch, classes]."
    )
  if labels.dtype not in (tf.int32, tf.int64):
    raise ValueError(
      f"labels are of {labels.dtype.name}; they must be of int32 or int64."
    )
  if labels.shape.rank not in (1, 2):
    raise ValueError(
      f"labels have the shape {labels.shape}; they must be [batch] or "
      "[batch, 1]."
    )
  if weights.shape.rank not in (0, 1, 2):
    raise ValueError(
      f"weights have the shape {weights.shape}; they must be a number, [batch] "
      "or [batch, 1]."
    )
