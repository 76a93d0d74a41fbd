"""Names of tf.contrib.memory_stats: the memory of a GPU.

`BytesLimit` is refused: nothing tells the limit any more.
"""

from typing import Any

from compat.contrib import absent

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)


def _of_device(key: str, name: str) -> Any:
  """A tensor of one number about the GPU of the current device scope."""
  probe = tf.compat.v1.no_op()
  device = tf.DeviceSpec.from_string(probe.device or "")
  gpu = f"GPU:{device.device_index or 0}"

  def read() -> Any:
    # Fails on a machine without GPUs, as 1.15's op did.
    return tf.config.experimental.get_memory_info(gpu)[key]

  with tf.device("/device:CPU:0"):
    found = tf.numpy_function(read, [], tf.int64, name=name)
  found.set_shape([])
  return found


def BytesInUse() -> Any:
  """Returns how many bytes of the GPU are in use, when it is run."""
  return _of_device("current", "BytesInUse")


def MaxBytesInUse() -> Any:
  """Returns how many bytes of the GPU were in use at most."""
  return _of_device("peak", "MaxBytesInUse")
