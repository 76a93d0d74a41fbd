"""Models with what few have: data of their own, ragged features, fixed numbers.

A new model is entered here, at the end: others keep their turns of meshes.
"""

from tests.estimator_mp import parts
from tests.estimator_mp.models import registry

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


@registry.model("ragged", tags="ordinary table")
def padded_in_the_model(features, labels, mode):
  """All are as long as the longest one of the batch."""
  words = features["ragged"].to_tensor()
  table = parts.weight("table", [registry.VOCABULARY, 8])
  net = tf.reduce_mean(tf.nn.embedding_lookup(table, words), 1)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("tags", "ragged", "pairs", tags="ordinary table")
def widths_of_sparse_and_ragged(features, labels, mode):
  """Reads what the graph knows of their shapes."""
  tags, pairs = features["tags"], features["pairs"]
  table = parts.weight("table", [tags.shape[1], 4])
  net = tf.sparse.sparse_dense_matmul(tf.cast(tags, tf.float32), table)
  net += tf.cast(tf.sparse.to_dense(tags)[:, :4], tf.float32)
  net += tf.cast(features["ragged"].to_tensor(shape=[None, 4]), tf.float32)
  wide = tf.reshape(
    pairs.to_tensor(shape=[None, pairs.shape[1], 3]), [-1, 3 * pairs.shape[1]]
  )
  net = tf.concat([net, tf.cast(wide, tf.float32)], 1)
  return parts.spec(mode, parts.loss_of(labels, net / 10.0))


@registry.model("x")
def element_of_a_queue(features, labels, mode):
  """A step takes one element, for the whole batch."""
  queue = tf.queue.FIFOQueue(8, tf.float32, [])
  fill = queue.enqueue_many(np.arange(1, 9, dtype=np.float32))
  v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, fill)
  net = parts.tower(features["x"] * queue.dequeue())
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x")
def element_of_a_data_set(features, labels, mode):
  """A step draws one element, whichever op draws it."""
  data = tf.data.Dataset.range(1, 100).map(lambda i: tf.cast(i, "float") / 9)
  iterator = v1.data.make_initializable_iterator(data)
  v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
  scale = iterator.get_next_as_optional().get_value()
  net = parts.tower(features["x"] * scale)
  return parts.spec(mode, parts.loss_of(labels, net))


@registry.model("x")
def fixed_projection(features, labels, mode):
  """Features by a matrix, and by a row, that nobody trains."""
  fixed = tf.random.stateless_normal([12, 6], [1, 2])
  row = tf.random.stateless_uniform([1, 6], [3, 4])
  logits = parts.logits(tf.matmul(features["x"], fixed) * row)
  return parts.spec(mode, parts.mean_loss(labels, logits))


@registry.model("x")
def fixed_noise_in_function(features, labels, mode):
  """Each example gets the same, wherever it is in the batch."""

  @tf.function
  def encoded(net):
    fixed = tf.random.stateless_normal([4, 1], [1, 2])
    last = tf.random.stateless_normal([1, 4, 4], [3, 4])
    net = tf.reshape(net, [-1, 4, 4]) + tf.tile(fixed, [1, 4]) + last
    return tf.reshape(net, [-1, 16])

  net = v1.layers.dense(features["x"], 16, tf.tanh)
  return parts.spec(mode, parts.mean_loss(labels, parts.logits(encoded(net))))
