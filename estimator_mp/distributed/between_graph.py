"""Between-graph replicas: each worker trains, parameter servers hold variables.

    chief       its own model on its own mesh; initialises, saves
    worker n    the same, without saving
    ps n        serves, until all of these have ended
    evaluator   evaluates each checkpoint, on devices of its own machine

`tf.estimator.train_and_evaluate` works so in such a cluster; here models are
sharded inside of each worker: asynchronously, or with a
`SyncReplicasOptimizer` in model_fn. `lower.parameter_servers` has the graph.
"""

import time
from collections.abc import Mapping

from compat.private import estimators
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import ending, input_by_task, recovery, status
from estimator_mp.session import (
  distribution,
  interruption,
  session_config,
  whole_checkpoints,
)

import tensorflow as tf

# As tf.estimator has them: asynchronous training converges better if workers
# come one after the other.
_SECONDS_PER_WORKER = 5
_MAX_SECONDS = 60


def check_cluster(cluster: tasks_lib.Cluster) -> None:
  """Raises if a cluster with parameter servers cannot train.

  Args:
    cluster: The cluster.

  Raises:
    ValueError: If its chief is a master, which evaluates between steps.
  """
  if cluster.chief.job != tasks_lib.CHIEFS[0]:
    raise ValueError(
      f"TF_CONFIG names parameter servers and a {cluster.chief.job} "
      f"({cluster}), which would evaluate while the workers go on; call it "
      f"{tasks_lib.CHIEFS[0]}, and add a task of the type evaluator"
    )


def run_task(
  estimator: tf.estimator.Estimator,
  train_spec: tf.estimator.TrainSpec,
  run: ending.Run,
  lost_after: float,
) -> None:
  """Does this task's part of a run; its server is started.

  Args:
    estimator: The Estimator, whose config is of `estimator_mp.run_config`.
    train_spec: The TrainSpec.
    run: The run; the task of its cluster is no evaluator.
    lost_after: After how many seconds a silent parameter server is lost.

  Raises:
    TaskError: If a task cannot be reached in time, or was lost.
  """
  cluster = run.cluster
  task, chief = cluster.task, cluster.chief
  if task.job == tasks_lib.PARAMETER_SERVER:
    run.wait()
    return
  status.wait_until_all_answer(_needed_by(cluster), run.startup_timeout)
  if task != chief:
    _wait_for_turn(estimators.run_config_of(estimator))
  with distribution.cluster_run(), interruption.instead_of_the_end() as stop:
    recovery.run(
      lambda _: _train(estimator, train_spec, cluster, stop),
      {
        x: cluster.address(x)
        for x in _of_job(cluster, tasks_lib.PARAMETER_SERVER)
      },
      run.heartbeat_timeout,
      lost_after,
      stop.raise_if_requested,
    )
  if task != chief:
    run.say_done()
    run.wait()
    return
  # Servers that ended with the chief would take a worker's last step with them.
  run.wait_until_all_done(_of_job(cluster, tasks_lib.WORKER))
  run.tell()


def _train(
  estimator: tf.estimator.Estimator,
  train_spec: tf.estimator.TrainSpec,
  cluster: tasks_lib.Cluster,
  stop: interruption.Interruption,
) -> None:
  """Trains this worker's model on its part of the data, until it is stopped."""
  of_run = session_config.sharded_run_of(estimators.run_config_of(estimator))
  workers = [cluster.chief, *_of_job(cluster, tasks_lib.WORKER)]
  number = workers.index(cluster.task)
  if of_run is not None:
    train_spec = input_by_task.of_train_spec(
      train_spec, of_run.sharding, number, len(workers)
    )
  is_chief = cluster.task == cluster.chief
  if is_chief:
    whole_checkpoints.leave_out_broken(estimator.model_dir)
  estimator.train(
    train_spec.input_fn,
    max_steps=train_spec.max_steps,
    hooks=[*train_spec.hooks, stop],
    saving_listeners=train_spec.saving_listeners if is_chief else None,
  )


def _of_job(cluster: tasks_lib.Cluster, job: str) -> list[tasks_lib.Task]:
  return [task for task in cluster.tasks if task.job == job]


def _needed_by(cluster: tasks_lib.Cluster) -> Mapping[tasks_lib.Task, str]:
  """Returns where the tasks listen without which this one cannot train."""
  return {
    task: cluster.address(task)
    for task in cluster.tasks
    if task.job == tasks_lib.PARAMETER_SERVER
    or (task == cluster.chief and task != cluster.task)
  }


def _wait_for_turn(config: tf.estimator.RunConfig) -> None:
  """Lets a worker begin later than the chief, and than workers before it."""
  longest = config.experimental_max_worker_delay_secs
  seconds = min(
    _MAX_SECONDS if longest is None else int(longest),
    (config.task_id + 1) * _SECONDS_PER_WORKER,
  )
  if seconds:
    tf.compat.v1.logging.info("This worker begins in %d s.", seconds)
    time.sleep(seconds)
