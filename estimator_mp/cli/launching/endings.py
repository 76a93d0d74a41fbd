"""Ends of a cluster: cause, exit code, and the order of signals to tasks.

An ending is plain data; `supervision` carries it out.
"""

import dataclasses
import math
import signal
from collections.abc import Sequence

from estimator_mp.cli.launching import tasks as tasks_lib
from estimator_mp.cluster.tasks import Task

# Seconds in which servers hear from the chief that it has ended.
_SECONDS_TO_HEAR = 2.0


@dataclasses.dataclass(frozen=True)
class Phase:
  """Some tasks that are to end next, all at the same time.

  Attributes:
    tasks: The tasks.
    signal: The signal that they get; None if they are ending by themselves.
    seconds: The most time that they have, if that is less than the grace.
  """

  tasks: tuple[Task, ...]
  signal: signal.Signals | None
  seconds: float = math.inf


@dataclasses.dataclass(frozen=True)
class Ending:
  """Why a cluster ends, and how.

  Attributes:
    reason: Why, in words for people.
    exit_code: The launcher's exit code.
    phases: The steps, one after the other; each has a time of grace.
  """

  reason: str
  exit_code: int
  phases: tuple[Phase, ...]


def after_success(tasks: Sequence[Task]) -> Ending:
  """Returns the ending after the chief, and the evaluator, have ended well.

  Workers that train are about to end by themselves, or wait for a chief that
  is no more. The others serve for ever, unless the chief has told them.

  Args:
    tasks: All tasks of the cluster.
  """
  training = tasks_lib.tasks_that_train(tasks)
  everybody = tuple(tasks)
  phases = (
    Phase(training, None),
    Phase(everybody, None, _SECONDS_TO_HEAR),
    Phase(everybody, signal.SIGTERM),
  )
  return Ending("the chief has succeeded", 0, phases)


def after_failure(
  tasks: Sequence[Task], failed: Task, reason: str, exit_code: int
) -> Ending:
  """Returns the ending after a task has failed.

  If it has served, nothing can be saved any more, and all are told at once.

  Args:
    tasks: All tasks of the cluster.
    failed: The task.
    reason: The failure, in words for people.
    exit_code: The exit code of the task.
  """
  phases: tuple[Phase, ...] = _in_order(tasks, signal.SIGTERM)
  if failed not in tasks_lib.tasks_that_train(tasks):
    phases = phases[1:]
  return Ending(reason, exit_code, phases)


def after_signal(tasks: Sequence[Task], number: int) -> Ending:
  """Returns the ending after a signal such as Ctrl-C's.

  Args:
    tasks: All tasks of the cluster.
    number: The signal.
  """
  told = signal.Signals(number)
  return Ending(told.name, 128 + number, _in_order(tasks, told))


def _in_order(
  tasks: Sequence[Task], told: signal.Signals
) -> tuple[Phase, Phase]:
  """Returns phases that signal training tasks first, while the others serve.

  A chief may want to save a checkpoint of variables that they hold.
  """
  training = tasks_lib.tasks_that_train(tasks)
  return Phase(training, told), Phase(tuple(tasks), signal.SIGTERM)
