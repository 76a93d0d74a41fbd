"""tf.contrib.learn.RunConfig: tf.estimator's, with another cluster."""

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from typing import Any

from compat.contrib.learn.constants import Environment, TaskType

import tensorflow as tf

_TF_CONFIG = "TF_CONFIG"


def _read_tf_config() -> dict[str, Any]:
  read: dict[str, Any] = json.loads(os.environ.get(_TF_CONFIG) or "{}")
  return read


@contextlib.contextmanager
def _without_tf_config() -> Iterator[None]:
  """Hides TF_CONFIG: tf.estimator reads it otherwise, and refuses "worker"."""
  kept = os.environ.pop(_TF_CONFIG, None)
  try:
    yield
  finally:
    if kept is not None:
      os.environ[_TF_CONFIG] = kept


def _session_config(
  num_cores: int, log_device_placement: bool, gpu_memory_fraction: float
) -> tf.compat.v1.ConfigProto:
  return tf.compat.v1.ConfigProto(
    log_device_placement=log_device_placement,
    inter_op_parallelism_threads=num_cores,
    intra_op_parallelism_threads=num_cores,
    gpu_options=tf.compat.v1.GPUOptions(
      per_process_gpu_memory_fraction=gpu_memory_fraction
    ),
  )


class ClusterConfig:
  """The cluster and this task, as TF_CONFIG describes them.

  A task "worker" 0 is the chief, and in the environment "cloud" the "master"
  is; that is where it differs from tf.estimator.RunConfig.
  """

  def __init__(self, master: str | None = None, evaluation_master: str = ""):
    """Reads TF_CONFIG.

    Args:
      master: the session's target; by default this task's address.
      evaluation_master: the session's target when evaluating.

    Raises:
      ValueError: if the cluster has no such task.
    """
    config = _read_tf_config()
    task = config.get("task", {})
    self._cluster = tf.train.ClusterSpec(config.get("cluster", {}))
    self._tasks_type: str | None = task.get("type")
    self._tasks_id = int(task.get("index", 0))
    self._environments_name = config.get("environment", Environment.LOCAL)
    self._target = self._own_address() if master is None else master
    self._evaluation_target = evaluation_master

  def _own_address(self) -> str:
    jobs = self._cluster.as_dict()
    if not jobs or not self._tasks_type:
      return ""
    if self._tasks_type not in jobs:
      raise ValueError(
        f"TF_CONFIG has the task type {self._tasks_type!r}, but its cluster "
        f"has only {', '.join(sorted(jobs))}."
      )
    count = self._cluster.num_tasks(self._tasks_type)
    if self._tasks_id not in range(count):
      raise ValueError(
        f"TF_CONFIG has the task {self._tasks_id} of {self._tasks_type!r}, but "
        f"its cluster has {count} of them."
      )
    address = self._cluster.task_address(self._tasks_type, self._tasks_id)
    return f"grpc://{address}"

  @property
  def cluster_spec(self) -> tf.train.ClusterSpec:
    """The cluster; empty without TF_CONFIG."""
    return self._cluster

  @property
  def environment(self) -> str:
    """Where the cluster runs: "local", "cloud" or "google"."""
    return str(self._environments_name)

  @property
  def evaluation_master(self) -> str:
    """The session's target when evaluating."""
    return self._evaluation_target

  @property
  def master(self) -> str:
    """The session's target when training."""
    return self._target

  @property
  def num_ps_replicas(self) -> int:
    """How many parameter servers there are."""
    return len(self._cluster.as_dict().get(TaskType.PS, []))

  @property
  def num_worker_replicas(self) -> int:
    """How many workers there are, masters included."""
    jobs = self._cluster.as_dict()
    return sum(
      len(jobs.get(job, [])) for job in (TaskType.WORKER, TaskType.MASTER)
    )

  @property
  def task_id(self) -> int:
    """The number of this task among those of its type."""
    return self._tasks_id

  @property
  def task_type(self) -> str | None:
    """The type of this task; None without TF_CONFIG."""
    return self._tasks_type

  @property
  def is_chief(self) -> bool:
    """Whether this task writes checkpoints."""
    is_cloud = self._environments_name == Environment.CLOUD
    chief = TaskType.MASTER if is_cloud else TaskType.WORKER
    return self._tasks_id == 0 and self._tasks_type in (None, chief)

  @staticmethod
  def get_task_id() -> int:
    """Returns the number of this task, from TF_CONFIG."""
    return int(_read_tf_config().get("task", {}).get("index", 0))


class RunConfig(ClusterConfig, tf.compat.v1.estimator.RunConfig):
  """How an Estimator of tf.contrib.learn, or of tf.estimator, is run."""

  _USE_DEFAULT = 0

  def __init__(
    self,
    master: str | None = None,
    num_cores: int = 0,
    log_device_placement: bool = False,
    gpu_memory_fraction: float = 1,
    tf_random_seed: int | None = None,
    save_summary_steps: int | None = 100,
    save_checkpoints_secs: int | None = _USE_DEFAULT,
    save_checkpoints_steps: int | None = None,
    keep_checkpoint_max: int | None = 5,
    keep_checkpoint_every_n_hours: int = 10000,
    log_step_count_steps: int | None = 100,
    protocol: str | None = None,
    evaluation_master: str = "",
    model_dir: str | None = None,
    session_config: tf.compat.v1.ConfigProto | None = None,
    session_creation_timeout_secs: int = 7200,
  ):
    """Makes the configuration, from arguments and TF_CONFIG.

    Args:
      master: the session's target; by default what TF_CONFIG says.
      num_cores: how many threads TensorFlow uses; 0 is as many as cores.
      log_device_placement: whether the session logs where ops are.
      gpu_memory_fraction: the part of a GPU's memory to take.
      tf_random_seed: the graph's seed; None lets ops draw theirs.
      save_summary_steps: steps between two summaries.
      save_checkpoints_secs: seconds between two checkpoints; 600, unless
        steps are given.
      save_checkpoints_steps: steps between two checkpoints.
      keep_checkpoint_max: how many checkpoints are kept.
      keep_checkpoint_every_n_hours: one in so many hours is kept for ever.
      log_step_count_steps: steps between two logs of the speed.
      protocol: of the servers; "grpc" by default.
      evaluation_master: the session's target when evaluating.
      model_dir: where checkpoints are.
      session_config: the session's configuration; an Estimator of
        tf.contrib.learn takes it in the place of the three arguments above.
      session_creation_timeout_secs: how long a worker waits for the chief.

    Raises:
      ValueError: if TF_CONFIG contradicts itself, or two arguments do.
    """
    if save_checkpoints_secs == self._USE_DEFAULT:
      save_checkpoints_secs = 600 if save_checkpoints_steps is None else None
    with _without_tf_config():
      tf.compat.v1.estimator.RunConfig.__init__(
        self,
        model_dir=model_dir,
        tf_random_seed=tf_random_seed,
        save_summary_steps=save_summary_steps,
        save_checkpoints_steps=save_checkpoints_steps,
        save_checkpoints_secs=save_checkpoints_secs,
        session_config=session_config,
        keep_checkpoint_max=keep_checkpoint_max,
        keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
        log_step_count_steps=log_step_count_steps,
        protocol=protocol,
        session_creation_timeout_secs=session_creation_timeout_secs,
      )
    ClusterConfig.__init__(self, master, evaluation_master)
    self._threads_and_memory = _session_config(
      num_cores, log_device_placement, gpu_memory_fraction
    )

  @property
  def tf_config(self) -> tf.compat.v1.ConfigProto:
    """The session's configuration that the arguments describe."""
    return self._threads_and_memory

  def uid(self, whitelist: Collection[str] | None = None) -> str:
    """Returns a text that two equal configurations have in common.

    Args:
      whitelist: attributes that may differ; by default those that say how often
        something is saved or logged, and the seed.
    """
    if whitelist is None:
      whitelist = _MAY_DIFFER
    # What has no underscore, another library has noted: estimator_mp its run.
    described = {
      name: value
      for name, value in vars(self).items()
      if name.startswith("_") and name.lstrip("_") not in whitelist
    }
    if isinstance(described.get("_cluster"), tf.train.ClusterSpec):
      described["_cluster"] = described["_cluster"].as_dict()
    return ", ".join(f"{name}={described[name]}" for name in sorted(described))


_MAY_DIFFER = (
  "cluster_spec",  # tf.estimator's, which did not see TF_CONFIG.
  "tf_random_seed",
  "save_summary_steps",
  "save_checkpoints_steps",
  "save_checkpoints_secs",
  "session_config",
  "keep_checkpoint_max",
  "keep_checkpoint_every_n_hours",
  "log_step_count_steps",
)
