"""A guardian: a process that ends the tasks of a launcher that is killed.

Linux kills a task when its launcher dies, but not the children of the task.
So another process knows the process groups of all tasks. It reads from a pipe
that the launcher holds the other end of, and kills them when that is closed.
"""

import contextlib
import os
import signal
from typing import NoReturn

_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Guardian:
  """The guardian, as the launcher sees it; a context manager."""

  def __init__(self) -> None:
    """Starts it. This process must have no other thread."""
    reading, self._writing = os.pipe()
    self._pid = os.fork()
    if not self._pid:
      _guard(reading)
    os.close(reading)

  def __enter__(self) -> "Guardian":
    return self

  def __exit__(self, *exception: object) -> None:
    os.close(self._writing)
    os.waitpid(self._pid, 0)

  def watch(self, group: int) -> None:
    """Makes it know a process group.

    Args:
      group: The number of the group.
    """
    self._tell(group)

  def forget(self, group: int) -> None:
    """Makes it forget a process group, before the number can be another's.

    Args:
      group: The number of the group.
    """
    self._tell(-group)

  def _tell(self, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # Somebody has killed it.
      os.write(self._writing, f"{number}\n".encode())


def _guard(reading: int) -> NoReturn:
  """Runs the guardian's process."""
  try:
    os.setsid()
    for ignored in _IGNORED:
      signal.signal(ignored, signal.SIG_IGN)
    # A reader of the launcher's output must see its end.
    for name in os.listdir("/proc/self/fd"):
      with contextlib.suppress(OSError):
        if int(name) != reading:
          os.close(int(name))
    groups: set[int] = set()
    with open(reading, encoding="ascii") as numbers:
      for line in numbers:
        number = int(line)
        if number > 0:
          groups.add(number)
        else:
          groups.discard(-number)
    for group in groups:
      with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
  finally:
    os._exit(0)
