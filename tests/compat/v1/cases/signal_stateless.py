"""tf.contrib.signal and tf.contrib.stateless."""

import numpy as np
import tensorflow as tf

_RANDOM = np.random.RandomState(1)
_SIGNALS = _RANDOM.normal(size=(2, 50)).astype(np.float32)


def _given(array):
  value = tf.placeholder_with_default(array, array.shape)
  return value * tf.get_variable("scale", initializer=1.5)


def frames():
  signal = tf.contrib.signal
  signals = _given(_SIGNALS)
  framed = signal.frame(signals, 8, 3, pad_end=True, pad_value=2.0)
  return {
    "framed": framed,
    "plain": signal.frame(signals, 8, 8),
    "added": signal.overlap_and_add(framed, 3),
  }


def stateless():
  draw = tf.contrib.stateless
  seed = tf.placeholder_with_default(np.array([3, 5]), [2])
  return {
    "normal": draw.stateless_random_normal([2, 7], seed, 1.0, 2.0),
    "uniform": draw.stateless_random_uniform([2, 7], seed=seed),
    "integers": draw.stateless_random_uniform(
      [9], seed, minval=-5, maxval=50, dtype=tf.int64
    ),
    "small_integers": draw.stateless_random_uniform(
      [9], [1, 2], 0, 7, tf.int32
    ),
    "truncated": draw.stateless_truncated_normal([20], [7, -8], stddev=0.5),
    "double": draw.stateless_random_uniform([4], seed, dtype=tf.float64),
    "half": draw.stateless_random_normal([4], seed, dtype=tf.float16),
    "multinomial": draw.stateless_multinomial(
      tf.constant(_SIGNALS[:, :5]), 12, seed
    ),
    "multinomial_32": draw.stateless_multinomial(
      tf.constant(_SIGNALS[:, :5]), 4, seed, tf.int32
    ),
  }
