"""A decoder: a language model, which predicts the next token."""

from collections.abc import Mapping
from typing import Any

from model_fns import training
from model_fns.transformers import feed_forward, stack
from model_fns.transformers import sampling as sampling_lib
from model_fns.transformers.architecture import Architecture

import tensorflow as tf

v1 = tf.compat.v1


def spec(
  features: Mapping[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  architecture: Architecture,
  networks: feed_forward.FeedForward,
  sampling: sampling_lib.Sampling,
  train: training.Train,
) -> tf.estimator.EstimatorSpec:
  """Returns the EstimatorSpec of a language model.

  The logits of a token are the products of a vector and the token's embedding:
  the table is that of the input (Press and Wolf, 2017, arXiv:1608.05859).

  Args:
    features: "tokens", int [batch, length]; to train and to evaluate, perhaps
      "weights", float [batch, length], of labels; to predict, perhaps "length",
      int [batch] or [batch, 1], how many of the tokens are a prompt.
    labels: The tokens that come next, int [batch, length]; None to predict.
    mode: A key of `tf.estimator.ModeKeys`.
    architecture: The sizes.
    networks: The feed-forward networks of layers.
    sampling: How it samples tokens when it predicts.
    train: Makes the training step of a loss.
  """
  is_training = mode == tf.estimator.ModeKeys.TRAIN

  def decode(tokens: stack.Tokens) -> stack.Outputs:
    with v1.variable_scope("decoder", reuse=v1.AUTO_REUSE):
      return stack.apply(tokens, architecture, networks, is_training)

  ids = features["tokens"]
  is_predicting = mode == tf.estimator.ModeKeys.PREDICT
  architecture.check_length(ids, sampling.length if is_predicting else 0)
  if is_predicting:
    lengths = features.get("length")
    return tf.estimator.EstimatorSpec(
      mode, _predictions(ids, lengths, sampling, decode)
    )
  positions, hidden = stack.all_positions(ids), stack.no_later_tokens(ids)
  outputs = decode(stack.Tokens(ids, positions, hidden))
  rows = tf.reshape(outputs.vectors, [-1, architecture.hidden_size])
  logits = logits_of(rows, outputs.table)
  targets = tf.reshape(labels, [-1])
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
  weights = features.get("weights")
  if weights is not None:
    weights = tf.reshape(tf.cast(weights, tf.float32), [-1])
  loss = networks.said.loss(_mean(losses, weights))
  if is_training:
    networks.said.summarize()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train(loss))
  mean, update = v1.metrics.mean(losses, weights)
  metrics: dict[str, Any] = {
    **networks.said.metrics(),
    "cross_entropy": (mean, update),
    "perplexity": (tf.exp(mean), update),
    "accuracy": v1.metrics.accuracy(
      targets, tf.argmax(logits, axis=-1, output_type=tf.int32), weights
    ),
  }
  return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


def logits_of(vectors: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
  """Returns a logit for each token, float32 [rows, vocabulary].

  Args:
    vectors: float32 [rows, hidden size].
    table: The tokens' embeddings, float32 [vocabulary, hidden size].
  """
  return tf.matmul(vectors, table, transpose_b=True)


def _mean(losses: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
  """Returns the mean of losses that have weights, or not."""
  if weights is None:
    return tf.reduce_mean(losses)
  return tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)


def _predictions(
  ids: tf.Tensor,
  lengths: tf.Tensor | None,
  sampling: sampling_lib.Sampling,
  decode: sampling_lib.Decode,
) -> dict[str, tf.Tensor]:
  """Returns what a decoder predicts that goes on with prompts."""
  if lengths is not None:
    lengths = tf.reshape(lengths, [-1])
  logits, tokens = sampling_lib.go_on(ids, lengths, sampling, decode, logits_of)
  predictions = {"logits": logits}
  if tokens is not None:
    predictions["tokens"] = tokens
  return predictions
