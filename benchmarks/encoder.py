"""The transformer encoder that the benchmarks train."""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
VOCABULARY = 1000
LENGTH = 64
WIDTH = 128
HEADS = 4
BATCH = 16


def input_fn():
  """Random words with random classes, for ever."""
  rng = np.random.RandomState(1)
  ids = rng.randint(VOCABULARY, size=[8 * BATCH, LENGTH]).astype(np.int32)
  labels = rng.randint(2, size=[8 * BATCH]).astype(np.int32)
  data = tf.data.Dataset.from_tensor_slices((ids, labels))
  return data.repeat().batch(BATCH)


def halves(num_layers):
  """Returns rules that put the encoder's layers on two stages."""
  second = "|".join(str(i) for i in range(num_layers // 2, num_layers))
  return [(rf"^layer_({second})/|^classifier", 1), (".", 0)]


def _dense(net, units, name):
  with v1.variable_scope(name):
    kernel = v1.get_variable("kernel", [net.shape[-1], units])
    bias = v1.get_variable("bias", [units])
    return tf.nn.bias_add(tf.matmul(net, kernel), bias)


def _layer(net, batch):
  def heads(tensor):
    shape = [batch, LENGTH, HEADS, WIDTH // HEADS]
    return tf.transpose(tf.reshape(tensor, shape), [0, 2, 1, 3])

  query, key, value = (heads(_dense(net, WIDTH, name)) for name in "qkv")
  scores = tf.matmul(query, key, transpose_b=True) / (WIDTH // HEADS) ** 0.5
  mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
  net += _dense(tf.reshape(mixed, [-1, WIDTH]), WIDTH, "out")
  hidden = tf.nn.relu(_dense(net, 4 * WIDTH, "up"))
  return net + _dense(hidden, WIDTH, "down")


def make_model_fn(num_layers, devices=(None, None)):
  """Returns a model_fn of an encoder with Adam.

  Args:
    num_layers: The number of layers.
    devices: The devices of its halves, by `tf.device`; None for no device.
  """

  def model_fn(features, labels, mode):
    batch = tf.shape(features)[0]
    with tf.device(devices[0]):
      table = v1.get_variable("embeddings", [VOCABULARY, WIDTH])
      net = tf.nn.embedding_lookup(table, features)
      net = tf.reshape(net, [-1, WIDTH])
    for i in range(num_layers):
      with (
        tf.device(devices[2 * i // num_layers]),
        v1.variable_scope(f"layer_{i}"),
      ):
        net = _layer(net, batch)
    with tf.device(devices[1]):
      pooled = tf.reduce_mean(tf.reshape(net, [batch, LENGTH, WIDTH]), axis=1)
      logits = _dense(pooled, 2, "classifier")
      loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
          labels=labels, logits=logits
        )
      )
    train_op = v1.train.AdamOptimizer(1e-3).minimize(
      loss,
      v1.train.get_global_step(),
      colocate_gradients_with_ops=devices[0] is not None,
    )
    return tf.estimator.EstimatorSpec(mode, logits, loss, train_op)

  return model_fn
