"""Names of tf.contrib.distribute, with the arguments of that time.

Strategies are tf.compat.v1.distribute's. `MultiWorkerAllReduce` is refused:
CollectiveAllReduceStrategy reduces over workers.
"""

from compat.contrib import packages
from compat.contrib.distribute.strategies import (
  AllReduceCrossDeviceOps,
  CollectiveAllReduceStrategy,
  MirroredStrategy,
  Monitor,
  ParameterServerStrategy,
)
from compat.private import distribution, kept_names

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = packages.getter(__name__, kept_names.PLACES["distribute"])

_distribute = tf.compat.v1.distribute

CrossDeviceOps = _distribute.CrossDeviceOps
DistributeConfig = distribution.distribute_config()
DistributionStrategy = _distribute.Strategy
OneDeviceStrategy = _distribute.OneDeviceStrategy
ReplicaContext = _distribute.ReplicaContext
TPUStrategy = _distribute.experimental.TPUStrategy
get_distribution_strategy = _distribute.get_strategy
get_loss_reduction = _distribute.get_loss_reduction
get_replica_context = _distribute.get_replica_context
get_strategy = _distribute.get_strategy
has_distribution_strategy = _distribute.has_strategy
has_strategy = _distribute.has_strategy
in_cross_replica_context = _distribute.in_cross_replica_context
initialize_tpu_system = tf.tpu.experimental.initialize_tpu_system

__all__ = [
  "AllReduceCrossDeviceOps",
  "CollectiveAllReduceStrategy",
  "CrossDeviceOps",
  "DistributeConfig",
  "DistributionStrategy",
  "MirroredStrategy",
  "Monitor",
  "OneDeviceStrategy",
  "ParameterServerStrategy",
  "ReplicaContext",
  "TPUStrategy",
  "get_distribution_strategy",
  "get_loss_reduction",
  "get_replica_context",
  "get_strategy",
  "has_distribution_strategy",
  "has_strategy",
  "in_cross_replica_context",
  "initialize_tpu_system",
]
