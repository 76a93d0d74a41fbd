"""Layers, variables and optimizers that tensorflow.compat.v1 still has."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)


def dense_layers():
  x = tf.placeholder_with_default(_X, [None, 3])
  hidden = tf.layers.dense(x, 5, activation=tf.nn.relu)
  assert hidden.shape[1].value == 5
  return {"outputs": tf.layers.dense(hidden, 2, name="out")}


def adam():
  x = tf.placeholder_with_default(_X, [4, 3])
  loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 2)))
  step = tf.train.get_or_create_global_step()
  return {"loss": loss}, tf.train.AdamOptimizer(0.1).minimize(loss, step)
