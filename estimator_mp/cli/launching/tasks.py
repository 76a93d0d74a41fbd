"""The tasks of a local cluster, and the TF_CONFIG of each; plain data."""

import json
from collections.abc import Sequence

from estimator_mp.cluster.tasks import (
  EVALUATOR,
  PARAMETER_SERVER,
  WORKER,
  Task,
)

_CHIEF = "chief"


def make_tasks(tasks: int, ps: int, evaluator: bool) -> tuple[Task, ...]:
  """Returns the tasks of a cluster.

  Args:
    tasks: The chief and the workers, at least 1.
    ps: The parameter servers.
    evaluator: Whether there is an evaluator.
  """
  workers = [Task(WORKER, index) for index in range(tasks - 1)]
  servers = [Task(PARAMETER_SERVER, index) for index in range(ps)]
  evaluators = [Task(EVALUATOR, 0)] if evaluator else []
  return (Task(_CHIEF, 0), *workers, *servers, *evaluators)


def decides(task: Task) -> bool:
  """Returns whether a cluster is done only when a task has ended well.

  Args:
    task: The task.
  """
  return task.job in (_CHIEF, EVALUATOR)


def tasks_that_train(tasks: Sequence[Task]) -> tuple[Task, ...]:
  """Returns the tasks that train or evaluate; the others only serve.

  Without parameter servers the chief's session drives the workers' devices.
  With them each worker trains, and the parameter servers serve.

  Args:
    tasks: All tasks of a cluster.
  """
  has_ps = any(task.job == PARAMETER_SERVER for task in tasks)
  return tuple(
    task for task in tasks if decides(task) or (has_ps and task.job == WORKER)
  )


def tf_config(
  task: Task, tasks: Sequence[Task], addresses: Sequence[str]
) -> str:
  """Returns the TF_CONFIG of a task.

  It names the evaluator, too, which listens at no address: so the others know
  that they need not evaluate.

  Args:
    task: The task.
    tasks: All tasks of the cluster.
    addresses: host:port of each task, in order.
  """
  cluster: dict[str, list[str]] = {}
  for other, address in zip(tasks, addresses, strict=True):
    cluster.setdefault(other.job, []).append(address)
  this = {"type": task.job, "index": task.index}
  return json.dumps({"cluster": cluster, "task": this})
