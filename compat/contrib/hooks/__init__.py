"""Names of tf.contrib.hooks."""

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

ProfilerHook = tf.compat.v1.train.ProfilerHook
