"""Strategies of tf.contrib.distribute: today's, with 1.15's arguments."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

_distribute = tf.compat.v1.distribute


def AllReduceCrossDeviceOps(
  all_reduce_alg: str = "nccl",
  num_packs: int = 1,
  agg_small_grads_max_bytes: int = 0,
  agg_small_grads_max_group: int = 10,
) -> Any:
  """Returns how a MirroredStrategy adds up gradients.

  Args:
    all_reduce_alg: "nccl" or "hierarchical_copy".
    num_packs: how many pieces all gradients together are sent in.
    agg_small_grads_max_bytes: must be 0; gradients are packed by num_packs.
    agg_small_grads_max_group: is for agg_small_grads_max_bytes.

  Raises:
    ValueError: if there is no such algorithm, or small gradients are to be
      packed by themselves.
  """
  del agg_small_grads_max_group
  kinds = {
    "hierarchical_copy": tf.distribute.HierarchicalCopyAllReduce,
    "nccl": tf.distribute.NcclAllReduce,
  }
  if all_reduce_alg not in kinds:
    raise ValueError(
      f"all_reduce_alg={all_reduce_alg!r} is none of {', '.join(kinds)}."
    )
  if agg_small_grads_max_bytes > 0:
    raise ValueError(
      f"agg_small_grads_max_bytes={agg_small_grads_max_bytes} must be 0; "
      "gradients are packed by num_packs."
    )
  return kinds[all_reduce_alg](num_packs)


def _devices(devices: Any, num_gpus: int | None) -> Any:
  if num_gpus is None:
    return devices
  if devices is not None:
    raise ValueError("Give MirroredStrategy devices or num_gpus, not both.")
  if num_gpus == 0:
    return ["/device:CPU:0"]
  return [f"/device:GPU:{index}" for index in range(num_gpus)]


class MirroredStrategy(tf.compat.v1.distribute.MirroredStrategy):
  """Copies of a model on the devices of one machine."""

  def __init__(
    self,
    devices: Sequence[str] | None = None,
    num_gpus: int | None = None,
    num_gpus_per_worker: int | None = None,
    cross_device_ops: Any = None,
    auto_shard_dataset: bool = False,
    cross_tower_ops: Any = None,
  ):
    """Makes the strategy.

    Args:
      devices: one for each copy; by default all GPUs, or the CPU.
      num_gpus: how many GPUs, in the place of devices.
      num_gpus_per_worker: the same.
      cross_device_ops: how gradients are added up.
      auto_shard_dataset: must be False; it is for several machines.
      cross_tower_ops: the former name of cross_device_ops.

    Raises:
      ValueError: if arguments contradict each other.
    """
    if auto_shard_dataset:
      raise ValueError(
        "auto_shard_dataset is for several machines. Use "
        "CollectiveAllReduceStrategy there."
      )
    if num_gpus is not None and num_gpus_per_worker is not None:
      raise ValueError("Give num_gpus or num_gpus_per_worker, not both.")
    if cross_device_ops is not None and cross_tower_ops is not None:
      raise ValueError("Give cross_device_ops or cross_tower_ops, not both.")
    count = num_gpus if num_gpus_per_worker is None else num_gpus_per_worker
    super().__init__(
      _devices(devices, count), cross_device_ops or cross_tower_ops
    )


class _Resolver(tf.distribute.cluster_resolver.TFConfigClusterResolver):
  """The cluster of TF_CONFIG, with a number of GPUs on each worker."""

  def __init__(self, num_gpus: int):
    super().__init__()
    self._gpus = num_gpus

  def num_accelerators(self, *args: Any, **kwargs: Any) -> dict[str, int]:
    """Returns how many GPUs a worker uses."""
    del args, kwargs
    return {"GPU": self._gpus}


class CollectiveAllReduceStrategy(
  tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy
):
  """Copies of a model on several workers."""

  def __init__(
    self,
    num_gpus_per_worker: int = 0,
    communication: Any = (
      _distribute.experimental.CollectiveCommunication.AUTO
    ),
  ):
    """Makes the strategy, of TF_CONFIG.

    Args:
      num_gpus_per_worker: how many GPUs a worker uses; 0 is its CPU.
      communication: how gradients are added up.
    """
    super().__init__(communication, _Resolver(num_gpus_per_worker))


class ParameterServerStrategy(
  tf.compat.v1.distribute.experimental.ParameterServerStrategy
):
  """Variables on parameter servers, and workers that do not wait."""

  def __init__(self, num_gpus_per_worker: int = 0):
    """Makes the strategy, of TF_CONFIG.

    Args:
      num_gpus_per_worker: how many GPUs a worker uses; 0 is its CPU.
    """
    super().__init__(_Resolver(num_gpus_per_worker))


class Monitor:
  """Runs a step again and again."""

  def __init__(self, step_callable: Callable[[], Any], session: Any = None):
    """Makes the monitor, and initializes the step.

    Args:
      step_callable: a Step; called to make, or when eager to do, one step.
      session: runs it in graph mode.

    Raises:
      ValueError: if there is no session in graph mode, or one when eager.
    """
    eager = tf.executing_eagerly()
    if eager == (session is not None):
      raise ValueError(
        "Give Monitor a session in graph mode, and none in eager mode."
      )
    initialize = step_callable.initialize()  # type: ignore[attr-defined]
    if not eager:
      session.run(initialize)
      self._run = session.make_callable(step_callable())
    else:
      self._run = step_callable

  def run_steps(self, num_steps: int | None = None) -> None:
    """Runs the step.

    Args:
      num_steps: how often; None is until the input ends.
    """
    step = 0
    while num_steps is None or step < num_steps:
      try:
        self._run()
      except tf.errors.OutOfRangeError:
        return
      step += 1
