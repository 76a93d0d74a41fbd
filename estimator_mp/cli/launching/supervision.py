"""Supervision: the tasks run until the cluster has to end; then they end.

One thread waits for everything at once: for output, for signals, for tasks that
have ended and for the time at which one is started again.
"""

import contextlib
import dataclasses
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from estimator_mp.cli.launching import endings, task_process, tasks
from estimator_mp.cli.launching.launch_flags import LaunchOptions
from estimator_mp.cli.launching.task_output import Terminal
from estimator_mp.cluster import arrivals
from estimator_mp.cluster.tasks import Task

_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_CAUGHT = (*_ENDING, signal.SIGCHLD)
_MOST_READ = 256


@dataclasses.dataclass(eq=False)
class Supervision:
  """A cluster that runs.

  Attributes:
    processes: The processes of all tasks.
    options: The options of the launch command.
    terminal: The output of their lines; if it is closed, the cluster ends.
    say: Tells people something in a line.
  """

  processes: Mapping[Task, task_process.TaskProcess]
  options: LaunchOptions
  terminal: Terminal
  say: Callable[[str], None]

  def __post_init__(self) -> None:
    self._selector = selectors.DefaultSelector()
    self._files: dict[Task, int] = {}
    self._codes: dict[Task, int] = {}
    self._restarts: dict[Task, int] = {}
    self._restart_times: dict[Task, float] = {}

  def run(self) -> int:
    """Runs the cluster; returns the exit code.

    Raises:
      OSError: If a task cannot be started.
    """
    # If its parent ignores a signal, as nohup ignores SIGHUP, this process does
    # so, too; but for SIGINT, which shells without a terminal turn off for
    # programs in the background.
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = [x for x in _CAUGHT if x != signal.SIGHUP or not is_ignored]
    with (
      arrivals.arriving(numbers) as self._arrived,
      self._arrived,
      self._selector,
    ):
      self._selector.register(self._arrived, selectors.EVENT_READ)
      try:
        for task in self.processes:
          self._start(task)
        ending = self._until_an_ending()
        self._end(ending)
        return ending.exit_code
      finally:
        self._kill(self._tasks)

  @property
  def _tasks(self) -> tuple[Task, ...]:
    return tuple(self.processes)

  def _until_an_ending(self) -> endings.Ending:
    while True:
      numbers = self._wait(min(self._restart_times.values(), default=None))
      failed = [task for task, code in self._newly_ended() if code]
      if self._is_done(self._tasks):
        return endings.after_success(self._tasks)
      for task in failed:
        ending = self._restart_or_end(task)
        if ending:
          return ending
      if numbers:
        return endings.after_signal(self._tasks, numbers[0])
      if self.terminal.is_closed:
        return endings.after_signal(self._tasks, signal.SIGPIPE)
      self._restart_those_due()

  def _start(self, task: Task) -> None:
    process = self.processes[task]
    self._files[task] = process.start()
    self._selector.register(self._files[task], selectors.EVENT_READ, process)

  def _wait(self, until: float | None) -> list[int]:
    """Passes on output until something has happened, or it is time.

    Args:
      until: The time, of `time.monotonic`; None for none.

    Returns:
      The signals that have arrived.
    """
    seconds = None if until is None else max(0.0, until - time.monotonic())
    numbers: list[int] = []
    for key, _ in self._selector.select(seconds):
      if key.data is None:
        numbers += [x for x in self._arrived.read(_MOST_READ) if x in _ENDING]
      elif not key.data.read():
        self._selector.unregister(key.fileobj)
    return numbers

  def _newly_ended(self) -> list[tuple[Task, int]]:
    """Returns the tasks that have ended since the last call, with codes."""
    ended = []
    for task, process in self.processes.items():
      code = process.poll()
      if code is not None:
        with contextlib.suppress(KeyError):  # It has closed its output before.
          self._selector.unregister(self._files[task])
        process.read_rest()
        self._codes[task] = code
        ended.append((task, code))
    return ended

  def _is_done(self, among: Sequence[Task]) -> bool:
    """Whether those tasks that decide have ended well."""
    return all(self._codes.get(x) == 0 for x in among if tasks.decides(x))

  def _restart_or_end(self, task: Task) -> endings.Ending | None:
    """Returns the ending after a task has failed, if there is one."""
    code = self._codes[task]
    reason = f"{task} {task_process.describe_exit(code)}"
    if not tasks.decides(task) and self._is_done(self._tasks[:1]):
      self._tell(task, f"{reason}, after the chief had succeeded")
      return None
    number = self._restarts.get(task, 0) + 1
    if number > self.options.max_restarts:
      log = self.processes[task].output.log
      self.processes[task].output.note(reason)
      reason = f"{reason}; its log is {log}"
      return endings.after_failure(self._tasks, task, reason, code)
    self._restarts[task] = number
    delay = self.options.restart_delay
    self._restart_times[task] = time.monotonic() + delay
    self._tell(
      task,
      f"{reason}; starting it again in {delay:g} s "
      f"(restart {number} of {self.options.max_restarts})",
    )
    return None

  def _restart_those_due(self) -> None:
    for task, due in list(self._restart_times.items()):
      if due <= time.monotonic():
        del self._restart_times[task], self._codes[task]
        self._start(task)

  def _tell(self, task: Task, text: str) -> None:
    """Says something about a task, also in its log."""
    self.say(text)
    self.processes[task].output.note(text)

  def _end(self, ending: endings.Ending) -> None:
    """Ends all tasks in order; those that are left have no more time.

    A signal cuts it short.

    Args:
      ending: The phases, and their reason.
    """
    is_said = False
    for phase in ending.phases:
      running = self._names(self._running(self._tasks))
      if running and phase.signal is not None and not is_said:
        is_said = True
        self.say(f"{ending.reason}; ending {running} (Ctrl-C kills at once)")
      if not self._carry_out(phase):
        return
    if ending.exit_code and not is_said:
      self.say(ending.reason)

  def _carry_out(self, phase: endings.Phase) -> bool:
    """Lets some tasks end; returns False if a signal wants it at once."""
    for task in phase.tasks:
      if phase.signal is not None:
        self.processes[task].signal(phase.signal)
    seconds = min(self.options.grace, phase.seconds)
    deadline = time.monotonic() + seconds
    while self._running(phase.tasks) and time.monotonic() < deadline:
      if self._wait(deadline):
        return False
      self._newly_ended()
    late = self._running(phase.tasks)
    if late and phase.signal is not None:
      self.say(f"killing {self._names(late)}, not ended after {seconds:g} s")
      self._kill(late)
    return True

  def _kill(self, some: Sequence[Task]) -> None:
    for task in some:
      self.processes[task].kill()
    self._newly_ended()

  def _running(self, among: Sequence[Task]) -> list[Task]:
    return [task for task in among if self.processes[task].is_running]

  @staticmethod
  def _names(some: Sequence[Task]) -> str:
    return ", ".join(map(str, some))
