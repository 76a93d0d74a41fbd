"""The watch over tasks: who of them has stopped to answer.

A session says of a task that has died that it has died, and of one that is
stopped, or cut off, nothing: the step waits, and so does `Session.close`. So a
thread asks each task all the time. The log lines about a silent task, and its
return, are in `silence`:

    stopped, and goes on       the step goes on, too; nothing is lost
    dies, is started anew      the step fails; see `recovery`
    cut off, comes back as     the step would wait for the dead process, if
    another process            nobody tells it: its connections are shut down
    does not come back         it is lost, and the run ends with an error; if a
                               call of TensorFlow waits for it, which nothing
                               ends, so does the process
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.cluster.run_log import LOG
from estimator_mp.distributed import connections, silence, status

_PAUSE_SECONDS = 0.5
# A step that hears of the death of a task ends at once; this is for those that
# do not hear of it.
_GRACE_SECONDS = 5.0


class Watch:
  """Asks some tasks, each in a thread, from `with` on.

  Attributes:
    addresses: Where each task listens, host:port.
  """

  def __init__(
    self,
    addresses: Mapping[tasks_lib.Task, str],
    heartbeat_timeout: float,
    lost_after: float,
    shows_life: Callable[[], bool] = lambda: False,
  ):
    """Does not ask yet.

    Args:
      addresses: Where each task listens, host:port.
      heartbeat_timeout: After how many seconds a silent task is named.
      lost_after: After how many seconds it is lost.
      shows_life: Whether a task that does not answer is known to be well all
        the same.
    """
    self.addresses = MappingProxyType(dict(addresses))
    self._timeouts = heartbeat_timeout, lost_after
    self._shows_life = shows_life
    self._verdict: str | None = None
    self._is_over = threading.Event()
    self._lock = threading.Lock()
    # Of the run that goes on: its number, and which processes it began with.
    self._run = 0
    self._starts: dict[tasks_lib.Task, bytes] = {}

  def __enter__(self) -> "Watch":
    for task in self.addresses:
      threading.Thread(target=self._ask, args=(task,), daemon=True).start()
    return self

  def __exit__(self, *exception: object) -> None:
    self._is_over.set()

  def begin(self, starts: Mapping[tasks_lib.Task, bytes]) -> None:
    """Notes that a run begins.

    Args:
      starts: `Status.start` of each task.
    """
    with self._lock:
      self._run += 1
      self._starts = dict(starts)

  def end(self) -> None:
    """Notes that the run has ended: no connection is shut down any more."""
    self.begin({})

  def lost(self) -> tuple[tasks_lib.Task, ...]:
    """Returns the tasks that are other processes now, or do not answer."""
    with self._lock:
      starts = self._starts
    now = ask_all(self.addresses)
    return tuple(
      task for task in self.addresses if starts.get(task) != now.get(task)
    )

  def check_none_is_lost(self) -> None:
    """Raises if a task was silent for too long.

    Raises:
      LostTaskError: If so.
    """
    if self._verdict is not None:
      raise status.LostTaskError(self._verdict)

  def _ask(self, task: tasks_lib.Task) -> None:
    """Asks one task until the watch is over, or the task is lost."""
    address = self.addresses[task]
    name, now = f"{task} at {address}", time.monotonic()
    silent = silence.Silence(name, *self._timeouts, now)
    with status.Probe(address) as probe:
      while not silent.is_lost and not self._is_over.wait(_PAUSE_SECONDS):
        answer = probe.ask()
        text = None
        if answer is not None:
          text = silent.hear(time.monotonic())
          self._end_step_of_dead(task, answer.start)
        elif self._shows_life():
          silent.forgive(time.monotonic())
        else:
          text = silent.miss(time.monotonic(), probe.is_refused)
        if text is not None:
          LOG.warning("%s", text)
    if silent.is_lost:
      self._verdict = text
      if not self._is_over.wait(_GRACE_SECONDS):
        _end_process()

  def _end_step_of_dead(self, task: tasks_lib.Task, start: bytes) -> None:
    """Ends a step that waits for the process that a task was before."""
    with self._lock:
      run, known = self._run, self._starts.get(task, start)
    if start == known or self._is_over.wait(_GRACE_SECONDS):
      return
    with self._lock:
      is_waiting = run == self._run
    if is_waiting:
      connections.shut_down(self.addresses[task])


def _end_process() -> None:
  """Ends this process, whatever its other threads wait for."""
  with contextlib.suppress(OSError, ValueError):
    sys.stdout.flush()
  os._exit(tasks_lib.LOST_A_TASK)


def ask_all(
  addresses: Mapping[tasks_lib.Task, str],
) -> dict[tasks_lib.Task, bytes]:
  """Returns `Status.start` of those tasks that answer.

  Args:
    addresses: Where each task listens, host:port.

  Raises:
    TaskError: If another task answers at an address.
  """
  starts = {}
  for task, address in addresses.items():
    with status.Probe(address) as probe:
      answer = probe.ask()
    if answer is not None:
      status.check_is(task, address, answer)
      starts[task] = answer.start
  return starts
