"""Names of tf.contrib.autograph, which is tf.autograph now.

Refused is what its insides were: `ConversionOptions`, `converted_call`,
`operators`, `set_element_type`, `stack` and `utils`.
"""

from compat.contrib import packages
from compat.private import kept_names

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = packages.getter(__name__, kept_names.PLACES["autograph"])

Feature = tf.autograph.experimental.Feature
do_not_convert = tf.autograph.experimental.do_not_convert
set_loop_options = tf.autograph.experimental.set_loop_options
to_code = tf.compat.v1.autograph.to_code
to_graph = tf.compat.v1.autograph.to_graph
