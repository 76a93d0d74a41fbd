"""Between-graph replicas: the limits of a worker with parameter servers.

Each worker has a graph of its own; parameter servers hold the variables, and
all workers change them. So a worker keeps no copy of a variable from one step
to the next: it would not hear of the others' updates.
"""

from collections.abc import Callable, Iterable
from typing import Any

from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.cluster import tasks
from estimator_mp.config import sharding_config, sharding_options, split_rules
from estimator_mp.session import session_config

import tensorflow as tf

DeviceFunction = Callable[[tf.Operation], str | None]

# Ops that wait until an accumulator has gradients of enough workers.
_TAKES_GRADIENTS = ("AccumulatorTakeGradient",)


def has_servers(run_config: Any) -> bool:
  """Whether parameter servers hold the variables of an Estimator.

  Args:
    run_config: The Estimator's, or None.
  """
  return run_config is not None and run_config.num_ps_replicas > 0


def task_of(run_config: tf.estimator.RunConfig) -> str:
  """Returns the task of a worker, as "/job:worker/task:1".

  Args:
    run_config: The worker's.
  """
  return tasks.Task(run_config.task_type, run_config.task_id).device_prefix


def check(
  config: sharding_config.ShardingConfig,
  mesh: mesh_lib.Mesh,
  run_config: tf.estimator.RunConfig,
) -> None:
  """Raises if a worker would keep copies that other workers change.

  Args:
    config: The sharding.
    mesh: The worker's mesh.
    run_config: The worker's.

  Raises:
    ValueError: If it would, or its mesh is not its own.
  """
  of_mesh = {devices.task_of(name) for name in mesh.devices}
  if of_mesh != {task_of(run_config)}:
    raise ValueError(
      f"mesh {mesh} has devices {', '.join(mesh.devices)}, but with parameter "
      "servers each worker has a mesh of its own, here of "
      f"{task_of(run_config)}; leave devices out, or name them without job and "
      "task, and set TF_CONFIG before ShardingConfig is made"
    )
  for refused, setting, reason, fix in (
    (
      config.aggregation == sharding_options.HOROVOD,
      'aggregation="horovod"',
      "all processes would update the same variables on them",
      "leave it out, or leave ps out of TF_CONFIG",
    ),
    (
      mesh.axis_size("model") > 1,
      f"mesh {mesh}",
      "they hold whole variables, and a model axis has shards on its devices",
      "use stages, or leave ps out of TF_CONFIG",
    ),
    (
      mesh.axis_size("data") > 1 and config.variables == "mirrored",
      f'mesh {mesh} with variables="mirrored"',
      "other workers change the variables, and mirrors would not be updated",
      'use variables="shared", or more workers instead of a data axis',
    ),
    (
      mesh.axis_size("data") > 1 and config.split != split_rules.AUTO,
      f"mesh {mesh} with split={config.split!r}",
      "they hold whole tables",
      "leave split out",
    ),
    (
      config.optimizer_state == "sharded",
      'optimizer_state="sharded"',
      "they hold the slots of all variables already",
      "leave it out",
    ),
    (
      session_config.saves_input_position(run_config),
      "save_input_position=True",
      "each worker has an input of its own, and the chief alone saves",
      "leave it out",
    ),
  ):
    if refused:
      raise ValueError(
        f"{setting} does not go with the parameter servers of TF_CONFIG: "
        f"{reason}; {fix}"
      )


def device_function(
  run_config: tf.estimator.RunConfig,
) -> DeviceFunction:
  """Returns the function from a variable to the server that holds it.

  Args:
    run_config: The worker's.

  Returns:
    Its `device_fn`, or one that takes the servers in turn, as an Estimator has
    it. It has heard of the global step, which is made before the model.
  """
  function: DeviceFunction | None = run_config.device_fn
  if function is not None:
    return function
  setter: DeviceFunction = tf.compat.v1.train.replica_device_setter(
    cluster=run_config.cluster_spec, worker_device=task_of(run_config)
  )
  setter(tf.compat.v1.train.get_or_create_global_step().op)
  return setter


class _EndOfSynchronization(tf.estimator.SessionRunHook):
  """Ends the thread of the chief that waits for gradients of further steps.

  `SyncReplicasOptimizer` takes the mean of gradients in a thread of its own.
  After the last step none come, and TensorFlow would wait two minutes for the
  thread. Closing the session ends its wait.
  """

  def __init__(self) -> None:
    self._coordinator: tf.train.Coordinator | None = None

  def after_create_session(
    self, session: tf.compat.v1.Session, coord: tf.train.Coordinator
  ) -> None:
    """Keeps who tells threads to stop."""
    self._coordinator = coord

  def end(self, session: tf.compat.v1.Session) -> None:
    """Stops the thread: the last hook at the end of a run."""
    if self._coordinator is not None:
      self._coordinator.request_stop()
      session.close()


def with_prompt_end(
  spec: tf.estimator.EstimatorSpec, ops: Iterable[tf.Operation]
) -> tf.estimator.EstimatorSpec:
  """Returns a spec whose training ends at once, also if it is synchronous.

  Args:
    spec: The spec that a worker's model_fn would return.
    ops: The ops of its graph.
  """
  if not any(op.type.endswith(_TAKES_GRADIENTS) for op in ops):
    return spec
  hooks = (*spec.training_hooks, _EndOfSynchronization())
  return spec._replace(training_hooks=hooks)
