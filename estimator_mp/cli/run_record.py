"""The files of a run in its model_dir: run.json, options.json, result.json."""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from estimator_mp import amounts, json_values
from estimator_mp.cli import checkpoints
from estimator_mp.config import files
from estimator_mp.session import whole_checkpoints

import tensorflow as tf

RESULT_FILE = "result.json"
_RESULT_FORMAT = 2
_RUN_FILE = "run.json"
_OPTIONS_FILE = "options.json"
_LOCK_FILE = "run.lock"
# What file systems say that have no locks; there two processes are not noticed.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class ModelDirError(RuntimeError):
  """The model_dir's contents stop this run; the text gives the fix."""


@dataclasses.dataclass(frozen=True)
class Result:
  """The facts of a finished run.

  Attributes:
    model: The model's name.
    dataset: The data set's name.
    mesh: The mesh of this run, such as "stage:3".
    seed: The seed of this run.
    global_step: The step that was evaluated.
    loss: The loss of the held-out data.
    figure: The metric that says how good the model is, such as "accuracy".
    value: Its value on the held-out data.
    baseline: Something plain that learned from the same data.
    baseline_value: The figure that it achieves.
    beats_baseline: Whether the model's is better.
    seconds: How long this run trained and evaluated.
    steps_per_second: Speed of the training steps, without the first two,
      checkpoints and evaluations; None if it was not measured.
    devices: Bytes of the variables on each device, by canonical device name,
      as observed in a real step; None if it was not observed.
    checkpoint: The checkpoint that was evaluated.
    saved_model: The exported SavedModel; None if nothing was exported.
  """

  model: str
  dataset: str
  mesh: str
  seed: int
  global_step: int
  loss: float
  figure: str
  value: float
  baseline: str
  baseline_value: float
  beats_baseline: bool
  seconds: float
  steps_per_second: float | None
  devices: dict[str, int] | None
  checkpoint: str
  saved_model: str | None

  def lines(self) -> list[str]:
    """Returns the same facts for people."""
    speed = self.steps_per_second
    devices = self.devices
    facts = [
      ("model", f"{self.model} on {self.dataset}"),
      ("mesh", f"{self.mesh}, seed {self.seed}"),
      ("global step", str(self.global_step)),
      (
        self.figure,
        f"{self.value:.4f} ({self.baseline}: {self.baseline_value:.4f})",
      ),
      ("loss", f"{self.loss:.4f}"),
      ("steps/s", "not measured" if speed is None else f"{speed:.1f}"),
      ("seconds", f"{self.seconds:.0f}"),
      ("variables", "not observed" if devices is None else _sizes(devices)),
      ("checkpoint", self.checkpoint),
    ]
    if self.saved_model is not None:
      facts.append(("SavedModel", self.saved_model))
    return [f"  {name:<12} {value}" for name, value in facts]


@contextlib.contextmanager
def claimed_model_dir(
  model_dir: str, identity: Mapping[str, str], folders: Sequence[str]
) -> Iterator[None]:
  """Makes a model_dir, and keeps other processes from training in it.

  Args:
    model_dir: Where checkpoints go; made if it does not exist.
    identity: Values that the run whose checkpoints are there must share,
      by the flags of the names.
    folders: The names of the folders that this run makes in it.

  Yields:
    None.

  Raises:
    ValueError: The directory cannot be written, or holds the checkpoints
      of another kind of run.
    ModelDirError: Another process trains there, or a file has the name of a
      folder, or a folder that of a file.
    CheckpointError: The checkpoints there cannot be resumed.
  """
  make_writable("model_dir", model_dir)
  with _locked(model_dir):
    for name in folders:
      folder = os.path.join(model_dir, name)
      if tf.io.gfile.exists(folder) and not tf.io.gfile.isdir(folder):
        raise ModelDirError(
          f"{folder} is a file, where this run makes a folder; move it away, or"
          " choose another --model_dir"
        )
    for name in (_RUN_FILE, _OPTIONS_FILE, RESULT_FILE):
      path = os.path.join(model_dir, name)
      if tf.io.gfile.isdir(path):
        raise ModelDirError(
          f"{path} is a folder, where this run writes a file; move it away, or"
          " choose another --model_dir"
        )
    path = os.path.join(model_dir, _RUN_FILE)
    found = _read_json(path)
    if found == identity:  # Else these are not checkpoints of such a run.
      whole_checkpoints.leave_out_broken(model_dir, print)
    if checkpoints.newest(model_dir) is not None:
      _check_same_run(model_dir, identity, found)
    if found != identity:
      files.write_json(path, identity)
    yield


@contextlib.contextmanager
def _locked(model_dir: str) -> Iterator[None]:
  """Holds a lock that ends with this process, whatever happens to it."""
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
    raise ValueError(
      f"{flag}={directory} cannot be written ({_reason(error)}); choose another"
      f" --{flag}"
    ) from error


def changed_options(model_dir: str, options: Mapping[str, Any]) -> list[str]:
  """Writes a run's options; returns how they differ from the run before.

  Args:
    model_dir: The directory of the run.
    options: Values by the names of their flags.

  Returns:
    Such as "--mesh: stage:3 -> stage:2"; none if no run was there before.
  """
  path = os.path.join(model_dir, _OPTIONS_FILE)
  now = {name: str(value) for name, value in options.items()}
  before = _read_json(path) or {}
  files.write_json(path, now)
  return [
    f"--{name}: {before[name]} -> {value}"
    for name, value in now.items()
    if before.get(name, value) != value
  ]


def write_result(model_dir: str, result: Result) -> str:
  """Writes a result to `result.json`, in one step; returns the file's path.

  Args:
    model_dir: The directory of the run.
    result: Its result.
  """
  path = os.path.join(model_dir, RESULT_FILE)
  files.write_json(
    path, {"format": _RESULT_FORMAT, **dataclasses.asdict(result)}
  )
  return path


def read_result(
  model_dir: str, say: Callable[[str], None] = print
) -> Result | None:
  """Returns the result that an earlier run wrote; None if there is none whole.

  Args:
    model_dir: The directory of the run.
    say: Shows a line that says what is wrong with one that is not whole.

  Raises:
    ModelDirError: If a newer library wrote it.
  """
  path = os.path.join(model_dir, RESULT_FILE)
  if not tf.io.gfile.exists(path):
    return None
  otherwise = "choose another --model_dir"
  try:
    facts = files.read_json(path, _RESULT_FORMAT, otherwise)
    result: Result = json_values.made(Result, facts)
    return result
  except files.FormatError as error:
    raise ModelDirError(f"{path}: {error}") from error
  except ValueError as error:
    say(
      f"{path} holds no result of a run ({error}); training to the end writes "
      "it anew"
    )
    return None


def _check_same_run(
  model_dir: str, facts: Mapping[str, str], found: dict[str, Any] | None
) -> None:
  path = os.path.join(model_dir, _RUN_FILE)
  if found is None and tf.io.gfile.exists(path):
    raise ModelDirError(
      f"{path} is damaged; write {json.dumps(facts)} into it if that is how its"
      " checkpoints were trained, or choose another --model_dir"
    )
  if found is None:
    raise ValueError(
      f"model_dir={model_dir} has checkpoints but no {_RUN_FILE}: another"
      " program made them; choose another --model_dir"
    )
  for name, value in facts.items():
    if found.get(name) != value:
      raise ValueError(
        f"model_dir={model_dir} has checkpoints of --{name}={found.get(name)},"
        f" which --{name}={value} cannot resume; use --{name}="
        f"{found.get(name)} or choose another --model_dir"
      )


def _read_json(path: str) -> dict[str, Any] | None:
  """Returns the object in a file; None if there is none."""
  if not tf.io.gfile.exists(path):
    return None
  with tf.io.gfile.GFile(path) as file:
    try:
      value = json_values.parse(file.read())
    except ValueError:  # It is no JSON, or no text.
      return None
  return value if isinstance(value, dict) else None


def _sizes(devices: dict[str, int]) -> str:
  return ", ".join(
    f"{device} {amounts.amount(size, 'B')}" for device, size in devices.items()
  )


def _reason(error: Exception) -> str:
  """Returns why a file operation failed, in a few words."""
  text = getattr(error, "message", None) or str(error)
  return " ".join(text.split()).rpartition("; ")[2]
