"""Signals that arrive, as a file that can be waited for with others."""

import os
import signal
import types
from typing import Any

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_MOST_READ = 256


class Arrivals:
  """Catches the signals of `ENDING`, and those of children, while entered.

  Enter it in the main thread. What was there before is put back on every exit.
  A signal that whoever started this process has made it ignore, as nohup does
  with SIGHUP, is ignored; but for SIGINT, which shells without a terminal turn
  off for what runs in the background.
  """

  def __init__(self) -> None:
    """Catches nothing yet."""
    self._old_handlers: dict[int, Any] = {}
    self._old_wakeup = -1
    self._pipe = (-1, -1)

  def __enter__(self) -> "Arrivals":
    self._pipe = os.pipe()
    for end in self._pipe:
      os.set_blocking(end, False)
    for number in (*ENDING, signal.SIGCHLD):
      is_ignored = signal.getsignal(number) == signal.SIG_IGN
      if number != signal.SIGHUP or not is_ignored:
        self._old_handlers[number] = signal.signal(number, _do_nothing)
    self._old_wakeup = signal.set_wakeup_fd(self._pipe[1])
    return self

  def __exit__(self, *exception: object) -> None:
    signal.set_wakeup_fd(self._old_wakeup)
    for number, handler in self._old_handlers.items():
      signal.signal(number, handler)
    for end in self._pipe:
      os.close(end)

  def fileno(self) -> int:
    """Returns the file that can be read when a signal has arrived."""
    return self._pipe[0]

  def read(self) -> list[int]:
    """Returns the signals of `ENDING` that have arrived since the last call."""
    try:
      numbers = os.read(self._pipe[0], _MOST_READ)
    except BlockingIOError:
      return []
    return [number for number in numbers if number in ENDING]


def _do_nothing(number: int, frame: types.FrameType | None) -> None:
  """Stands in for a handler: the wake-up descriptor gets the signal."""
  del number, frame
