"""What a run leaves in its model_dir: run.json at the start, result.json."""

import dataclasses
import json
import os

import tensorflow as tf

RESULT_FILE = "result.json"
_RUN_FILE = "run.json"
_MEGABYTE = 1e6


class RunRecordError(ValueError):
  """The model_dir cannot be used for this run; the text says what to do."""


@dataclasses.dataclass(frozen=True)
class RunIdentity:
  """What cannot change when a run is resumed: the checkpoint depends on it."""

  model: str
  dataset: str
  optimizer: str


@dataclasses.dataclass(frozen=True)
class Result:
  """The facts of a finished run.

  Attributes:
    model: The model's name.
    dataset: The data set's name.
    mesh: The mesh of this run, such as "stage:3".
    seed: The seed of this run.
    global_step: The step that was evaluated.
    loss: Mean loss over the held-out images.
    accuracy: Share of the held-out images that are classified right.
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
  accuracy: float
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
      ("accuracy", f"{self.accuracy:.4f}"),
      ("loss", f"{self.loss:.4f}"),
      ("steps/s", "not measured" if speed is None else f"{speed:.1f}"),
      ("variables", "not observed" if devices is None else _sizes(devices)),
      ("checkpoint", self.checkpoint),
    ]
    if self.saved_model is not None:
      facts.append(("SavedModel", self.saved_model))
    return [f"  {name:<12} {value}" for name, value in facts]


def claim_model_dir(model_dir: str, identity: RunIdentity) -> None:
  """Makes a model_dir and checks that this run may use it.

  Args:
    model_dir: Where checkpoints go; made if it does not exist.
    identity: What must be the same as in the run whose checkpoints are there.

  Raises:
    RunRecordError: The directory cannot be written, or holds the checkpoints
      of another kind of run.
  """
  make_writable("model_dir", model_dir)
  path = os.path.join(model_dir, _RUN_FILE)
  facts = dataclasses.asdict(identity)
  if tf.train.latest_checkpoint(model_dir) is not None:
    _check_same_run(model_dir, facts, _read_json(path))
  _write_json(path, facts)


def make_writable(flag: str, directory: str) -> None:
  """Makes a directory if need be, and writes a file to try it.

  Args:
    flag: The flag that names the directory, for the error.
    directory: The directory.

  Raises:
    RunRecordError: The directory cannot be made or written.
  """
  trial = os.path.join(directory, f".trial.{os.getpid()}.tmp")
  try:
    tf.io.gfile.makedirs(directory)
    with tf.io.gfile.GFile(trial, "w") as file:
      file.write("")
    tf.io.gfile.remove(trial)
  except (tf.errors.OpError, OSError) as error:
    raise RunRecordError(
      f"{flag}={directory} cannot be written ({_reason(error)}); choose another"
      f" --{flag}"
    ) from error


def write_result(model_dir: str, result: Result) -> str:
  """Writes a result to `result.json`, in one step; returns the file's path.

  Args:
    model_dir: The directory of the run.
    result: Its result.
  """
  path = os.path.join(model_dir, RESULT_FILE)
  _write_json(path, dataclasses.asdict(result))
  return path


def read_result(model_dir: str) -> Result | None:
  """Returns the result that an earlier run wrote; None if there is none.

  Args:
    model_dir: The directory of the run.
  """
  facts = _read_json(os.path.join(model_dir, RESULT_FILE))
  fields = {field.name for field in dataclasses.fields(Result)}
  return Result(**facts) if facts and facts.keys() == fields else None


def _check_same_run(model_dir: str, facts: dict, found: dict | None) -> None:
  if found is None:
    raise RunRecordError(
      f"model_dir={model_dir} has checkpoints but no {_RUN_FILE}: another"
      " program made them; choose another --model_dir"
    )
  for name, value in facts.items():
    if found.get(name) != value:
      raise RunRecordError(
        f"model_dir={model_dir} has checkpoints of --{name}={found.get(name)},"
        f" which --{name}={value} cannot resume; use --{name}="
        f"{found.get(name)} or choose another --model_dir"
      )


def _read_json(path: str) -> dict | None:
  """Returns the object in a file; None if there is none."""
  if not tf.io.gfile.exists(path):
    return None
  with tf.io.gfile.GFile(path) as file:
    try:
      value = json.loads(file.read())
    except json.JSONDecodeError:
      return None
  return value if isinstance(value, dict) else None


def _write_json(path: str, value: dict) -> None:
  """Replaces a file in one step, so that no reader sees half of it."""
  temporary = f"{path}.{os.getpid()}.tmp"
  with tf.io.gfile.GFile(temporary, "w") as file:
    file.write(json.dumps(value, indent=2) + "\n")
  tf.io.gfile.rename(temporary, path, overwrite=True)


def _sizes(devices: dict[str, int]) -> str:
  return ", ".join(
    f"{device} {size / _MEGABYTE:.3f} MB" for device, size in devices.items()
  )


def _reason(error: Exception) -> str:
  """Returns why a file operation failed, in a few words."""
  text = getattr(error, "message", None) or str(error)
  return " ".join(text.split()).rpartition("; ")[2]
