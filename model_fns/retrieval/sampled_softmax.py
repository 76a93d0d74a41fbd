"""In-batch sampled softmax: the items of a batch are each other's negatives."""

import dataclasses

import tensorflow as tf

# A logit that counts nothing, and has no gradient of NaN.
_NEVER = -1e9


@dataclasses.dataclass(frozen=True)
class Items:
  """Items that queries are compared with.

  Attributes:
    vectors: float32 [items, size].
    ids: int64 [items].
    log_q: The logarithm of how likely each is in a batch, float32 [items].
    intervals: The steps between batches with each, of which that is estimated;
      float32 [items].
  """

  vectors: tf.Tensor
  ids: tf.Tensor
  log_q: tf.Tensor
  intervals: tf.Tensor


def losses(
  queries: tf.Tensor, own: Items, others: Items, temperature: float
) -> tf.Tensor:
  """Returns the loss of each query: how surprising its own item is.

  The logits are inner products, divided by the temperature, minus log_q. An
  item that is in the batch more than once is no negative of itself: its other
  occurrences (accidental hits) do not count.

  It is not asked which row of `others` is a query's own: `others` may be the
  items of a larger batch, of which the queries are a part.

  Args:
    queries: float32 [queries, size].
    own: The item that belongs to each query.
    others: The items that queries are compared with, the own ones among them.
    temperature: Divisor of the logits.

  Returns:
    float32 [queries].
  """
  positive = tf.reduce_sum(queries * own.vectors, axis=1) / temperature
  positive -= own.log_q
  logits = tf.matmul(queries, others.vectors, transpose_b=True) / temperature
  logits -= others.log_q[tf.newaxis]
  is_same = tf.equal(own.ids[:, tf.newaxis], others.ids[tf.newaxis])
  negatives = tf.where(is_same, tf.fill(tf.shape(logits), _NEVER), logits)
  every = tf.concat([positive[:, tf.newaxis], negatives], axis=1)
  return tf.reduce_logsumexp(every, axis=1) - positive
