"""join_cluster: TF_CONFIG, from whatever else knows the cluster.

`tf.estimator` knows a cluster by the environment variable TF_CONFIG, and so
does a mesh. Slurm, Kubernetes and others know it in ways of their own, for
which TensorFlow has cluster resolvers. The answer of a resolver is written into
TF_CONFIG once, and there is one truth again.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from estimator_mp import json_values
from estimator_mp.cluster import tasks as tasks_lib

import tensorflow as tf

_NODE = "SLURMD_NODENAME"
_CHIEF = tasks_lib.CHIEFS[0]

_Jobs = Mapping[str, list[str]]
_TaskOf = tuple[str, int]


def join_cluster(
  resolver: tf.distribute.cluster_resolver.ClusterResolver,
) -> dict[str, Any]:
  """Writes the cluster of a resolver into TF_CONFIG, for `tf.estimator`.

  Call it before anything that reads TF_CONFIG is made: a RunConfig
  (`estimator_mp.run_config` makes one), a mesh.

  `tf.estimator` wants one chief, which trains and saves. A cluster of workers
  without a chief (or a master), as other programs of TensorFlow have it, gets
  one: worker 0 becomes the chief, worker 1 becomes worker 0, and so on.

      join_cluster(tf.distribute.cluster_resolver.SlurmClusterResolver())

  Args:
    resolver: Any cluster resolver of TensorFlow. One that does not know which
      task this process is, as KubernetesClusterResolver, is to be told first:
      `resolver.task_type = "worker"; resolver.task_id = 2`.

  Returns:
    The new TF_CONFIG: the cluster, the task of this process, the environment
    "cloud", and all other entries that TF_CONFIG had before.

  Raises:
    ValueError: If the resolver has no tasks, or does not say which of them
      this process is; if its jobs are not those of `tf.estimator`; if
      TF_CONFIG names another cluster; or if Slurm runs this process on another
      node than the resolver says.
  """
  name = type(resolver).__name__
  jobs = _jobs_of(resolver, name)
  # SlurmClusterResolver knows its task only when it was asked for the cluster.
  task = _task_of(resolver, name, jobs)
  if isinstance(resolver, tf.distribute.cluster_resolver.SlurmClusterResolver):
    _check_node(jobs, task)
  cluster = _with_chief(jobs, task)
  before = _config_before(cluster, name)
  tf_config = {**before, **cluster, "environment": "cloud"}
  text = json.dumps(tf_config)
  try:
    tasks_lib.from_environment({tasks_lib.VARIABLE: text})
  except ValueError as error:
    raise ValueError(
      f"{name} does not describe a cluster of tf.estimator: {error}"
    ) from error
  os.environ[tasks_lib.VARIABLE] = text
  return tf_config


def _jobs_of(resolver: Any, name: str) -> dict[str, list[str]]:
  """Returns the addresses of the tasks, by job."""
  spec = resolver.cluster_spec()
  jobs = spec.as_dict() if spec else {}
  if not set(jobs) - {tasks_lib.EVALUATOR}:
    raise ValueError(
      f"the cluster_spec of {name} is empty, and so there is no cluster to "
      "join; give the resolver its tasks, or do not call join_cluster in a run "
      "of one process"
    )
  for job, addresses in jobs.items():
    if not isinstance(addresses, list) or not addresses:
      raise ValueError(
        f"the cluster_spec of {name} has {addresses!r} for job {job!r}; give "
        "it a list with the address of each task, from 0 on"
      )
  return dict(jobs)


def _task_of(resolver: Any, name: str, jobs: _Jobs) -> _TaskOf:
  """Returns which of the tasks this process is."""
  job, index = resolver.task_type, resolver.task_id
  if job is None or index is None:
    raise ValueError(
      f"{name} does not say which task of {_sizes(jobs)} this process is "
      f"(task_type={job!r}, task_id={index!r}); set its task_type and task_id "
      "first"
    )
  if job != tasks_lib.EVALUATOR and not 0 <= index < len(jobs.get(job, ())):
    raise ValueError(
      f"task_type={job!r}, task_id={index!r} of {name} is not one of its tasks "
      f"({_sizes(jobs)}); set them to one of these"
    )
  return job, int(index)


def _sizes(jobs: _Jobs) -> str:
  return ", ".join(f"{job}:{len(jobs[job])}" for job in sorted(jobs))


def _check_node(jobs: _Jobs, task: _TaskOf) -> None:
  """Raises if Slurm runs this process elsewhere than the resolver says.

  SlurmClusterResolver sorts the names of nodes as texts, so that node10 is
  before node9, and takes the tasks of a node to have consecutive numbers.
  """
  node = os.environ.get(_NODE, "")
  hosts = {address: _host(address) for job in jobs.values() for address in job}
  if node.partition(".")[0] not in hosts.values():
    return  # The resolver was told other names, or Slurm is not there.
  job, index = task
  address = jobs[job][index]
  if hosts[address] != node.partition(".")[0]:
    raise ValueError(
      f"Slurm runs this process on node {node}, but SlurmClusterResolver has "
      f"it as {job} {index} at {address}: it sorts the names of nodes as "
      "texts, and numbers tasks node by node; use srun --distribution=block "
      "and nodes whose numbers have equally many digits, or a "
      "SimpleClusterResolver with the nodes in the order of `scontrol show "
      "hostnames`"
    )


def _host(address: str) -> str:
  """Returns the first part of the name of the host of an address."""
  return address.rpartition(":")[0].partition(".")[0]


def _with_chief(jobs: _Jobs, task: _TaskOf) -> dict[str, Any]:
  """Returns a cluster with a chief, and the task."""
  cluster = {job: list(addresses) for job, addresses in jobs.items()}
  job, index = task
  workers = cluster.get(tasks_lib.WORKER, [])
  if workers and not any(chief in cluster for chief in tasks_lib.CHIEFS):
    cluster[_CHIEF] = [workers.pop(0)]
    if not workers:
      del cluster[tasks_lib.WORKER]
    if job == tasks_lib.WORKER:
      job, index = (job, index - 1) if index else (_CHIEF, 0)
  return {"cluster": cluster, "task": {"type": job, "index": index}}


def _config_before(cluster: Mapping[str, Any], name: str) -> dict[str, Any]:
  """Returns the old TF_CONFIG; raises if its cluster or task is another one."""
  text = os.environ.get(tasks_lib.VARIABLE, "")
  try:
    before = dict(json_values.parse(text)) if text.strip() else {}
    if not before.get("cluster"):
      return before
    task = before["task"]
    index = int(task.get("index", 0))
    known = _with_chief(before["cluster"], (task["type"], index))
  except (AttributeError, LookupError, TypeError, ValueError) as error:
    raise ValueError(
      f"TF_CONFIG={text!r} is already set, but does not describe a cluster and "
      f"task of tf.estimator ({error!r}); unset it, and {name} will set it"
    ) from error
  if known != cluster:
    raise ValueError(
      f"TF_CONFIG is already set to {json.dumps(known)}, and {name} describes "
      f"{json.dumps(dict(cluster))}; unset TF_CONFIG, or do not call "
      "join_cluster where something else sets it"
    )
  return before
