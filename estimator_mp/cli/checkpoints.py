"""Checkpoints of a model_dir: which one to resume from, and whether it can.

TensorFlow starts anew, and then overwrites, where the file `checkpoint` does
not say what there is. What is damaged it reports from within the session.
"""

import os
import re
import shlex
from collections.abc import Iterator

import tensorflow as tf

_STATE_FILE = "checkpoint"
_GLOBAL_STEP = "global_step"
_INDEX = re.compile(r"(?P<name>model\.ckpt-(?P<step>\d+))\.index")
# What TensorFlow raises of a file that it cannot read.
UNREADABLE = (tf.errors.OpError, IndexError, RuntimeError, ValueError)
_DATA = re.compile(r"\.data-\d+-of-(?P<count>\d+)")


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
  path = _named_by(model_dir, state_file)
  missing = _missing_file(path)
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
  except UNREADABLE as error:
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


def _named_by(model_dir: str, state_file: str) -> str:
  """Returns the checkpoint that the file `checkpoint` names."""
  try:
    state = tf.train.get_checkpoint_state(model_dir)
  except ValueError:  # It names none, or is no text.
    state = None
  if state is None:
    raise _unusable(
      model_dir, f"{state_file} is damaged: it names no checkpoint"
    )
  return str(state.model_checkpoint_path)


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


def _missing_file(path: str) -> str | None:
  """Returns a file of a checkpoint that is not there; None if all are."""
  folder, name = os.path.split(path)
  names = tf.io.gfile.listdir(folder) if tf.io.gfile.exists(folder) else []
  if f"{name}.index" not in names:
    return f"{name}.index"
  found = [
    _DATA.fullmatch(x.removeprefix(name)) for x in names if x.startswith(name)
  ]
  counts = {int(x["count"]) for x in found if x is not None} or {1}
  missing = []
  for count in sorted(counts):  # Two meshes may have saved the same step.
    parts = [f"{name}.data-{i:05}-of-{count:05}" for i in range(count)]
    missing = [part for part in parts if part not in names]
    if not missing:
      return None
  return missing[0]


def _damage(path: str) -> str | None:
  """Returns what is wrong with a checkpoint, as TensorFlow says it."""
  missing = _missing_file(path)
  if missing:
    return f"{missing} is missing"
  name = "its index"
  try:
    reader = tf.train.load_checkpoint(path)
    for name in reader.get_variable_to_shape_map():
      reader.get_tensor(name)
  except UNREADABLE as error:
    text = " ".join((getattr(error, "message", None) or str(error)).split())
    return f"{name}: {text}"
  return None
