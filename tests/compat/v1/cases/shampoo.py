"""ShampooOptimizer of tf.contrib.opt."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import opt

_X = np.random.RandomState(1).normal(size=(4, 3)).astype(np.float32)


def _slots(optimizer):
  return {"slots": " ".join(optimizer.get_slot_names())}


def _net(x, ids):
  """A dense and an embedding layer; rows of the table are used twice or not."""
  hidden = tf.layers.dense(x, 3, tf.tanh, name="dense")
  table = tf.get_variable("table", [6, 3])
  return hidden + tf.nn.embedding_lookup(table, ids)


def _loss():
  x = tf.placeholder_with_default(_X, [4, 3])
  ids = tf.placeholder_with_default(np.array([1, 4, 1, 3]), [4])
  with tf.variable_scope("references"):
    outputs = _net(x, ids)
  with tf.variable_scope("resources", use_resource=True):
    outputs += _net(x, ids)
  return tf.reduce_mean(tf.square(outputs - 1.0))


def _train(optimizer, var_list=None):
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  train_op = optimizer.minimize(loss, step, var_list)
  return dict(_slots(optimizer), loss=loss), train_op


def _train_dense(optimizer, use_resource=True, step=True):
  """Without the table, for optimizers that take no sparse gradients."""
  x = tf.placeholder_with_default(_X, [4, 3])
  outputs = tf.layers.dense(x, 5, tf.tanh, name="a")
  with tf.variable_scope("resources", use_resource=use_resource):
    outputs = tf.layers.dense(outputs, 2, name="b")
  loss = tf.reduce_mean(tf.square(outputs - 1.0))
  step = tf.train.get_or_create_global_step() if step else None
  train_op = optimizer.minimize(loss, step)
  return dict(_slots(optimizer), loss=loss), train_op


def otherwise():
  step = tf.train.get_or_create_global_step()
  return _train_dense(
    opt.ShampooOptimizer(
      step,
      max_matrix_size=4,
      gbar_decay=0.9,
      gbar_weight=0.1,
      mat_gbar_decay=0.95,
      mat_gbar_weight=0.05,
      learning_rate=0.1,
      svd_interval=2,
      precond_update_interval=2,
      epsilon=0.01,
      alpha=0.4,
    )
  )


def of_rows():
  step = tf.train.get_or_create_global_step()
  return _train(opt.ShampooOptimizer(step, learning_rate=0.1, epsilon=0.1))


def of_many_rows():
  """Of references; resources are refused, 1.15 gives something else there."""
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  optimizer = opt.ShampooOptimizer(step, 4, learning_rate=0.1, epsilon=0.1)
  variables = tf.trainable_variables("references")
  return {"loss": loss}, optimizer.minimize(loss, step, variables)


def of_schedules():
  step = tf.train.get_or_create_global_step()
  optimizer = opt.ShampooOptimizer(
    step,
    gbar_decay=lambda n: 1 - 1 / (tf.cast(n, tf.float32) + 2),
    gbar_weight=lambda n: 1 / (tf.cast(n, tf.float32) + 2),
    learning_rate=lambda n: 0.1 / (tf.cast(n, tf.float32) + 1),
    svd_interval=2,
    precond_update_interval=3,
    epsilon=0.1,
  )
  return _train_dense(optimizer)
