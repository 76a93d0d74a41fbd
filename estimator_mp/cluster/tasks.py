"""The tasks of a cluster, as TF_CONFIG names them.

    {"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"]},
     "task": {"type": "worker", "index": 1}}

The words are tf.estimator's: a chief (or a master), workers, parameter servers
and an evaluator, which is beside the cluster. If there are parameter servers,
each worker has a model and a mesh of its own, and they hold the variables:
"between-graph" replicas. Otherwise one mesh spans the tasks, and the chief's
session drives it: "in-graph". Both kinds are those of Abadi et al. (2016,
arXiv:1605.08695).
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from estimator_mp import json_values

CHIEFS = ("chief", "master")
WORKER = "worker"
PARAMETER_SERVER = "ps"
EVALUATOR = "evaluator"
VARIABLE = "TF_CONFIG"
# The exit code of a task that has lost another one for good. Those from 1 to
# 127 are for errors that would come again; the training operator of Kubernetes,
# too, leaves this one to programs that may be started again.
LOST_A_TASK = 138
_MOST_SHOWN = 1000
_JOBS = (*CHIEFS, WORKER, PARAMETER_SERVER, EVALUATOR)
_EXAMPLE = (
  '{"cluster": {"chief": ["a:2222"], "worker": ["b:2222"]}, '
  '"task": {"type": "worker", "index": 0}}'
)


@dataclasses.dataclass(frozen=True, order=True)
class Task:
  """One process of a cluster.

  Attributes:
    job: Its job, such as "worker".
    index: Its number in the job.
  """

  job: str
  index: int

  @property
  def device_prefix(self) -> str:
    """The prefix of the names of its devices, as "/job:worker/task:1"."""
    return f"/job:{self.job}/task:{self.index}"

  def __str__(self) -> str:
    return f"{self.job} {self.index}"


@dataclasses.dataclass(frozen=True)
class Cluster:
  """Several tasks, and which of them this process is.

  Attributes:
    jobs: The addresses of the tasks of each job, host:port. Without the
      evaluator, which serves nothing.
    task: This process.
    has_evaluator: Whether an evaluator is named beside them.
  """

  jobs: Mapping[str, tuple[str, ...]] = dataclasses.field(hash=False)
  task: Task
  has_evaluator: bool = False

  @property
  def tasks(self) -> tuple[Task, ...]:
    """All tasks but the evaluator: chief, workers, parameter servers."""
    return tuple(
      Task(job, index)
      for job in _JOBS
      for index in range(len(self.jobs.get(job, ())))
    )

  @property
  def chief(self) -> Task:
    """The task that drives the mesh, and saves checkpoints."""
    return self.tasks[0]

  @property
  def is_served(self) -> bool:
    """Whether this process serves: neither an evaluator nor an only task."""
    return self.task.job != EVALUATOR and len(self.tasks) > 1

  @property
  def is_between_graph(self) -> bool:
    """Whether each worker has a model, and parameter servers the variables."""
    return PARAMETER_SERVER in self.jobs

  @property
  def mesh_tasks(self) -> tuple[Task, ...]:
    """The tasks whose devices this process's mesh is made of.

    Empty if they are this machine's: for the evaluator, and for an only task.
    """
    if self.task.job == EVALUATOR or len(self.tasks) == 1:
      return ()
    if self.is_between_graph:
      return (self.task,)
    return self.tasks

  def address(self, task: Task) -> str:
    """Returns where a task listens, host:port.

    Args:
      task: One of `tasks`.
    """
    return self.jobs[task.job][task.index]

  def __str__(self) -> str:
    return ", ".join(
      f"{job}:{len(self.jobs[job])}" for job in sorted(self.jobs)
    )


def from_environment(
  environment: Mapping[str, str] = os.environ,
) -> Cluster | None:
  """Returns the cluster that TF_CONFIG names; None without one.

  Args:
    environment: Where to look.

  Raises:
    ValueError: If it is no JSON, or names no such tasks.
  """
  text = environment.get(VARIABLE, "")
  try:
    config = json_values.parse(text) if text.strip() else {}
  except json.JSONDecodeError as error:
    raise ValueError(
      f"TF_CONFIG={_shown(text)} is not valid JSON ({error}); write it like "
      f"{_EXAMPLE}"
    ) from error
  if not isinstance(config, dict):
    raise _malformed("it is not an object", text)
  jobs = _jobs(config.get("cluster") or {}, text)
  has_evaluator = jobs.pop(EVALUATOR, None) is not None  # It serves nothing.
  if not jobs:
    return None
  task = _task(config.get("task") or {}, jobs, text)
  if not any(len(jobs.get(job, ())) == 1 for job in CHIEFS):
    raise _malformed(
      "the cluster needs exactly one chief, which trains and saves; make one "
      "task the chief, such as worker 0",
      text,
    )
  return Cluster(MappingProxyType(jobs), task, has_evaluator)


def _jobs(cluster: Any, text: str) -> dict[str, tuple[str, ...]]:
  """Returns the addresses by job."""
  if not isinstance(cluster, dict):
    raise _malformed("its cluster is not an object", text)
  jobs = {}
  for job, addresses in cluster.items():
    if job not in _JOBS:
      raise _malformed(f"{job!r} is not one of {', '.join(_JOBS)}", text)
    is_list = isinstance(addresses, list) and addresses
    if not is_list or not all(isinstance(x, str) for x in addresses):
      raise _malformed(
        f"the addresses of {job!r} are not a list of strings", text
      )
    jobs[job] = tuple(addresses)
  return jobs


def _task(task: Any, jobs: Mapping[str, tuple[str, ...]], text: str) -> Task:
  """Returns this process's task."""
  if not isinstance(task, dict):
    raise _malformed("its task is not an object", text)
  job, index = str(task.get("type")), task.get("index", 0)
  if job == EVALUATOR:
    return Task(EVALUATOR, 0)
  if job not in jobs:
    raise _malformed(
      f"task type {job!r} is not one of the cluster's jobs {', '.join(jobs)}",
      text,
    )
  if type(index) is not int or not 0 <= index < len(jobs[job]):
    raise _malformed(
      f"task index {index!r} is not one of the {len(jobs[job])} of {job}", text
    )
  return Task(job, index)


def _malformed(why: str, text: str) -> ValueError:
  return ValueError(
    f"TF_CONFIG={_shown(text)}: {why}; write it like {_EXAMPLE}"
  )


def _shown(text: str) -> str:
  """Returns a text as one line shows it; of a very long one the beginning."""
  return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}...")
