"""Checkpoints: the one that a run resumes from, and advice for damaged files.

TensorFlow starts anew, and then overwrites, where the file `checkpoint` does
not say what there is. What is damaged it reports from within the session, with
the traceback of the op that failed; a full disk has as many texts as there are
writers. All of it is told in one line here.
"""

import contextlib
import errno
import os
import re
import shlex
import threading
from collections.abc import Iterator, Sequence

from estimator_mp.session import whole_checkpoints

import tensorflow as tf

_STATE_FILE = "checkpoint"
_GLOBAL_STEP = "global_step"
_INDEX = re.compile(r"(?P<name>model\.ckpt-(?P<step>\d+))\.index")
_FULL = frozenset([errno.EDQUOT, errno.EFBIG, errno.ENOSPC])
_FULL_TEXTS = tuple(map(os.strerror, sorted(_FULL)))


class CheckpointError(RuntimeError):
  """A model_dir cannot be resumed; the one-line text says what to do."""


def newest(model_dir: str) -> str | None:
  """Returns the checkpoint that training resumes from, without reading it.

  Args:
    model_dir: The directory of the run.

  Returns:
    Its path without suffixes; None if there are no checkpoints.

  Raises:
    CheckpointError: If the file `checkpoint` cannot be read, or names one that
      is not there, or is missing beside checkpoints.
  """
  state_file = os.path.join(model_dir, _STATE_FILE)
  if not tf.io.gfile.exists(state_file):
    found = next(_by_age(model_dir), None)
    if found is None:
      return None
    raise _unusable(model_dir, f"{state_file} is missing beside {found}")
  state = whole_checkpoints.state_of(model_dir)
  if state is None:
    raise _unusable(
      model_dir, f"{state_file} is damaged: it names no checkpoint"
    )
  path = str(state.model_checkpoint_path)
  missing = whole_checkpoints.missing_file(path)
  if missing:
    raise _unusable(
      model_dir,
      f"{state_file} names {os.path.basename(path)}, but {missing} is missing",
    )
  return path


def trained_steps(model_dir: str) -> int:
  """Returns the global step of the newest checkpoint; 0 if there is none.

  Args:
    model_dir: The directory of the run.

  Raises:
    CheckpointError: If it cannot be read; see `newest`.
  """
  path = newest(model_dir)
  if path is None:
    return 0
  try:
    return int(tf.train.load_variable(path, _GLOBAL_STEP))
  except whole_checkpoints.UNREADABLE as error:
    check(model_dir)
    raise _unusable(
      model_dir, f"{path} has no {_GLOBAL_STEP}", but=path
    ) from error


def check(model_dir: str) -> None:
  """Reads all of the newest checkpoint; it has checksums.

  Args:
    model_dir: The directory of the run.

  Raises:
    CheckpointError: If it is damaged; the text names the newest one that is
      not.
  """
  path = newest(model_dir)
  damage = path and _damage(path)
  if damage:
    raise _unusable(model_dir, f"{path} is damaged ({damage})", but=path)


def _unusable(
  model_dir: str, problem: str, but: str | None = None
) -> CheckpointError:
  """Returns an error that says from which checkpoint a run could go on."""
  for name in _by_age(model_dir):
    path = os.path.join(model_dir, name)
    if path != but and _damage(path) is None:
      line = shlex.quote(f'model_checkpoint_path: "{name}"')
      file = shlex.quote(os.path.join(model_dir, _STATE_FILE))
      return CheckpointError(
        f"{problem}; {name} is intact, to resume from it: echo {line} > {file}"
      )
  return CheckpointError(
    f"{problem}, and no other checkpoint there is intact; choose another"
    " --model_dir"
  )


def _by_age(model_dir: str) -> Iterator[str]:
  """Yields the names of a directory's checkpoints, the last step first."""
  found = map(_INDEX.fullmatch, tf.io.gfile.listdir(model_dir))
  steps = {int(x["step"]): x["name"] for x in found if x is not None}
  for step in sorted(steps, reverse=True):
    yield steps[step]


def _damage(path: str) -> str | None:
  """Returns what is wrong with a checkpoint, as TensorFlow says it."""
  lack = whole_checkpoints.what_is_missing(path)
  if lack:
    return lack
  name = "its index"
  try:
    reader = tf.train.load_checkpoint(path)
    for name in reader.get_variable_to_shape_map():
      reader.get_tensor(name)
  except whole_checkpoints.UNREADABLE as error:
    text = " ".join((getattr(error, "message", None) or str(error)).split())
    return f"{name}: {text}"
  return None


def explain(error: Exception, directories: Sequence[str]) -> str | None:
  """Returns what went wrong with the files of a run, and what to do.

  Args:
    error: The error that ended the run.
    directories: The directories that it reads and writes; the first one is its
      model_dir.

  Returns:
    One line; None if files are not what failed.
  """
  model_dir = directories[0]
  if isinstance(error, whole_checkpoints.UNREADABLE):
    try:
      check(model_dir)
    except CheckpointError as damage:
      return str(damage)
    except (tf.errors.OpError, OSError):
      pass  # The directory is not there; the error itself will say so.
  line = _line_about_files(error, directories)
  if line is None:
    return None
  if any(text in line for text in _FULL_TEXTS):
    line += "; free some space, or choose another --model_dir"
  try:
    path = newest(model_dir)
  except (CheckpointError, tf.errors.OpError, OSError):
    path = None
  if path is None:
    return f"{line}; no checkpoint was saved"
  return f"{line}; {path} is saved, and the same command resumes from it"


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
