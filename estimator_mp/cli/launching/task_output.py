"""The output of a task: all of it in its log, its lines on the terminal."""

import os
import select

_LONGEST_LINE = 1 << 14


class Terminal:
  """Where the lines of all tasks go, a line at a time.

  Attributes:
    is_closed: Whether its reader has closed it.
  """

  def __init__(self, file: int):
    """Knows where to write.

    Args:
      file: The number of an open file, such as 1 for standard output.
    """
    self.is_closed = False
    self._file = file

  def write(self, line: bytes) -> None:
    """Writes a line, unless the output is closed.

    Args:
      line: The line, with its end.
    """
    while line and not self.is_closed:
      try:
        line = line[os.write(self._file, line) :]
      except BlockingIOError:
        select.select([], [self._file], [])
      except BrokenPipeError:
        self.is_closed = True


class TaskOutput:
  """The output of a task; a context manager that closes its log."""

  def __init__(self, name: str, log: str, terminal: Terminal):
    """Makes the log anew.

    Args:
      name: The name of the task for people.
      log: The path of its log.
      terminal: Where its lines go.
    """
    self.log = log
    self._prefix = f"[{name}] ".encode()
    self._file = open(log, "wb", buffering=0)  # noqa: SIM115
    self._terminal = terminal
    self._partial_line = b""

  def __enter__(self) -> "TaskOutput":
    return self

  def __exit__(self, *exception: object) -> None:
    self._file.close()

  def write(self, data: bytes) -> None:
    """Writes output of the task to the log, and its lines to the terminal.

    A carriage return, as progress bars write it, ends a line, too: else a line
    would hide its prefix, and those of other tasks.

    Args:
      data: Some bytes, whole lines or not.
    """
    self._file.write(data)
    lines = (self._partial_line + data).splitlines(keepends=True)
    self._partial_line = b""
    # A carriage return may have its line feed still to come.
    is_begun = lines and not lines[-1].endswith(b"\n")
    if is_begun and len(lines[-1]) < _LONGEST_LINE:
      self._partial_line = lines.pop()
    for line in lines:
      self._show(line)

  def end(self) -> None:
    """Shows a line that has no end."""
    if self._partial_line:
      self._show(self._partial_line)
      self._partial_line = b""

  def note(self, text: str) -> None:
    """Writes a line of the launcher's into the log.

    Args:
      text: The line.
    """
    self._file.write(f"{text}\n".encode())

  def _show(self, line: bytes) -> None:
    text = line.rstrip(b"\r\n")
    if text or line.endswith(b"\n"):
      self._terminal.write(self._prefix + text + b"\n")
