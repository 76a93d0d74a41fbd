"""An encoder for classification: one class for each sequence."""

from collections.abc import Mapping

from model_fns import training
from model_fns.transformers import attention, feed_forward, layers, stack
from model_fns.transformers.architecture import Architecture

import tensorflow as tf

v1 = tf.compat.v1


def spec(
  features: Mapping[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  architecture: Architecture,
  networks: feed_forward.FeedForward,
  num_classes: int,
  train: training.Train,
) -> tf.estimator.EstimatorSpec:
  """Returns the EstimatorSpec of a classifier.

  It reads the mean of the vectors of a sequence's tokens.

  Args:
    features: "tokens", int [batch, length]; and perhaps "length", int [batch]
      or [batch, 1], how many of them are the sequence. Without it all are.
    labels: The classes, int [batch] or [batch, 1]; None to predict.
    mode: A key of `tf.estimator.ModeKeys`.
    architecture: The sizes.
    networks: The feed-forward networks of layers.
    num_classes: How many classes there are.
    train: Makes the training step of a loss.
  """
  is_training = mode == tf.estimator.ModeKeys.TRAIN
  ids = features["tokens"]
  architecture.check_length(ids)
  lengths, hidden, visible = features.get("length"), None, None
  if lengths is not None:
    lengths = tf.reshape(tf.cast(lengths, tf.int32), [-1, 1])
    visible = stack.all_positions(ids) < lengths
    hidden = attention.hide(visible)[:, tf.newaxis]
  tokens = stack.Tokens(ids, stack.all_positions(ids), hidden)
  with v1.variable_scope("encoder"):
    outputs = stack.apply(tokens, architecture, networks, is_training)
    pooled = _mean(outputs.vectors, visible)
    logits = layers.dense(pooled, num_classes, "classifier")
  predictions = {
    "logits": logits,
    "probabilities": tf.nn.softmax(logits),
    "class": tf.argmax(logits, axis=-1, output_type=tf.int32),
  }
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions)
  classes = tf.reshape(labels, [-1])
  loss = tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits)
  )
  loss = networks.said.loss(loss)
  if is_training:
    networks.said.summarize()
    return tf.estimator.EstimatorSpec(
      mode, predictions, loss, train_op=train(loss)
    )
  metrics = {
    **networks.said.metrics(),
    "accuracy": v1.metrics.accuracy(classes, predictions["class"]),
  }
  return tf.estimator.EstimatorSpec(
    mode, predictions, loss, eval_metric_ops=metrics
  )


def _mean(vectors: tf.Tensor, visible: tf.Tensor | None) -> tf.Tensor:
  """Returns the mean of each sequence's vectors.

  Args:
    vectors: float32 [batch, length, width].
    visible: Which of them count, booleans [batch, length]; None for all.
  """
  if visible is None:
    return tf.reduce_mean(vectors, axis=1)
  weights = tf.cast(visible, tf.float32)[:, :, tf.newaxis]
  return tf.reduce_sum(vectors * weights, 1) / tf.reduce_sum(weights, 1)
