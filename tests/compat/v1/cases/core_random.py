"""Random numbers with seeds, and initializers with and without."""

import numpy as np
import tensorflow as tf


def with_seeds():
  return {
    "normal": tf.random_normal([3, 2], 1.0, 2.0, seed=1),
    "uniform": tf.random_uniform([3, 2], -1, 1, seed=2),
    "integers": tf.random_uniform([5], 0, 10, tf.int32, seed=3),
    "truncated": tf.truncated_normal([4], seed=4),
    "gamma": tf.random_gamma([3], [0.5, 2.0], 2.0, seed=5),
    "poisson": tf.random_poisson([1.0, 4.0], [3], seed=6),
    "multinomial": tf.multinomial([[0.1, 0.5, 0.2]], 6, seed=7),
    "categorical": tf.random.categorical([[0.1, 0.5, 0.2]], 6, seed=8),
    "shuffle": tf.random_shuffle(tf.range(6), seed=9),
    "random_normal": tf.random.normal([2], seed=10),
    "random_uniform": tf.random.uniform([2], seed=11),
    "crop": tf.random_crop(tf.range(10), [3], seed=12),
    "stateless": tf.random.stateless_normal([2], [1, 2]),
    "stateless_uniform": tf.random.stateless_uniform([2], [1, 2]),
    "bernoulli": tf.distributions.Bernoulli(probs=[0.3, 0.7]).sample(
      3, seed=13
    ),
  }


def without_seeds():
  tf.set_random_seed(5)
  return {
    "one": tf.random_normal([2]),
    "two": tf.random_uniform([2]),
    "three": tf.multinomial([[0.1, 0.5]], 4),
  }


def initializers():
  kinds = {
    "zeros": tf.zeros_initializer(),
    "ones": tf.ones_initializer(),
    "constant": tf.constant_initializer(0.5),
    "array": tf.constant_initializer(np.arange(12).reshape(3, 4)),
    "uniform": tf.random_uniform_initializer(-0.1, 0.1),
    "uniform_default": tf.random_uniform_initializer(),
    "normal": tf.random_normal_initializer(0.1, 0.2),
    "normal_default": tf.random_normal_initializer(),
    "truncated": tf.truncated_normal_initializer(stddev=0.3),
    "truncated_default": tf.truncated_normal_initializer(),
    "scaling": tf.variance_scaling_initializer(2.0, "fan_out", "normal"),
    "scaling_default": tf.variance_scaling_initializer(),
    "untruncated": tf.variance_scaling_initializer(
      distribution="untruncated_normal"
    ),
    "unit": tf.uniform_unit_scaling_initializer(),
    "orthogonal": tf.orthogonal_initializer(),
    "glorot": tf.glorot_normal_initializer(),
    "glorot_uniform": tf.glorot_uniform_initializer(),
    "he": tf.initializers.he_normal(),
    "he_uniform": tf.initializers.he_uniform(),
    "lecun": tf.initializers.lecun_normal(),
    "identity": tf.initializers.identity(2.0),
    "class": tf.zeros_initializer,
    "tf_keras": tf.keras.initializers.RandomNormal(),
    "tf_keras_uniform": tf.keras.initializers.RandomUniform(),
    "tf_keras_truncated": tf.keras.initializers.TruncatedNormal(),
    "tf_keras_he": tf.keras.initializers.he_normal(),
    "tf_keras_lower": tf.keras.initializers.glorot_normal(),
  }
  return {
    name: tf.get_variable(name, [3, 4], initializer=one)
    for name, one in kinds.items()
  }


def default_initializers():
  with tf.variable_scope("scope", initializer=tf.ones_initializer()):
    scoped = tf.get_variable("v", [2])
  return {
    "scoped": scoped,
    "plain": tf.get_variable("plain", [3, 3]),
    "vector": tf.get_variable("vector", [3]),
    "whole": tf.get_variable("whole", [2], tf.int32),
    "double": tf.get_variable("double", [2, 3], tf.float64),
    "given": tf.get_variable("given", initializer=np.float32([1, 2])),
    "truth": tf.get_variable("truth", [2], tf.bool),
  }
