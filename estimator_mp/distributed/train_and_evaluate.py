"""train_and_evaluate: tf.estimator's, for a sharded model over several tasks.

Every task runs the same program; TF_CONFIG says who it is. Without parameter
servers, one mesh spans the tasks ("in-graph"):

    chief       serves, and drives the mesh by one session: reads the input
                (see input_by_task.py), runs the hooks, saves; evaluates, unless
                there is an evaluator
    worker n    serves its devices, until the chief has ended (see ending.py)
    evaluator   evaluates each checkpoint, on devices of its own machine (see
                evaluating.py)

With them, each worker has a model and a mesh of its own: see between_graph.py.
"""

import os
from typing import Any

from compat.private import estimators
from estimator_mp import devices
from estimator_mp.cluster import memory_limit
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import (
  between_graph,
  ending,
  evaluating,
  input_by_task,
  recovery,
  server,
  status,
)
from estimator_mp.session import (
  distribution,
  interruption,
  session_config,
  whole_checkpoints,
)

import tensorflow as tf

_num_runs = 0


def train_and_evaluate(
  estimator: tf.estimator.Estimator,
  train_spec: tf.estimator.TrainSpec,
  eval_spec: tf.estimator.EvalSpec,
  trusted_network: bool = False,
  startup_timeout: float = 600.0,
  heartbeat_timeout: float = 30.0,
  lost_after: float = 600.0,
) -> tuple[Any, Any] | None:
  """Trains, evaluates and exports a sharded model, in one task or several.

  Without a cluster in TF_CONFIG it is `tf.estimator.train_and_evaluate`. In a
  cluster each task calls it with the same arguments, and chief (or master),
  worker and evaluator have the same roles as there, except that workers have no
  model of their own: they serve their part of the mesh to the chief's session
  (the in-graph replication of Abadi et al., 2016, arXiv:1605.08695). In a
  worker, the call returns when the chief has ended. So input_fn, hooks and
  listeners run in the chief alone, and input_fn without TF_CONFIG in its
  environment: its input is that of the whole mesh.

  An input_fn for training that takes an argument `input_context` gets a
  `tf.distribute.InputContext`, as it does from tf.distribute's strategies.
  input_fn is called once for each task in which replicas begin, with the part
  of the data that this task reads. It returns a Dataset of batches for one
  replica, whose size is `input_context.get_per_replica_batch_size(size)`; a
  step is made of one for each replica. The chief reads for all tasks without
  that argument.

  If TF_CONFIG's cluster names no evaluator, the chief evaluates and exports
  between rounds of training, as `tf.estimator` does in one process: over the
  mesh, as the model may fit no machine alone. `model_dir` has to be a folder
  that all tasks share, as each saves its own variables.

  SIGTERM ends training after the step that is running, with a checkpoint, and
  the program with exit code 143, unless the program handles SIGTERM itself. A
  second one ends the process at once. A run starts from the newest complete
  checkpoint; a line of the log names an incomplete one.

  If a task dies, or its machine is lost, the chief waits until the task is
  restarted, and continues from the last checkpoint; a task that was only
  stopped continues where it was. A restarted chief does the same. The graph is
  built again for that, and hooks start again. With `save_input_position` of
  `run_config`, the input continues, too, so that all losses are those of a run
  without faults. A task that does not come back ends the run. If a call of
  TensorFlow waits for that task without a limit, the process ends with exit
  code 138. A chief that does not come back ends its evaluator in the same way;
  after a chief that ended in order, the evaluator evaluates the last
  checkpoint, whatever its step.

  Args:
    estimator: The Estimator. Its config was made by `estimator_mp.run_config`,
      or it was sharded by `estimator_mp.shard_estimator`.
    train_spec: As for `tf.estimator.train_and_evaluate`.
    eval_spec: As there.
    trusted_network: Whether only machines of the cluster can reach the ports of
      this one. It has to be True on a machine with a network: TensorFlow's
      server has no authentication.
    startup_timeout: Seconds that a task waits for the others to answer.
    heartbeat_timeout: Seconds after which the log names a task that does not
      answer during the run.
    lost_after: Seconds after which such a task is lost: the chief stops waiting
      for it, and ends with an error.

  Returns:
    The metrics of the last evaluation and the exporters' results, where one
    process trains and evaluates; None in other tasks.

  Raises:
    ValueError: If the arguments do not fit TF_CONFIG, or `trusted_network` is
      not set on a machine with a network.
    TaskError: If a task cannot serve, or cannot be reached in time.
    SystemExit: After SIGTERM, when the checkpoint is saved.
    LostTaskError: If a task was lost during the run. It is a TaskError and a
      SystemExit: a program that does not catch it ends with exit code 138.
  """
  memory_limit.reserve_small_stacks()
  cluster = tasks_lib.from_environment()
  if cluster is not None:
    _check_model_dir(estimator, cluster)
  if cluster is None:
    with interruption.instead_of_the_end() as stop:
      return _train_here(estimator, train_spec, eval_spec, stop)
  _check_types(estimator, train_spec, eval_spec)
  _check_seconds("startup_timeout", startup_timeout)
  _check_seconds("heartbeat_timeout", heartbeat_timeout)
  _check_seconds("lost_after", lost_after)
  if cluster.task.job == tasks_lib.EVALUATOR:
    timeouts = startup_timeout, heartbeat_timeout, lost_after
    evaluating.run(estimator, train_spec, eval_spec, cluster, *timeouts)
    return None
  with evaluating.told_of_the_end(estimator.model_dir, cluster):
    if not cluster.is_served:
      return _by_tf_estimator(estimator, train_spec, eval_spec)
    if cluster.is_between_graph:
      between_graph.check_cluster(cluster)
    config = estimators.run_config_of(estimator)
    _check_estimator(config, cluster)
    target = server.serve(cluster, config, trusted_network).target
    global _num_runs
    _num_runs += 1
    run = ending.Run(
      target, cluster, _num_runs, startup_timeout, heartbeat_timeout
    )
    if cluster.is_between_graph:
      between_graph.run_task(estimator, train_spec, run, lost_after)
      return None
    if cluster.task != cluster.chief:
      run.wait()
      return None
    others = {x: cluster.address(x) for x in cluster.mesh_tasks}
    status.wait_until_all_answer(others, startup_timeout)
    with distribution.cluster_run(), interruption.instead_of_the_end() as stop:
      del others[cluster.task]
      result = recovery.run(
        lambda n: _run_chief(
          estimator, train_spec, eval_spec, cluster, n, stop
        ),
        others,
        heartbeat_timeout,
        lost_after,
        stop.raise_if_requested,
      )
    run.tell()
    return result


def _run_chief(
  estimator: tf.estimator.Estimator,
  train_spec: tf.estimator.TrainSpec,
  eval_spec: tf.estimator.EvalSpec,
  cluster: tasks_lib.Cluster,
  num_before: int,
  stop: interruption.Interruption,
) -> tuple[Any, Any] | None:
  """Trains, and evaluates without an evaluator; after some attempts before."""
  alone = input_by_task.without_tf_config
  train_spec = train_spec._replace(
    hooks=tuple(estimators.for_one_training(train_spec.hooks)),
    input_fn=alone(train_spec.input_fn),
  )
  eval_spec = eval_spec._replace(input_fn=alone(eval_spec.input_fn))
  if not cluster.has_evaluator:
    result = _train_here(estimator, train_spec, eval_spec, stop)
    if num_before and (result is None or result[0] is None):
      return _evaluate_last(estimator, eval_spec)
    return result
  train_spec = _read_by_task(estimator, train_spec)
  whole_checkpoints.leave_out_broken(estimator.model_dir)
  estimator.train(
    train_spec.input_fn,
    max_steps=train_spec.max_steps,
    hooks=[*train_spec.hooks, stop],
    saving_listeners=train_spec.saving_listeners,
  )
  return None


def _train_here(
  estimator: tf.estimator.Estimator,
  train_spec: tf.estimator.TrainSpec,
  eval_spec: tf.estimator.EvalSpec,
  stop: interruption.Interruption,
) -> tuple[Any, Any] | None:
  """Trains and evaluates in turn, from a whole checkpoint, until it is stopped.

  Specs of other types are left to tf.estimator, which raises an error.
  """
  if isinstance(estimator, tf.compat.v1.estimator.Estimator):
    whole_checkpoints.leave_out_broken(estimator.model_dir)
  if isinstance(train_spec, tf.estimator.TrainSpec):
    train_spec = train_spec._replace(
      hooks=(*train_spec.hooks, stop),
      saving_listeners=(
        *train_spec.saving_listeners,
        interruption.LeaveAfterSaving(stop),
      ),
    )
  if isinstance(eval_spec, tf.estimator.EvalSpec):
    eval_spec = eval_spec._replace(
      hooks=(*eval_spec.hooks, interruption.LeaveEvaluation(stop))
    )
  return _by_tf_estimator(estimator, train_spec, eval_spec)


def _evaluate_last(
  estimator: tf.estimator.Estimator, eval_spec: tf.estimator.EvalSpec
) -> tuple[Any, Any]:
  """Evaluates and exports the newest checkpoint, as after the last step.

  `tf.estimator.train_and_evaluate` evaluates while it trains. Where all steps
  have been done before a task was lost, it does neither, and returns nothing.
  """
  path = tf.train.latest_checkpoint(estimator.model_dir)
  metrics = estimator.evaluate(
    eval_spec.input_fn,
    eval_spec.steps,
    eval_spec.hooks,
    path,
    eval_spec.name,
  )
  # Where tf.estimator has its exports.
  folder = os.path.join(estimator.model_dir, "export")
  exports = [
    exporter.export(
      estimator,
      os.path.join(folder, exporter.name),
      path,
      metrics,
      is_the_final_export=True,
    )
    for exporter in eval_spec.exporters
  ]
  return metrics, exports


def _by_tf_estimator(
  estimator: tf.estimator.Estimator,
  train_spec: tf.estimator.TrainSpec,
  eval_spec: tf.estimator.EvalSpec,
) -> tuple[Any, Any] | None:
  result: tuple[Any, Any] | None = tf.estimator.train_and_evaluate(
    estimator, _read_by_task(estimator, train_spec), eval_spec
  )
  return result


def _check_seconds(name: str, seconds: float) -> None:
  if seconds <= 0:
    raise ValueError(
      f"{name}={seconds} is not a time to wait in seconds; give "
      "a number above 0"
    )


def _read_by_task(estimator: Any, train_spec: Any) -> Any:
  """Returns a TrainSpec whose tasks read their own parts of the data.

  A value that is no TrainSpec, or for no sharded Estimator, is left to it.
  """
  if not isinstance(estimator, tf.compat.v1.estimator.Estimator):
    return train_spec
  of_run = session_config.sharded_run_of(estimators.run_config_of(estimator))
  if of_run is None or not isinstance(train_spec, tf.estimator.TrainSpec):
    return train_spec
  return input_by_task.of_train_spec(train_spec, of_run.sharding)


def _check_types(estimator: Any, train_spec: Any, eval_spec: Any) -> None:
  """Raises in each task the errors that the chief alone would raise."""
  for value, name in (
    (estimator, "Estimator"),
    (train_spec, "TrainSpec"),
    (eval_spec, "EvalSpec"),
  ):
    if not isinstance(value, getattr(tf.compat.v1.estimator, name)):
      raise TypeError(f"{value!r} is not a tf.estimator.{name}; give one")


def _check_model_dir(estimator: Any, cluster: tasks_lib.Cluster) -> None:
  """Raises if each task has a model_dir of its own."""
  if not isinstance(estimator, tf.compat.v1.estimator.Estimator):
    return
  config = estimators.run_config_of(estimator)
  if session_config.is_model_dir_temporary(config):
    raise ValueError(
      f"{cluster.task} of a cluster ({cluster}) has model_dir="
      f"{config.model_dir}, which its Estimator made for this process alone; "
      "give run_config a model_dir that all tasks share"
    )


def _check_estimator(
  config: tf.estimator.RunConfig, cluster: tasks_lib.Cluster
) -> None:
  """Raises if an Estimator was not made for the mesh over the cluster."""
  of_run = session_config.sharded_run_of(config)
  if of_run is None:
    raise ValueError(
      f"TF_CONFIG names a cluster of {len(cluster.tasks)} tasks ({cluster}), "
      "but the Estimator's config was not made by "
      "estimator_mp.run_config(config, model_dir), whose sessions use a mesh "
      "over them; make it so, or shard the Estimator by "
      "estimator_mp.shard_estimator"
    )
  tasks = {devices.task_of(name) for name in of_run.devices}
  known = {task.device_prefix for task in cluster.tasks}
  if not tasks <= known:
    raise ValueError(
      f"the Estimator was made for a mesh of {', '.join(of_run.devices)}, "
      f"which are not devices of TF_CONFIG's tasks ({cluster}); set TF_CONFIG "
      "before ShardingConfig, run_config and the Estimator are made"
    )
