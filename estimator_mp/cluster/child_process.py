"""A module of this package in a process of its own, which ends with this one.

The module prints one line when it is ready, and ends when its standard input
does.
"""

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

_START_SECONDS = 300.0
_STOP_SECONDS = 5.0


class ChildProcess:
  """A process that runs a module."""

  def __init__(
    self, module: str, arguments: Sequence[str], environment: Mapping[str, str]
  ):
    """Starts the process, which finds the same modules as this one.

    Args:
      module: The module, by its whole name.
      arguments: Its arguments.
      environment: Variables that its environment has besides.
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    self._errors = tempfile.TemporaryFile()  # noqa: SIM115
    self._process = subprocess.Popen(
      [sys.executable, "-m", module, *arguments],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=self._errors,
      env={**os.environ, **environment, "PYTHONPATH": paths},
      start_new_session=True,  # Ctrl-C is for the process that waits.
    )

  @property
  def pid(self) -> int:
    """The number of the process."""
    return self._process.pid

  def first_line(self, name: str) -> str:
    """Waits until the process is ready; returns the line that it has printed.

    Args:
      name: Its name in messages.

    Raises:
      RuntimeError: If it ends before, or takes too long.
    """
    assert self._process.stdout is not None
    end = time.monotonic() + _START_SECONDS
    line = b""
    while not line.endswith(b"\n"):
      ready, _, _ = select.select(
        [self._process.stdout], [], [], max(0.0, end - time.monotonic())
      )
      if not ready:
        raise RuntimeError(f"{name} was not loaded in {_START_SECONDS:g} s")
      read = os.read(self._process.stdout.fileno(), 4096)
      if not read:
        self._process.wait()
        raise RuntimeError(f"{name} could not be loaded: {self._last_words()}")
      line += read
    return line.decode().strip()

  def exit_code(self) -> int | None:
    """Returns the code that the process has ended with; None if it has not."""
    try:  # The connection may be lost before the process is gone.
      return self._process.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
      return None

  def stop(self) -> None:
    """Ends the process."""
    assert self._process.stdin is not None
    assert self._process.stdout is not None
    self._process.stdin.close()
    for end in (self._process.terminate, self._process.kill):
      try:
        self._process.wait(_STOP_SECONDS)
        break
      except subprocess.TimeoutExpired:
        end()
    self._process.wait()
    self._process.stdout.close()
    self._errors.close()

  def _last_words(self) -> str:
    """Returns the last line that the process has written of errors."""
    self._errors.seek(0)
    lines = self._errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {self._process.returncode}"
