"""Names of tf.contrib.stateless, which are those of tf.random."""

from compat.contrib import absent

import tensorflow as tf

__getattr__ = absent.getter(__name__)

stateless_multinomial = tf.compat.v1.random.stateless_multinomial
stateless_random_normal = tf.random.stateless_normal
stateless_random_uniform = tf.random.stateless_uniform
stateless_truncated_normal = tf.random.stateless_truncated_normal
