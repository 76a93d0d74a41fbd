"""tf.train's optimizers and learning rates: steps, slots and their names."""

import numpy as np
import tensorflow as tf

_X = np.random.RandomState(4).normal(size=(8, 3)).astype(np.float32)


def _loss():
  x = tf.placeholder_with_default(_X, [None, 3])
  y = tf.layers.dense(x, 4, tf.nn.tanh)
  table = tf.get_variable("table", [5, 4])
  rows = tf.nn.embedding_lookup(table, [0, 2, 2, 4, 1, 0, 3, 3])
  return tf.reduce_mean(tf.square(y - rows))


def _train(optimizer, **kwargs):
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  train = optimizer.minimize(loss, step, **kwargs)
  return {"loss": loss, "name": optimizer.get_name(), "op": train.name}, train


def gradient_descent_use_locking():
  return _train(tf.train.GradientDescentOptimizer(0.3, True, "mine"))


def momentum():
  return _train(tf.train.MomentumOptimizer(0.1, 0.9))


def adam():
  return _train(tf.train.AdamOptimizer(epsilon=1e-3))


def rms_prop_centered():
  return _train(tf.train.RMSPropOptimizer(0.01, centered=True))


def ftrl():
  return _train(
    tf.train.FtrlOptimizer(
      0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02
    )
  )


def clipped():
  loss = _loss()
  optimizer = tf.train.AdamOptimizer(tf.constant(0.01))
  pairs = optimizer.compute_gradients(loss)
  slopes, variables = zip(*pairs)
  slopes, norm = tf.clip_by_global_norm(slopes, 0.01)
  train = optimizer.apply_gradients(zip(slopes, variables))
  return {
    "loss": loss,
    "norm": norm,
    "kinds": " ".join(str(isinstance(one, tf.Tensor)) for one, _ in pairs),
    "slots": " ".join(optimizer.get_slot_names()),
  }, train


def averages():
  loss = _loss()
  step = tf.train.get_or_create_global_step()
  train = tf.train.GradientDescentOptimizer(0.3).minimize(loss, step)
  average = tf.train.ExponentialMovingAverage(0.9, num_updates=step)
  with tf.control_dependencies([train]):
    train = average.apply(tf.trainable_variables())
  names = " ".join(sorted(average.variables_to_restore()))
  return {"loss": loss, "names": names}, train


def rates():
  step = tf.train.get_or_create_global_step()
  values = {
    "exponential": tf.train.exponential_decay(0.1, step, 2, 0.5),
    "stairs": tf.train.exponential_decay(0.1, step, 2, 0.5, staircase=True),
    "pieces": tf.train.piecewise_constant(step, [1, 2], [0.3, 0.2, 0.1]),
    "polynomial": tf.train.polynomial_decay(0.1, step, 3, 0.01, 2.0),
    "cycle": tf.train.polynomial_decay(0.1, step + 1, 2, 0.01, cycle=True),
    "natural": tf.train.natural_exp_decay(0.1, step, 2, 0.5),
    "inverse": tf.train.inverse_time_decay(0.1, step, 2, 0.5),
    "cosine": tf.train.cosine_decay(0.1, step, 4, 0.1),
    "restarts": tf.train.cosine_decay_restarts(0.1, step, 2),
    "linear_cosine": tf.train.linear_cosine_decay(0.1, step, 4),
    "noisy": tf.train.noisy_linear_cosine_decay(0.1, step, 4),
  }
  return values, tf.assign_add(step, 1)
