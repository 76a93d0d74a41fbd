"""Names of tf.contrib.util."""

from compat.contrib import packages
from compat.private import kept_names

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = packages.getter(__name__, kept_names.PLACES["util"], ("loader",))

constant_value = tf.get_static_value
make_ndarray = tf.make_ndarray
make_tensor_proto = tf.compat.v1.make_tensor_proto
