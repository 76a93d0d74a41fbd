"""Estimator under a tf.distribute.Strategy on a cluster.

Stands in for `tensorflow.python.distribute.estimator_training`, with the five
functions that the tensorflow-estimator wheel calls. A cluster is described by
TF_CONFIG (every process runs the same program: "independent worker") or by
`RunConfig(experimental_distribute=DistributeConfig(remote_cluster=...))` (one
program drives the others: "standalone client"). TensorFlow's own distribute
coordinator starts the servers and says which task this process is.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.private import distribution

import tensorflow as tf

# The estimator hands over its RunConfig to have its private fields filled in;
# there is no other way.

_CHIEF = "chief"
_EVALUATOR = "evaluator"
_PS = "ps"
_WORKER = "worker"


def init_run_config(config: Any, tf_config: Mapping[str, Any]) -> None:
  """Completes a RunConfig that was given a strategy.

  Args:
    config: the `tf.estimator.RunConfig` under construction.
    tf_config: the parsed TF_CONFIG; empty if the variable is not set.

  Raises:
    ValueError: if a strategy or the cluster is given in two places.
  """
  _take_experimental_strategies(config)
  config._init_distributed_setting_from_environment_var({})
  cluster = tf.train.ClusterSpec(tf_config.get("cluster", {}))
  modes = distribution.distribute_coordinator().CoordinatorMode
  remote_cluster = getattr(
    config._experimental_distribute, "remote_cluster", None
  )

  if config._train_distribute and remote_cluster:
    if cluster:
      raise ValueError(
        "The cluster is given twice: by TF_CONFIG and by "
        "experimental_distribute.remote_cluster. Leave one of them out."
      )
    config._distribute_coordinator_mode = modes.STANDALONE_CLIENT
    config._cluster_spec = remote_cluster
  elif cluster and config._train_distribute and "master" not in cluster.jobs:
    config._distribute_coordinator_mode = modes.INDEPENDENT_WORKER
    config._cluster_spec = cluster
  else:
    config._distribute_coordinator_mode = None
    config._init_distributed_setting_from_environment_var(tf_config)
    config._maybe_overwrite_session_config_for_distributed_training()
  tf.compat.v1.logging.info(
    "RunConfig: distribute coordinator mode %s",
    config._distribute_coordinator_mode,
  )


def _take_experimental_strategies(config: Any) -> None:
  """Moves experimental_distribute's strategies to the RunConfig itself."""
  experimental = config._experimental_distribute
  for name in ("train_distribute", "eval_distribute"):
    strategy = getattr(experimental, name, None)
    if not strategy:
      continue
    if getattr(config, f"_{name}"):
      raise ValueError(
        f"Both {name} and experimental_distribute.{name} are set in the "
        "RunConfig. Leave one of them out."
      )
    setattr(config, f"_{name}", strategy)


def should_run_distribute_coordinator(config: Any) -> bool:
  """Returns whether train_and_evaluate goes through the coordinator.

  Args:
    config: a `tf.estimator.RunConfig`.
  """
  mode = getattr(config, "_distribute_coordinator_mode", None)
  modes = distribution.distribute_coordinator().CoordinatorMode
  if mode is None:
    return False
  if mode not in (modes.STANDALONE_CLIENT, modes.INDEPENDENT_WORKER):
    tf.compat.v1.logging.warning(
      "Unknown distribute coordinator mode %r is ignored.", mode
    )
    return False
  if not config.cluster_spec:
    tf.compat.v1.logging.warning(
      "Training locally: the RunConfig has a distribute coordinator mode, but "
      "no cluster."
    )
    return False
  return True


def train_and_evaluate(
  estimator: Any, train_spec: Any, eval_spec: Any, executor_cls: Any
) -> None:
  """Runs this process's part of `tf.estimator.train_and_evaluate`.

  Args:
    estimator: the `tf.estimator.Estimator`.
    train_spec: the `tf.estimator.TrainSpec`.
    eval_spec: the `tf.estimator.EvalSpec`.
    executor_cls: the estimator's class that evaluates continuously.

  Raises:
    ValueError: if the estimator's RunConfig has no coordinator mode.
  """
  coordinator = distribution.distribute_coordinator()
  config = estimator.config
  mode = config._distribute_coordinator_mode
  if not mode:
    raise ValueError("The RunConfig has no distribute coordinator mode.")
  standalone = mode == coordinator.CoordinatorMode.STANDALONE_CLIENT

  def train(strategy: Any) -> None:
    local = _for_this_task(estimator, "train", strategy)
    # One client drives all workers: hooks then run with the chief only.
    everywhere = not standalone or _context().is_chief
    local._config._distribute_coordinator_mode = None
    local.train(
      input_fn=train_spec.input_fn,
      max_steps=train_spec.max_steps,
      hooks=list(train_spec.hooks) if everywhere else [],
    )

  def evaluate(strategy: Any) -> None:
    local = _for_this_task(estimator, "eval", strategy)
    local._config._distribute_coordinator_mode = None
    executor_cls(local, train_spec, eval_spec)._start_continuous_evaluation()

  coordinator.run_distribute_coordinator(
    train,
    config.train_distribute,
    evaluate,
    config.eval_distribute,
    mode=mode,
    # An independent worker reads its cluster from TF_CONFIG.
    cluster_spec=config.cluster_spec if standalone else None,
    session_config=config.session_config,
  )


def estimator_train(
  estimator: Any,
  train_distributed_fn: Callable[[Any, Any, Sequence[Any]], Any],
  hooks: Sequence[Any],
) -> Any:
  """Runs `Estimator.train` on the workers of a remote cluster.

  Args:
    estimator: the `tf.estimator.Estimator`.
    train_distributed_fn: called with (estimator, strategy, hooks) per task.
    hooks: run with the chief only.

  Returns:
    The trained copy of the estimator.

  Raises:
    ValueError: if the cluster or the strategy does not allow it.
  """

  def train(strategy: Any) -> Any:
    local = _for_this_task(estimator, "train", strategy)
    train_distributed_fn(local, strategy, hooks if _context().is_chief else [])
    return local

  return _run_on_remote_cluster(estimator, "train", train)


def estimator_evaluate(
  estimator: Any,
  evaluate_distributed_fn: Callable[[Any, Any, Sequence[Any]], Any],
  hooks: Sequence[Any],
) -> Any:
  """Runs `Estimator.evaluate` on the workers of a remote cluster.

  Args:
    estimator: the `tf.estimator.Estimator`.
    evaluate_distributed_fn: called with (estimator, strategy, hooks) per task.
    hooks: run with the chief only.

  Returns:
    The result of `evaluate_distributed_fn`: the metrics.

  Raises:
    ValueError: if the cluster or the strategy does not allow it.
  """

  def evaluate(strategy: Any) -> Any:
    local = _for_this_task(estimator, "eval", strategy)
    return evaluate_distributed_fn(
      local, strategy, hooks if _context().is_chief else []
    )

  return _run_on_remote_cluster(estimator, "eval", evaluate)


def _run_on_remote_cluster(
  estimator: Any, kind: str, worker_fn: Callable[[Any], Any]
) -> Any:
  """Checks that one client may drive the cluster, and lets it."""
  coordinator = distribution.distribute_coordinator()
  config = estimator.config
  strategy = getattr(config, f"_{kind}_distribute")
  method = {"train": "train", "eval": "evaluate"}[kind]
  cluster = tf.train.ClusterSpec(config.cluster_spec)
  mode = config._distribute_coordinator_mode
  if _EVALUATOR in cluster.jobs:
    raise ValueError(
      f"Estimator.{method} was called on a cluster with an 'evaluator' job; "
      "only tf.estimator.train_and_evaluate serves an evaluator."
    )
  if mode != coordinator.CoordinatorMode.STANDALONE_CLIENT:
    raise ValueError(
      f"Estimator.{method} cannot run on the cluster of TF_CONFIG under a "
      "tf.distribute strategy; call tf.estimator.train_and_evaluate, or set "
      "experimental_distribute.remote_cluster in the RunConfig."
    )
  if strategy.extended.experimental_between_graph:
    raise ValueError(
      f"Estimator.{method} cannot drive a remote cluster under "
      f"{type(strategy).__name__}, which needs a program per worker; call "
      "tf.estimator.train_and_evaluate."
    )
  return coordinator.run_distribute_coordinator(
    worker_fn,
    strategy,
    mode=mode,
    cluster_spec=cluster,
    session_config=config.session_config,
  )


def _context() -> Any:
  return distribution.current_worker_context()


def _for_this_task(estimator: Any, kind: str, strategy: Any) -> Any:
  """Returns a copy of the estimator, configured for the current task."""
  local = copy.deepcopy(estimator)
  setattr(local._config, f"_{kind}_distribute", strategy)
  _describe_task(local._config, _context())
  setattr(local, f"_{kind}_distribution", strategy)
  return local


def _describe_task(config: Any, context: Any) -> None:
  """Writes the coordinator's view of the current task into the RunConfig."""
  cluster = context.cluster_spec
  config._service = None
  config._cluster_spec = cluster
  config._task_type = context.task_type
  config._task_id = context.task_id
  config._master = context.master_target
  config._evaluation_master = context.master_target
  config._is_chief = context.is_chief
  if not cluster:
    config._global_id_in_cluster = 0
    config._num_ps_replicas = 0
    config._num_worker_replicas = 1
  elif context.task_type == _EVALUATOR:
    # An evaluator works alone, whatever the others do.
    config._cluster_spec = tf.train.ClusterSpec({})
    config._global_id_in_cluster = None
    config._num_ps_replicas = 0
    config._num_worker_replicas = 0
  else:
    config._global_id_in_cluster = global_id(
      cluster, context.task_type, context.task_id
    )
    config._num_ps_replicas = _num_tasks(cluster, _PS)
    config._num_worker_replicas = _num_tasks(cluster, _WORKER) + _num_tasks(
      cluster, _CHIEF
    )


def _num_tasks(cluster: tf.train.ClusterSpec, job: str) -> int:
  return cluster.num_tasks(job) if job in cluster.jobs else 0


def global_id(
  cluster: tf.train.ClusterSpec, task_type: str | None, task_id: int
) -> int:
  """Numbers the tasks of a cluster, as RunConfig.global_id_in_cluster says.

  The chief comes first, then the other jobs by name, then parameter servers.

  Args:
    cluster: all tasks.
    task_type: the job of the task to number, or None for a local run.
    task_id: its index within the job.

  Raises:
    ValueError: if the cluster has no such job.
  """
  if not task_type:
    return 0
  order = {_CHIEF: 0, _PS: 2}
  jobs = sorted(cluster.jobs, key=lambda job: (order.get(job, 1), job))
  if task_type not in jobs:
    raise ValueError(
      f"This task's job {task_type!r} is not in the cluster, which has the "
      f"jobs {jobs}."
    )
  before = jobs[: jobs.index(task_type)]
  return task_id + sum(int(cluster.num_tasks(job)) for job in before)
