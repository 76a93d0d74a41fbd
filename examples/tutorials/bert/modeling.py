"""An encoder in the way of BERT (Devlin et al., 2018, arXiv:1810.04805)."""

import json
import math

import tensorflow as tf


class Config:
  """Sizes of the model, from a JSON file."""

  def __init__(self, **sizes):
    self.__dict__.update(sizes)

  @classmethod
  def from_json_file(cls, path):
    """Reads a file of sizes."""
    with tf.gfile.GFile(path, "r") as reader:
      return cls(**json.loads(reader.read()))


def gelu(x):
  """Returns the Gaussian error linear unit, by tanh."""
  inner = math.sqrt(2 / math.pi) * (x + 0.044715 * tf.pow(x, 3))
  return 0.5 * x * (1.0 + tf.tanh(inner))


def dropout(x, rate):
  """Drops a part of the entries, in training."""
  return x if rate == 0.0 else tf.nn.dropout(x, keep_prob=1.0 - rate)


def layer_norm(x, name="LayerNorm"):
  """Normalizes the last dimension."""
  with tf.variable_scope(name):
    size = x.shape[-1].value
    beta = tf.get_variable("beta", [size], initializer=tf.zeros_initializer())
    gamma = tf.get_variable("gamma", [size], initializer=tf.ones_initializer())
    mean, variance = tf.nn.moments(x, axes=[-1], keep_dims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def initializer(config):
  """Returns the initializer of all weights."""
  return tf.truncated_normal_initializer(stddev=config.initializer_range)


def dense(x, units, config, activation=None, name=None):
  """Returns a layer of the last dimension."""
  return tf.layers.dense(
    x, units, activation, kernel_initializer=initializer(config), name=name
  )


def embed(ids, config):
  """Returns [batch, length, hidden]: words and places."""
  with tf.variable_scope("embeddings"):
    words = tf.get_variable(
      "word_embeddings",
      [config.vocab_size, config.hidden_size],
      initializer=initializer(config),
    )
    places = tf.get_variable(
      "position_embeddings",
      [config.max_position_embeddings, config.hidden_size],
      initializer=initializer(config),
    )
    x = tf.nn.embedding_lookup(words, ids) + places[: ids.shape[1].value]
    return layer_norm(x)


def attend(x, mask, config, rate):
  """Returns what all heads find, [batch, length, hidden]."""
  heads, length = config.num_attention_heads, x.shape[1].value
  size = config.hidden_size // heads

  def project(name):
    y = dense(x, config.hidden_size, config, name=name)
    y = tf.reshape(y, [-1, length, heads, size])
    return tf.transpose(y, [0, 2, 1, 3])

  query, key, value = project("query"), project("key"), project("value")
  scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(size)
  scores += (1.0 - mask[:, tf.newaxis, tf.newaxis, :]) * -10000.0
  found = tf.matmul(dropout(tf.nn.softmax(scores), rate), value)
  found = tf.transpose(found, [0, 2, 1, 3])
  return tf.reshape(found, [-1, length, config.hidden_size])


def encode(ids, mask, config, is_training):
  """Returns the vector of the first word, [batch, hidden]."""
  rate = config.hidden_dropout_prob if is_training else 0.0
  mask = tf.to_float(mask)
  with tf.variable_scope("bert"):
    x = dropout(embed(ids, config), rate)
    for number in range(config.num_hidden_layers):
      with tf.variable_scope("encoder/layer_%d" % number):
        with tf.variable_scope("attention"):
          y = attend(x, mask, config, rate)
          y = dense(y, config.hidden_size, config, name="output")
          x = layer_norm(x + dropout(y, rate))
        y = dense(x, config.intermediate_size, config, gelu, "intermediate")
        y = dense(y, config.hidden_size, config, name="output")
        x = layer_norm(x + dropout(y, rate))
    return dense(x[:, 0], config.hidden_size, config, tf.tanh, "pooler")
