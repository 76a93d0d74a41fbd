"""Probabilities most of which are zero.

Martins and Astudillo, "From Softmax to Sparsemax: A Sparse Model of Attention
and Multi-Label Classification", 2016.
"""

import math
from typing import Any

import tensorflow as tf


def sparsemax(logits: Any, name: str | None = None) -> tf.Tensor:
  """Returns the point of the simplex that is closest to logits.

  Args:
    logits: [batch, classes], of float16, float32 or float64.
    name: of the operation.

  Returns:
    Probabilities [batch, classes]; a row is nan where the logits have nan, inf,
    or nothing but -inf.

  Raises:
    ValueError: if the logits are no matrix of floats.
  """
  with tf.compat.v1.name_scope(name, "sparsemax", [logits]):
    logits = tf.convert_to_tensor(logits, name="logits")
    dtype = logits.dtype
    if not dtype.is_floating or logits.shape.rank not in (None, 2):
      raise ValueError(
        f"logits are of {dtype.name} and have the shape {logits.shape}; give "
        "floats of the shape [batch, classes]."
      )
    largest, _ = tf.math.top_k(logits, tf.shape(logits)[1])
    sums = tf.cumsum(largest, axis=1)
    count = tf.cast(tf.range(1, tf.shape(logits)[1] + 1), dtype)
    # The first k of the sorted classes have a probability.
    is_in = 1 + count * largest > sums
    k = tf.reduce_sum(tf.cast(is_in, tf.int32), axis=1, keepdims=True)
    total = tf.gather(sums, tf.maximum(k, 1) - 1, axis=1, batch_dims=1)
    threshold = (total - 1) / tf.cast(k, dtype)
    found = tf.maximum(tf.zeros([], dtype), logits - threshold)
    is_wrong = tf.equal(k, 0) | tf.math.is_nan(sums[:, -1:])
    return tf.where(is_wrong, tf.constant(math.nan, dtype), found)


def sparsemax_loss(
  logits: Any, sparsemax: Any, labels: Any, name: str | None = None
) -> tf.Tensor:
  """Returns the convex loss whose gradient is `sparsemax(logits) - labels`.

  Args:
    logits: [batch, classes].
    sparsemax: `sparsemax(logits)`.
    labels: probabilities [batch, classes].
    name: of the operation.

  Returns:
    [batch].
  """
  with tf.compat.v1.name_scope(
    name, "sparsemax_loss", [logits, sparsemax, labels]
  ):
    logits = tf.convert_to_tensor(logits, name="logits")
    sparsemax = tf.convert_to_tensor(sparsemax, name="sparsemax")
    labels = tf.convert_to_tensor(labels, name="labels")
    zero = tf.zeros([], logits.dtype)
    # A logit of -inf counts for nothing where its factor is 0.
    counts = (sparsemax > 0) | tf.math.is_nan(sparsemax)
    reached = tf.where(counts, sparsemax * (logits - 0.5 * sparsemax), zero)
    is_left_out = tf.equal(labels, 0) & tf.math.is_inf(logits)
    wanted = tf.where(is_left_out, zero, labels * (0.5 * labels - logits))
    return tf.reduce_sum(reached + wanted, axis=1)
