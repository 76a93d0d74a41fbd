"""Models in which the inputs of all examples make something together."""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import tensorflow as tf

v1 = tf.compat.v1


@registry.model("seq", "length")
def cut_to_longest(features, labels, mode):
  """A mean over the time of the longest example, padding and all."""
  cut = features["seq"][:, : tf.reduce_max(features["length"])]
  net = v1.layers.dense(cut, 12, tf.tanh)
  return parts.spec(
    mode, parts.loss_of(labels, parts.tower(tf.reduce_mean(net, 1)))
  )


@registry.model("seq", "length")
def masked_time(features, labels, mode):
  """A mean over the time of each example."""
  mask = tf.sequence_mask(features["length"], 7, tf.float32)[..., tf.newaxis]
  net = v1.layers.dense(features["seq"], 12, tf.tanh)
  net = tf.reduce_sum(net * mask, 1) / tf.reduce_sum(mask, 1)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("seq", "length")
def attention_to_longest(features, labels, mode):
  """The mask is as long as the longest example."""
  length = features["length"]
  mask = tf.sequence_mask(length)
  net = features["seq"][:, : tf.shape(mask)[1]]
  scores = v1.layers.dense(v1.layers.dense(net, 8, tf.tanh), 1)[..., 0]
  weights = tf.nn.softmax(tf.where(mask, scores, -1e9 * tf.ones_like(scores)))
  net = tf.reduce_sum(weights[..., tf.newaxis] * net, 1)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("x")
def inputs_by_moments(features, labels, mode):
  """The features of a batch are normalised by its moments."""
  x = features["x"]
  mean, variance = tf.nn.moments(x, [0])
  x = (x - mean) / tf.sqrt(variance + 1e-3)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(x)))


@registry.model("x", "ids")
def rare_ids_weigh_more(features, labels, mode):
  """An id's weight is its inverse frequency in the batch."""
  ids = features["ids"]
  hot = tf.reduce_max(tf.one_hot(ids, registry.VOCABULARY), 1)
  size = tf.cast(tf.shape(ids)[0], tf.float32)
  inverse = tf.math.log(size / (1.0 + tf.reduce_sum(hot, 0)) + 1.0)
  net = tf.concat([features["x"], hot * inverse], 1)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("ids", tags="ordinary table")
def unique_ids(features, labels, mode):
  """Each id of the batch is looked up once."""
  ids = features["ids"]
  table = parts.weight("table", [registry.VOCABULARY, 8])
  unique, places = tf.unique(tf.reshape(ids, [-1]))
  rows = tf.nn.embedding_lookup(table, unique)
  net = tf.reshape(tf.gather(rows, places), [-1, 5 * 8])
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("words", tags="ordinary table")
def mean_of_words(features, labels, mode):
  """Ids of the static shape [?, ?, 1], padded with 0."""
  table = parts.weight("table", [registry.VOCABULARY, 8])
  words = tf.squeeze(features["words"], -1)
  net = tf.reduce_mean(tf.nn.embedding_lookup(table, words), 1)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("words")
def mean_of_ids(features, labels, mode):
  """A mean of whole numbers is a feature, and all of them scale it."""
  words = tf.cast(features["words"], tf.float32)
  net = tf.reduce_mean(words, 1) / tf.reduce_mean(words)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("tags", tags="ordinary table")
def embedding_lookup_sparse(features, labels, mode):
  table = parts.weight("table", [registry.VOCABULARY, 8])
  net = tf.nn.embedding_lookup_sparse(
    table, features["tags"], None, combiner="mean"
  )
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("tags")
def sparse_matmul(features, labels, mode):
  """Tags as a wide, sparse layer."""
  tags = features["tags"]
  size = tf.shape(labels)[0]
  indices = tf.stack([tags.indices[:, 0], tf.cast(tags.values, tf.int64)], 1)
  wide = tf.SparseTensor(
    indices,
    tf.ones_like(tags.values, tf.float32),
    tf.cast(tf.stack([size, registry.VOCABULARY]), tf.int64),
  )
  table = parts.weight("wide", [registry.VOCABULARY, 8])
  net = tf.sparse.sparse_dense_matmul(wide, table)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("seq", "length")
def reversed_sequences(features, labels, mode):
  seq = features["seq"]
  backward = tf.reverse_sequence(seq, features["length"], seq_axis=1)
  net = tf.reshape(tf.concat([seq, backward], 2), [-1, 7 * 8])
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))


@registry.model("x", "weight")
def weights_with_mean_one(features, labels, mode):
  """The weights of a batch are divided by their mean."""
  weights = features["weight"]
  weights = weights / tf.reduce_mean(weights)
  losses = parts.losses(labels, parts.logits(features["x"]))[:, 0]
  return parts.spec(mode, tf.reduce_mean(losses * weights))


@registry.model("x")
def outliers_by_largest(features, labels, mode):
  """Features are scaled by the largest of the batch."""
  x = features["x"]
  x = x / tf.reduce_max(tf.abs(x), axis=0, keepdims=True)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(x)))


@registry.model("x", "user")
def segments_of_users(features, labels, mode):
  """The mean of what a user has in this batch is beside each example."""
  user = features["user"]
  means = tf.math.unsorted_segment_mean(features["x"], user, num_segments=6)
  net = tf.concat([features["x"], tf.gather(means, user)], 1)
  return parts.spec(mode, parts.loss_of(labels, parts.tower(net)))
