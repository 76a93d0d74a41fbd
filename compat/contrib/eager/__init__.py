"""Names of tf.contrib.eager, "tfe".

Refused are Network and Sequential, and what saves them (tf.keras.Model and
tf.train.Checkpoint), `restore_variables_on_create`, and the callbacks of ops
(tf.debugging.enable_check_numerics).
"""

from compat.contrib import packages
from compat.contrib.eager.tools import (
  Iterator,
  Saver,
  defun,
  get_optimizer_variables,
  list_devices,
)
from compat.private import kept_names

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = packages.getter(
  __name__, kept_names.PLACES["eager"], ("metrics",)
)

Checkpoint = tf.compat.v1.train.Checkpoint
Checkpointable = tf.__internal__.tracking.AutoTrackable
GradientTape = tf.GradientTape
TensorSpec = tf.TensorSpec
connect_to_remote_host = tf.config.experimental_connect_to_host
custom_gradient = tf.custom_gradient
enable_eager_execution = tf.compat.v1.enable_eager_execution
executing_eagerly = tf.executing_eagerly
function = tf.function
in_eager_mode = tf.executing_eagerly
py_func = tf.py_function

__all__ = [
  "Checkpoint",
  "Checkpointable",
  "GradientTape",
  "Iterator",
  "Saver",
  "TensorSpec",
  "connect_to_remote_host",
  "custom_gradient",
  "defun",
  "enable_eager_execution",
  "executing_eagerly",
  "function",
  "get_optimizer_variables",
  "in_eager_mode",
  "list_devices",
  "py_func",
]
