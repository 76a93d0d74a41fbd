"""Signals that arrive, as a file that can be waited for with others."""

import contextlib
import io
import os
import signal
from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def arriving(numbers: Sequence[int]) -> Iterator[io.FileIO]:
  """Yields a file that gets a byte, its number, for each signal that arrives.

  Enter it in the main thread. The earlier handlers are put back on every exit.
  The file ends then; its reader closes it.

  Args:
    numbers: The signals.
  """
  reading, writing = os.pipe()
  os.set_blocking(writing, False)
  # The wake-up descriptor is written only for signals with a handler.
  before = {
    number: signal.signal(number, lambda *_: None) for number in numbers
  }
  wakeup = signal.set_wakeup_fd(writing)
  try:
    yield io.FileIO(reading)
  finally:
    signal.set_wakeup_fd(wakeup)
    for number, handler in before.items():
      signal.signal(number, handler)
    os.close(writing)
