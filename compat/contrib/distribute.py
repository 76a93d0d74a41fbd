"""Names of tf.contrib.distribute."""

from compat.contrib import absent
from compat.private import distribution

import tensorflow as tf

# `from ... import ABSENT` then asks the import system, which explains.
__path__: list[str] = []
__getattr__ = absent.getter(__name__)

DistributeConfig = distribution.distribute_config()
CollectiveAllReduceStrategy = (
  tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
)
MirroredStrategy = tf.compat.v1.distribute.MirroredStrategy
OneDeviceStrategy = tf.compat.v1.distribute.OneDeviceStrategy
ParameterServerStrategy = (
  tf.compat.v1.distribute.experimental.ParameterServerStrategy
)
