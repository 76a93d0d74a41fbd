"""The options of the launch command; each field is the flag of its name."""

import dataclasses
import importlib
import os
import shutil
import sys
from typing import Any

from estimator_mp.cli import commands
from estimator_mp.cli.launching import tasks as tasks_lib
from estimator_mp.cluster.tasks import Task
from estimator_mp.config import options as options_lib

from absl import flags

_tasks = options_lib.Group("Tasks")
_ends = options_lib.Group("Failures and ends")
_limits = options_lib.Group("Limits of each task")
_places = options_lib.Group("Network and logs")
OWN = "own"
HOST = "host"


@dataclasses.dataclass(frozen=True)
class LaunchOptions:
  """A cluster, and the program that it runs. Paths are absolute.

  Attributes:
    program: The program of each task, with its arguments.
    tasks: Number of tasks that train or serve: the chief and workers.
    ps: Number of parameter servers, in addition. With them, each worker trains;
      without them, the chief's session drives the devices of the workers.
    evaluator: Start an evaluator, too, which reads the chief's checkpoints.
    max_restarts: Number of restarts of each failed task. After that, the other
      tasks are ended, and this command returns the exit code of the failed
      task.
    restart_delay: Seconds before a restart.
    grace: Seconds that tasks may take to end: they get SIGINT (Ctrl-C) or
      SIGTERM, the chief first, so that it can save a checkpoint; then they are
      killed. A second Ctrl-C kills at once.
    mem_limit: Memory limit of each process of the task (RLIMIT_DATA): its heap,
      other private writable memory, and the stacks of its threads, used or only
      reserved. Further allocations fail. TensorFlow alone takes 0.43 GB on 2
      cores. Thread stacks then have 512 KiB, and malloc returns freed memory at
      once, unless MALLOC_MMAP_THRESHOLD_ and the like are set: steps take up to
      1.6 times as long.
    network: TensorFlow's servers listen on all interfaces, without
      authentication. In a network of their own (a Linux network namespace) they
      have loopback only: they cannot be reached from outside, and cannot reach
      gs:// or HDFS. On the host's network, anyone who can reach this machine
      can run code in them.
    log_dir: Directory for the logs, a file for each task. Default: a new
      temporary directory.
  """

  program: tuple[str, ...] = ()
  tasks: int = _tasks(2, 1)
  ps: int = _tasks(0)
  evaluator: bool = _tasks(False)
  max_restarts: int = _ends(0)
  restart_delay: float = _ends(1.0)
  grace: float = _ends(30.0)
  mem_limit: options_lib.Bytes | None = _limits(None, 1)
  network: str = _places(OWN, choices=(OWN, HOST))
  log_dir: str | None = _places(None, is_path=True)

  def __post_init__(self) -> None:
    options_lib.check(self)

  @property
  def all_tasks(self) -> tuple[Task, ...]:
    """The tasks of the cluster."""
    return tasks_lib.make_tasks(self.tasks, self.ps, self.evaluator)


class _LaunchCommand(commands.Command[LaunchOptions]):
  """A command that is given a program after its flags."""

  def options_of_flags(
    self, flag_values: flags.FlagValues, **given: Any
  ) -> LaunchOptions:
    """Returns the options that parsed flags mean; see `Command`."""
    given["program"] = _runnable(given["program"])
    return super().options_of_flags(flag_values, **given)

  def run(self, options: LaunchOptions, verbosity: int | None) -> int:
    """Runs the cluster; the log is that of its tasks."""
    return int(importlib.import_module(self.module).run_command(options))


COMMAND = _LaunchCommand(
  "launch",
  "Starts a local cluster: a process for each task, with its TF_CONFIG. PROGRAM"
  " is any\ncommand, or file.py ARGS... or -m module ARGS... for this Python.",
  LaunchOptions,
  (_tasks, _ends, _limits, _places),
  "estimator_mp.cli.launching.run_launch",
  arguments="PROGRAM ARGS...",
)


def _runnable(words: tuple[str, ...]) -> tuple[str, ...]:
  """Returns a program and its arguments as a process can run them.

  Raises:
    FlagsError: If there is no such program.
  """
  if words in ((), ("-m",)):
    raise commands.FlagsError(
      "there is no program to run; write it after --, such as launch --tasks=3"
      " -- train.py --steps=100"
    )
  if words[0] == "-m":
    return (sys.executable, *words)
  if words[0].endswith(".py"):
    commands.check_script(words[0])
    return (sys.executable, *words)
  path = words[0]
  if os.sep in path:
    path = options_lib.absolute_path(path)
  if shutil.which(path) is None:
    raise commands.FlagsError(
      f"there is no program {words[0]} that can be run; give a command, a path "
      "to an executable file, file.py or -m module"
    )
  return (path, *words[1:])
