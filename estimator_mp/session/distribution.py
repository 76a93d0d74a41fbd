"""Distribution: strategies that would distribute a sharded model, too.

A mesh is the devices of one session, which may be those of a cluster. An
Estimator that distributes its model_fn as well, by a strategy, or that one of
several tasks trains as if it were alone, fails when the session begins: in one
task, while the others wait for it, or with an error that does not say why.
"""

import contextlib
import contextvars
from collections.abc import Iterator

from compat.private import autograph
from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.config.mesh_axes import AXES

import tensorflow as tf

_is_cluster_run: contextvars.ContextVar[bool] = contextvars.ContextVar(
  "estimator_mp.is_cluster_run", default=False
)


@contextlib.contextmanager
def cluster_run() -> Iterator[None]:
  """Says that the tasks of the cluster serve the mesh inside of the block.

  Yields:
    None.
  """
  token = _is_cluster_run.set(True)
  try:
    yield
  finally:
    _is_cluster_run.reset(token)


def is_cluster_run() -> bool:
  """Whether the tasks of the cluster serve the mesh."""
  return _is_cluster_run.get()


def check_run_config(
  run_config: tf.estimator.RunConfig, mesh: mesh_lib.Mesh
) -> None:
  """Raises if an Estimator would distribute a model that is sharded.

  Args:
    run_config: The Estimator's.
    mesh: The mesh of the model.

  Raises:
    ValueError: If it has a distribution strategy.
  """
  for name in ("train_distribute", "eval_distribute"):
    strategy = getattr(run_config, name, None)
    if strategy is not None:
      _refuse_strategy(name, strategy, mesh)


def check_no_strategy(mesh: mesh_lib.Mesh) -> None:
  """Raises if a graph is built for one replica of a distribution strategy.

  Args:
    mesh: The mesh of the model.

  Raises:
    ValueError: If it is.
  """
  if tf.distribute.has_strategy():
    strategy = tf.distribute.get_strategy()
    _refuse_strategy("train_distribute", strategy, mesh)


def check_cluster(
  run_config: tf.estimator.RunConfig, mesh: mesh_lib.Mesh
) -> None:
  """Raises if a task of a cluster would train without the others.

  The evaluator of a cluster is none of its tasks.

  Args:
    run_config: The Estimator's.
    mesh: The mesh of the model.

  Raises:
    ValueError: If it is one, and the servers are not started, or the mesh was
      made when there was no cluster.
  """
  if is_cluster_run() and not all(map(devices.task_of, mesh.devices)):
    raise ValueError(
      f"the model was sharded over {', '.join(mesh.devices)}, which belong to "
      "no task of TF_CONFIG's cluster; set TF_CONFIG before shard_model_fn is "
      "called"
    )
  # That of a TPUConfig is None where there is no cluster.
  cluster = run_config.cluster_spec or tf.train.ClusterSpec({})
  jobs = {job: cluster.num_tasks(job) for job in cluster.jobs}
  size = sum(jobs.values())
  if size > 1 and not is_cluster_run():
    names = ", ".join(f"{job}:{n}" for job, n in sorted(jobs.items()))
    raise ValueError(
      f"TF_CONFIG names a cluster of {size} tasks ({names}), whose servers a "
      "sharded model needs; train by estimator_mp.train_and_evaluate("
      "estimator, train_spec, eval_spec), which starts them, or unset TF_CONFIG"
    )


def is_beside(run_config: tf.estimator.RunConfig | None, mode: str) -> bool:
  """Whether an Estimator's session has no other devices than this process's.

  That of an evaluator is beside its cluster, and so is that of an evaluation in
  any task whose RunConfig has no `evaluation_master`.

  Args:
    run_config: The Estimator's; None if unknown.
    mode: The purpose of the session.
  """
  modes = tf.estimator.ModeKeys
  if run_config is None or mode == modes.TRAIN:
    return False
  is_evaluation = mode == modes.EVAL
  target = run_config.evaluation_master if is_evaluation else run_config.master
  return not target


def _refuse_strategy(
  name: str, strategy: tf.distribute.Strategy, mesh: mesh_lib.Mesh
) -> None:
  count = strategy.num_replicas_in_sync
  advice = "leave it out of the RunConfig"
  if count > 1:
    axes = dict(mesh.axes) | {"data": count}
    names = [f"{axis}:{axes[axis]}" for axis in AXES if axis in axes]
    advice += f", and use mesh={','.join(names)!r} for replicas"
  error = ValueError(
    f"{name}={type(strategy).__name__}(...) has {count} replica(s) of a model "
    f"that is sharded; {advice}"
  )
  raise autograph.without_frames(error)
