"""Failures of commands: one line for an error of a run, else a traceback.

Two kinds of errors are told in a line. Those that this project raises on
purpose have their fix; see `deliberate_errors`. And TensorFlow's classes say
how the run failed: an op failed, a file cannot be read, a loss is no number.
All others are of a program, the user's or this project's: whoever mends it
needs the traceback.
"""

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence

from estimator_mp.cli import deliberate_errors

import tensorflow as tf

_TENSORFLOW = frozenset(["tensorflow", "tensorflow_estimator"])
# Of several errors of one step, the first.
_ROOT = re.compile(r"\s*\(0\) [A-Z_]+: (?P<text>.*)")
# The beginnings of lines that TensorFlow writes around that.
_AROUND = (" ", "\t", "Graph execution error", "Detected at", "Node: ")
_RESTORING = "Restoring from checkpoint failed"
_FUNCTION = re.compile(r"\{\{function_node .*?\}\} ?")
_PYTHON = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+), in ')
_TRACEBACK = "Traceback (most recent call last):"
_READS_INPUT = "IteratorGetNext"
_FULL = frozenset([errno.EDQUOT, errno.EFBIG, errno.ENOSPC])
_FULL_TEXTS = tuple(map(os.strerror, sorted(_FULL)))


def error_line(error: Exception) -> str | None:
  """Returns an error in one line; None if it needs a traceback.

  Args:
    error: The error that ended a command, as it was caught.
  """
  if deliberate_errors.is_deliberate(error):
    return str(error)
  if deliberate_errors.package(type(error).__module__) not in _TENSORFLOW:
    return None
  message = str(getattr(error, "message", error))
  _, _, python = message.partition(_TRACEBACK)
  frames = [(x["file"], int(x["line"])) for x in _PYTHON.finditer(python)]
  text = f"{_root(message)}{users_line(frames)}"
  if _READS_INPUT in message:
    return f"reading the input failed: {text}; fix input_fn, or the data"
  return f"a step failed: {text}; --debug shows where"


def file_error_line(error: Exception, directories: Sequence[str]) -> str | None:
  """Returns a line with the file of a run that failed, and the reason.

  A full disk has as many texts as there are writers.

  Args:
    error: The error that ended the run.
    directories: The directories that it reads and writes.

  Returns:
    Such as "runs/a/eval: Not a directory; mend that, or choose another
    directory"; None if no file failed.
  """
  line = None
  if isinstance(error, OSError):
    if error.filename is not None or error.errno in _FULL:
      line = f"{error.filename or directories[0]}: {error.strerror}"
  else:
    is_of_op = isinstance(error, tf.errors.OpError)
    line = next(
      (
        " ".join(text[text.index(directory) :].split())
        for text in str(error).splitlines()
        # Others, such as the writer of summaries, raise errors of any class.
        if is_of_op or any(full in text for full in _FULL_TEXTS)
        for directory in directories
        if directory in text
      ),
      None,
    )
  if line is None:
    return None
  is_full = any(text in line for text in _FULL_TEXTS)
  fix = "free some space" if is_full else "mend that"
  return f"{line}; {fix}, or choose another directory"


@contextlib.contextmanager
def quiet_threads(directories: Sequence[str]) -> Iterator[None]:
  """Keeps threads from printing the traceback of an error about files.

  The thread that writes summaries prints it, and raises it in the main thread
  as well.

  Args:
    directories: As for `file_error_line`.

  Yields:
    None.
  """

  def hook(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    if not (
      isinstance(error, Exception) and file_error_line(error, directories)
    ):
      before(arguments)

  before, threading.excepthook = threading.excepthook, hook
  try:
    yield
  finally:
    threading.excepthook = before


def users_line(frames: Iterable[tuple[str, int]]) -> str:
  """Returns the user's line among those of a traceback, in brackets.

  Args:
    frames: The file and the line of each frame, the innermost last.

  Returns:
    Such as " (my_model.py, line 7)"; nothing if no line is the user's.
  """
  libraries = (os.path.dirname(tf.__file__), os.path.dirname(__file__))
  of_user = [
    f" ({file}, line {line})"
    for file, line in frames
    if not file.startswith((*libraries, "<frozen"))
    and f"{os.sep}site-packages{os.sep}" not in file
    and f"{os.sep}importlib{os.sep}" not in file
  ]
  return of_user[-1] if of_user else ""


def _root(message: str) -> str:
  """Returns the line of TensorFlow's text that names the failure."""
  lines = message.splitlines()
  roots = [x["text"] for x in map(_ROOT.match, lines) if x]
  roots += [
    x for x in lines if x and not x.startswith((*_AROUND, _RESTORING, "["))
  ]
  text = _FUNCTION.sub("", (roots or lines or [""])[0])
  return text.partition("\t [[")[0].strip()
