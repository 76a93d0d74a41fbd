"""The model_dir of a run: writable, its own while it trains, and of its kind.

run.json holds the options of the last run there, run.lock the process of now.
"""

import contextlib
import errno
import fcntl
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from estimator_mp import json_values
from estimator_mp.config import files
from estimator_mp.session import whole_checkpoints

import tensorflow as tf

_RUN_FILE = "run.json"
_LOCK_FILE = "run.lock"
_STATE_FILE = "checkpoint"
# Errors of file systems without locks; there two processes are not noticed.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class ModelDirError(RuntimeError):
  """The model_dir's contents stop this run; the text gives the fix."""


def make_writable(flag: str, directory: str) -> None:
  """Makes a directory if need be, and writes a file to try it.

  Args:
    flag: The flag that names the directory, for the error.
    directory: The directory.

  Raises:
    ValueError: The directory cannot be made or written.
  """
  trial = os.path.join(directory, f".trial.{os.getpid()}.tmp")
  try:
    tf.io.gfile.makedirs(directory)
    with tf.io.gfile.GFile(trial, "w") as file:
      file.write("")
    tf.io.gfile.remove(trial)
  except (tf.errors.OpError, OSError) as error:
    text = " ".join((getattr(error, "message", None) or str(error)).split())
    raise ValueError(
      f"{flag}={directory} cannot be written ({text.rpartition('; ')[2]}); "
      f"choose another --{flag}"
    ) from error


@contextlib.contextmanager
def claimed(
  model_dir: str, options: Mapping[str, Any], identity: Sequence[str]
) -> Iterator[list[str]]:
  """Makes a model_dir, and keeps other processes from training in it.

  Args:
    model_dir: Where checkpoints go; made if it does not exist.
    options: The options of the run, by flag.
    identity: The names of those that the checkpoints there must share.

  Yields:
    The options that differ from the run before, such as "--mesh: stage:3 ->
    stage:2".

  Raises:
    ValueError: The directory cannot be written, or holds the checkpoints of
      another kind of run.
    ModelDirError: Another process trains there, or no file names the newest of
      its checkpoints.
  """
  make_writable("model_dir", model_dir)
  now = {name: str(value) for name, value in options.items()}
  path = os.path.join(model_dir, _RUN_FILE)
  with _locked(model_dir):
    before = _read(path)
    if tf.io.gfile.glob(os.path.join(model_dir, "model.ckpt-*.index")):
      _check_same_run(model_dir, now, before, identity)
      whole_checkpoints.leave_out_broken(model_dir)
      _check_state_file(model_dir)
    files.write_json(path, now)
    yield [
      f"--{name}: {before[name]} -> {value}"
      for name, value in now.items()
      if before.get(name, value) != value
    ]


@contextlib.contextmanager
def _locked(model_dir: str) -> Iterator[None]:
  """Holds a lock that ends with this process, also if it is killed."""
  if "://" in model_dir:  # Only files of this machine can be locked.
    yield
    return
  path = os.path.join(model_dir, _LOCK_FILE)
  with open(path, "a+", encoding="utf-8") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      file.seek(0)
      holder = " ".join(file.read().split()) or "another process"
      raise ModelDirError(
        f"model_dir={model_dir} is in use by {holder}; wait until it has ended,"
        " or choose another --model_dir"
      ) from error
    except OSError as error:
      if error.errno not in _NO_LOCKS:
        raise
    # The file stays: removing it could remove the lock of another process.
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    yield


def _read(path: str) -> dict[str, Any]:
  """Returns the object in a file of JSON; an empty one if there is none."""
  try:
    with tf.io.gfile.GFile(path) as file:
      value = json_values.parse(file.read())
  except (tf.errors.NotFoundError, ValueError):
    return {}
  return value if isinstance(value, dict) else {}


def _check_same_run(
  model_dir: str,
  now: Mapping[str, str],
  before: Mapping[str, Any],
  identity: Sequence[str],
) -> None:
  for name in identity:
    if name not in before:
      raise ModelDirError(
        f"model_dir={model_dir} has checkpoints, but no whole {_RUN_FILE}: "
        "another program made them, or it is damaged; choose another "
        "--model_dir"
      )
    if before[name] != now[name]:
      raise ValueError(
        f"model_dir={model_dir} has checkpoints of --{name}={before[name]},"
        f" which --{name}={now[name]} cannot resume; use --{name}="
        f"{before[name]} or choose another --model_dir"
      )


def _check_state_file(model_dir: str) -> None:
  """Raises if TensorFlow would begin anew, and overwrite checkpoints."""
  path = os.path.join(model_dir, _STATE_FILE)
  if tf.io.gfile.exists(path):
    return
  steps = re.findall(
    r"model\.ckpt-(\d+)\.index", " ".join(tf.io.gfile.listdir(model_dir))
  )
  raise ModelDirError(
    f"{path} is missing beside model.ckpt-{max(steps, key=int)}; write "
    f'model_checkpoint_path: "model.ckpt-{max(steps, key=int)}" into it to '
    "resume from there, or choose another --model_dir"
  )
