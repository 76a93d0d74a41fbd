"""One process: what a sharded model cannot be distributed by.

A mesh is the devices of one session. An Estimator that distributes its model_fn
as well, over the tasks of a cluster or by a strategy, fails when the session
begins: in one task, while the others wait for it, or with an error that does
not say why.
"""

from compat.private import autograph
from estimator_mp import mesh as mesh_lib
from estimator_mp.config.sharding_options import AXES

import tensorflow as tf


def check_run_config(
  run_config: tf.estimator.RunConfig, mesh: mesh_lib.Mesh
) -> None:
  """Raises if an Estimator would distribute a model that is sharded.

  Args:
    run_config: The Estimator's.
    mesh: The mesh of the model.

  Raises:
    ValueError: If the Estimator is one of several tasks, or has a distribution
      strategy.
  """
  check_one_task(run_config)
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


def check_one_task(run_config: tf.estimator.RunConfig) -> None:
  """Raises if an Estimator is one of several tasks of a cluster.

  The evaluator of a cluster is none of its tasks.

  Args:
    run_config: The Estimator's.

  Raises:
    ValueError: If it is one. It would fail when its session begins, and the
      other tasks would wait for it.
  """
  cluster = run_config.cluster_spec
  jobs = {job: cluster.num_tasks(job) for job in cluster.jobs}
  size = sum(jobs.values())
  if size > 1:
    names = ", ".join(f"{job}:{n}" for job, n in sorted(jobs.items()))
    raise ValueError(
      f"TF_CONFIG names a cluster of {size} tasks ({names}), but a sharded "
      "model is in one process; unset TF_CONFIG, or train on several machines "
      'with aggregation="horovod" (docs/horovod.md)'
    )


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
