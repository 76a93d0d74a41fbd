"""Names of tf.contrib.compiler.jit."""

from compat.contrib import absent

import tensorflow as tf

__getattr__ = absent.getter(__name__)

experimental_jit_scope = tf.xla.experimental.jit_scope
