"""Failures: what the train command says when files fail it, in one line.

TensorFlow's own text has the traceback of the op that failed in it, and a full
disk has as many texts as there are writers.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Iterator, Sequence

from estimator_mp.cli import checkpoints

import tensorflow as tf

_FULL = frozenset([errno.EDQUOT, errno.EFBIG, errno.ENOSPC])
_FULL_TEXTS = tuple(map(os.strerror, sorted(_FULL)))


def explain(error: Exception, directories: Sequence[str]) -> str | None:
  """Returns what went wrong with the files of a run, and what to do.

  Args:
    error: What ended the run.
    directories: The directories that it reads and writes; the first one is its
      model_dir.

  Returns:
    One line; None if files are not what failed.
  """
  model_dir = directories[0]
  if isinstance(error, checkpoints.UNREADABLE):
    try:
      checkpoints.check(model_dir)
    except checkpoints.CheckpointError as damage:
      return str(damage)
    except (tf.errors.OpError, OSError):
      pass  # The directory is not there; the error itself will say so.
  line = _line_about_files(error, directories)
  if line is None:
    return None
  if _is_full(error, line):
    line += "; free some space, or choose another --model_dir"
  return f"{line}; {_saved(model_dir)}"


@contextlib.contextmanager
def quiet_threads(directories: Sequence[str]) -> Iterator[None]:
  """Keeps threads from printing a traceback of what `explain` explains.

  The thread that writes summaries prints it, and raises it in the main thread
  as well.

  Args:
    directories: As for `explain`.

  Yields:
    None.
  """

  def hook(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    if not isinstance(error, Exception) or explain(error, directories) is None:
      before(arguments)

  before, threading.excepthook = threading.excepthook, hook
  try:
    yield
  finally:
    threading.excepthook = before


def _line_about_files(
  error: Exception, directories: Sequence[str]
) -> str | None:
  """Returns the line of an error that says which file, and why."""
  if isinstance(error, OSError):
    if error.filename is None and error.errno not in _FULL:
      return None
    where = error.filename or directories[0]
    return f"{where}: {error.strerror}"
  is_of_op = isinstance(error, tf.errors.OpError)
  for line in str(error).splitlines():
    # Others, such as the writer of summaries, raise whatever there is.
    if is_of_op or any(text in line for text in _FULL_TEXTS):
      for directory in directories:
        if directory in line:
          return " ".join(line[line.index(directory) :].split())
  return None


def _is_full(error: Exception, line: str) -> bool:
  if isinstance(error, OSError):
    return error.errno in _FULL
  return any(text in line for text in _FULL_TEXTS)


def _saved(model_dir: str) -> str:
  """Returns what is left of a run that failed."""
  try:
    path = checkpoints.newest(model_dir)
  except (checkpoints.CheckpointError, tf.errors.OpError, OSError):
    path = None
  if path is None:
    return "no checkpoint was saved"
  return f"{path} is saved, and the same command resumes from it"
