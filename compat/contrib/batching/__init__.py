"""Names of tf.contrib.batching."""

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

batch_function = tf.nondifferentiable_batch_function
