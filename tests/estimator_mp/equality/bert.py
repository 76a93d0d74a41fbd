"""BERT as its code pretrains it (Devlin et al., 2018, arXiv:1810.04805).

A masked language model whose head shares the table of words, and a classifier
of pairs, in the way of the published code: matrices in place of batches, masks
that are added to scores, losses of `log_softmax` and `one_hot`, positions that
are gathered from flat rows, and an Adam of its own.
"""

import functools

from estimator_mp.graph import shapes
from tests.estimator_mp.models import networks

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

BATCH = shapes.NOMINAL_BATCH  # Unknown dimensions are planned for as this.
LENGTH, MASKED = 6, 2
# All heads together are wider than the stream, and there are three types of
# tokens, so that what is split has shapes of its own.
WORDS, WIDTH, HEADS, HEAD_WIDTH, INNER = 120, 16, 4, 6, 72
LAYERS, _TYPES = 2, 3

_rng = np.random.RandomState(31)
EXAMPLES = {
  "ids": _rng.randint(WORDS, size=[2 * BATCH, LENGTH]).astype(np.int32),
  "mask": (np.arange(LENGTH) < _rng.randint(3, 7, [2 * BATCH, 1])) * 1,
  "types": _rng.randint(_TYPES, size=[2 * BATCH, LENGTH]).astype(np.int32),
  "where": _rng.randint(LENGTH, size=[2 * BATCH, MASKED]).astype(np.int32),
  "words": _rng.randint(WORDS, size=[2 * BATCH, MASKED]).astype(np.int32),
  "weights": _rng.randint(2, size=[2 * BATCH, MASKED]).astype(np.float32),
}
LABELS = _rng.randint(2, size=[2 * BATCH]).astype(np.int32)


def input_fn():
  data = tf.data.Dataset.from_tensor_slices((EXAMPLES, LABELS))
  return data.batch(BATCH, drop_remainder=True)


def _sizes(tensor):
  """Returns the sizes of a tensor, as numbers where they are known."""
  known, actual = tensor.shape.as_list(), tf.shape(tensor)
  return [actual[i] if x is None else x for i, x in enumerate(known)]


def _initializer():
  return v1.truncated_normal_initializer(stddev=0.2, seed=5)


def _gelu(x):
  return 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0).astype(np.float32)))


def _dense(net, units, name, activation=None):
  return v1.layers.dense(
    net, units, activation, name=name, kernel_initializer=_initializer()
  )


def _layer_norm(net):
  with v1.variable_scope("LayerNorm"):
    shape = net.shape[-1:]
    beta = v1.get_variable("beta", shape, initializer=v1.zeros_initializer())
    gamma = v1.get_variable("gamma", shape, initializer=v1.ones_initializer())
    mean, variance = tf.nn.moments(net, [-1], keepdims=True)
    return tf.nn.batch_normalization(net, mean, variance, beta, gamma, 1e-12)


def _embeddings(features):
  """Returns what the layers read, [batch, length, width], and the table."""
  create = functools.partial(v1.get_variable, initializer=_initializer())
  table = create("word_embeddings", [WORDS, WIDTH])
  net = tf.nn.embedding_lookup(table, features["ids"])
  batch, length, width = _sizes(net)
  types = tf.one_hot(tf.reshape(features["types"], [-1]), _TYPES)
  types = tf.matmul(types, create("token_type_embeddings", [_TYPES, width]))
  net += tf.reshape(types, [batch, length, width])
  positions = create("position_embeddings", [2 * LENGTH, width])
  with tf.control_dependencies([v1.assert_less_equal(length, 2 * LENGTH)]):
    positions = tf.slice(positions, [0, 0], [length, -1])
  return _layer_norm(net + tf.reshape(positions, [1, length, width])), table


def _attention(net, mask, batch):
  """Returns what heads make of a matrix, [batch * length, heads * width]."""

  def by_head(name):
    rows = _dense(net, HEADS * HEAD_WIDTH, name)
    shape = [batch, LENGTH, HEADS, HEAD_WIDTH]
    return tf.transpose(tf.reshape(rows, shape), [0, 2, 1, 3])

  with v1.variable_scope("self"):
    query, key, value = map(by_head, ("query", "key", "value"))
    scores = tf.matmul(query, key, transpose_b=True)
    scores = tf.multiply(scores, 1.0 / np.sqrt(float(HEAD_WIDTH)))
    adder = (1.0 - tf.cast(mask, tf.float32)) * -10000.0
    scores += tf.expand_dims(adder, axis=[1])
    mixed = tf.matmul(tf.nn.softmax(scores), value)
    mixed = tf.transpose(mixed, [0, 2, 1, 3])
    return tf.reshape(mixed, [batch * LENGTH, HEADS * HEAD_WIDTH])


def _encoder(net, mask, num_layers):
  """Returns what the last layer makes, [batch, length, width]."""
  batch, length, width = _sizes(net)
  mask = tf.reshape(mask, [batch, 1, length])
  mask = tf.ones([batch, length, 1]) * tf.cast(mask, tf.float32)
  net = tf.reshape(net, [-1, width])
  for i in range(num_layers):
    with v1.variable_scope(f"layer_{i}"):
      with v1.variable_scope("attention"):
        heads = _attention(net, mask, batch)
        with v1.variable_scope("output"):
          net = _layer_norm(_dense(heads, width, "dense") + net)
      with v1.variable_scope("intermediate"):
        inner = _dense(net, INNER, "dense", _gelu)
      with v1.variable_scope("output"):
        net = _layer_norm(_dense(inner, width, "dense") + net)
  return tf.reshape(net, [batch, length, width])


def _masked_words(net, features, table):
  """Returns the loss of the words that were masked, and the logits."""
  batch, length, width = _sizes(net)
  offsets = tf.reshape(tf.range(0, batch, dtype=tf.int32) * length, [-1, 1])
  where = tf.reshape(features["where"] + offsets, [-1])
  net = tf.gather(tf.reshape(net, [batch * length, width]), where)
  with v1.variable_scope("cls"):
    net = _layer_norm(_dense(net, width, "transform", _gelu))
    bias = v1.get_variable(
      "output_bias", [WORDS], initializer=v1.zeros_initializer()
    )
    logits = tf.nn.bias_add(tf.matmul(net, table, transpose_b=True), bias)
    log_probs = tf.nn.log_softmax(logits, axis=-1)
    words = tf.one_hot(tf.reshape(features["words"], [-1]), WORDS)
    losses = -tf.reduce_sum(log_probs * words, axis=[-1])
    weights = tf.reshape(features["weights"], [-1])
    loss = tf.reduce_sum(weights * losses) / tf.reduce_sum(weights + 1e-5)
  return loss


def _sentence(net, labels):
  """Returns the loss of a classifier of the first token."""
  first = tf.squeeze(net[:, 0:1, :], axis=1)
  pooled = _dense(first, WIDTH, "pooler", tf.tanh)
  weights = v1.get_variable("weights", [2, WIDTH], None, _initializer())
  logits = tf.matmul(pooled, weights, transpose_b=True)
  log_probs = tf.nn.log_softmax(logits, axis=-1)
  losses = -tf.reduce_sum(tf.one_hot(labels, 2) * log_probs, axis=-1)
  return tf.reduce_mean(losses), logits


def _model_fn(features, labels, mode, num_layers):
  with v1.variable_scope("bert"):
    net, table = _embeddings(features)
    net = _encoder(net, features["mask"], num_layers)
  loss, logits = _sentence(net, labels)
  loss += _masked_words(net, features, table)
  variables = v1.trainable_variables()
  gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
  update = networks.adam_by_hand(zip(gradients, variables, strict=True), 0.002)
  with tf.control_dependencies([update]):
    train_op = v1.assign_add(v1.train.get_or_create_global_step(), 1)
  return tf.estimator.EstimatorSpec(
    mode, {"logits": logits}, loss, train_op=train_op
  )


def make_model_fn(num_layers):
  """Returns a model_fn as BERT's pretraining has it, without dropout.

  Args:
    num_layers: The number of layers.
  """

  def model_fn(features, labels, mode):
    return _model_fn(features, labels, mode, num_layers)

  return model_fn


model_fn = make_model_fn(LAYERS)
