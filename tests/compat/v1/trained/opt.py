"""Optimizers of tf.contrib.opt: their slots and counters go on from 1.15."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import opt

_X = np.random.RandomState(5).normal(size=(6, 4)).astype(np.float32)


def _loss():
  x = tf.placeholder_with_default(_X, [6, 4])
  ids = tf.placeholder_with_default(np.array([0, 3, 3, 1, 0, 5]), [6])
  table = tf.get_variable("table", [7, 3])
  hidden = tf.layers.dense(x, 3, tf.tanh) + tf.nn.embedding_lookup(table, ids)
  return tf.reduce_mean(tf.square(tf.layers.dense(hidden, 2) - 1.0))


def _train(optimizer):
  loss = _loss()
  pairs = optimizer.compute_gradients(loss)
  known = [getattr(gradient, "values", gradient) for gradient, _ in pairs]
  # Weight decay of 1.15 does not wait for gradients.
  with tf.control_dependencies(known):
    step = tf.train.get_or_create_global_step()
    train_op = optimizer.apply_gradients(pairs, step)
  return {"loss": loss}, train_op


def adam_w():
  return _train(opt.AdamWOptimizer(0.01, 0.05))


def momentum_w():
  return _train(opt.MomentumWOptimizer(0.01, 0.05, 0.9))


def lazy_adam():
  return _train(opt.LazyAdamOptimizer(0.05))


def moving_average_of_adam_w():
  optimizer = opt.AdamWOptimizer(0.01, 0.05)
  return _train(opt.MovingAverageOptimizer(optimizer, 0.8))


def lars():
  return _train(opt.LARSOptimizer(0.5))


def ada_max():
  return _train(opt.AdaMaxOptimizer(0.05))
