"""Names of tf.contrib.cluster_resolver."""

from typing import Any

from compat.contrib import absent
from compat.contrib.cluster_resolver.tpu import (
  TPUClusterResolver as TPUClusterResolver,
)

import tensorflow as tf

__path__: list[str] = __path__
__getattr__ = absent.getter(__name__)

_resolvers = tf.compat.v1.distribute.cluster_resolver

ClusterResolver = tf.distribute.cluster_resolver.ClusterResolver
GCEClusterResolver = _resolvers.GCEClusterResolver
KubernetesClusterResolver = _resolvers.KubernetesClusterResolver
SimpleClusterResolver = tf.distribute.cluster_resolver.SimpleClusterResolver
TFConfigClusterResolver = tf.distribute.cluster_resolver.TFConfigClusterResolver
UnionClusterResolver = tf.distribute.cluster_resolver.UnionResolver


class SlurmClusterResolver(
  tf.compat.v1.distribute.cluster_resolver.SlurmClusterResolver
):
  """The cluster of a Slurm job, with a GPU on each node if nothing is said."""

  def __init__(
    self,
    jobs: Any,
    port_base: int = 8888,
    gpus_per_node: int = 1,
    gpus_per_task: int = 1,
    tasks_per_node: Any = None,
    auto_set_gpu: bool = True,
    rpc_layer: str = "grpc",
  ):
    """Reads the environment of the Slurm job.

    Args:
      jobs: how many tasks each job of the cluster has.
      port_base: the port of a node's first task.
      gpus_per_node: how many GPUs a node has.
      gpus_per_task: how many GPUs a task gets.
      tasks_per_node: how many tasks a node has; Slurm says it.
      auto_set_gpu: whether a task sees its own GPUs only.
      rpc_layer: how tasks talk.
    """
    super().__init__(
      jobs,
      port_base,
      gpus_per_node,
      gpus_per_task,
      tasks_per_node,
      auto_set_gpu,
      rpc_layer,
    )
