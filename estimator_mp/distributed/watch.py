"""The watch over tasks: who of them has stopped to answer.

A session says of a task that has died that it has died, and of one that is
stopped, or cut off, nothing: the step waits. So a thread asks each task all the
time. A task that is silent for `heartbeat_timeout` seconds is named in the log,
and so is its return:

    stopped, and goes on       the step goes on, too; nothing is lost
    dies, is started anew      the step fails; see `recovery`
    cut off, comes back as     the step would wait for the dead process, if
    another process            nobody tells it: its connections are shut down
"""

import logging
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import connections, status

_PAUSE_SECONDS = 0.5
# A step that hears of the death of a task ends at once; this is for those that
# do not hear of it.
_GRACE_SECONDS = 5.0
_log = logging.getLogger("tensorflow")


class Watch:
  """Asks some tasks, each in a thread, from `with` on.

  Attributes:
    addresses: Where each task listens, host:port.
  """

  def __init__(
    self, addresses: Mapping[tasks_lib.Task, str], heartbeat_timeout: float
  ):
    """Asks nobody yet.

    Args:
      addresses: Where each task listens, host:port.
      heartbeat_timeout: After how many seconds a silent task is named.
    """
    self.addresses = MappingProxyType(dict(addresses))
    self._timeout = heartbeat_timeout
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
    found = ask_all(self.addresses)
    return tuple(
      task for task in self.addresses if starts.get(task) != found.get(task)
    )

  def _ask(self, task: tasks_lib.Task) -> None:
    """Asks one task until the watch is over."""
    address, seen, is_named = self.addresses[task], time.monotonic(), False
    with status.Probe(address) as probe:
      while not self._is_over.wait(_PAUSE_SECONDS):
        found = probe.ask()
        silent = time.monotonic() - seen
        if found is None:
          if silent > self._timeout and not is_named:
            is_named = True
            _log.warning(
              "%s at %s has not answered for %.0f s; the run waits for it",
              task,
              address,
              silent,
            )
          continue
        if is_named:
          _log.warning(
            "%s at %s answers again, after %.0f s", task, address, silent
          )
        seen, is_named = time.monotonic(), False
        self._end_step_of_dead(task, found.start)

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
      found = probe.ask()
    if found is not None:
      status.check_is(task, address, found)
      starts[task] = found.start
  return starts
