"""Checkpoints that a run may start from: complete ones only.

A Saver writes the parts of a checkpoint under another name, then the index,
then the file `checkpoint`, which names it; so a named one is whole. But each
new session of an Estimator saves the checkpoint that it has read once more,
over the old files, and the index is written in place: who is killed in that
moment leaves a half one. A disk that was full, or a copy that was interrupted,
leaves one whose files are too short.
"""

import math
import os
import re

from estimator_mp.cluster.run_log import LOG

import tensorflow as tf

v1 = tf.compat.v1
# The errors of TensorFlow for a file that it cannot read.
UNREADABLE = (tf.errors.OpError, IndexError, RuntimeError, ValueError)
_DATA = re.compile(r"\.data-\d+-of-(?P<count>\d+)")
_LEFTOVERS = "model.ckpt-*_temp*"
_INDEX = re.compile(r"(?P<name>model\.ckpt-(?P<step>\d+))\.index")


def leave_out_broken(model_dir: str) -> None:
  """Makes the newest whole checkpoint the one that training begins with.

  The log names the one that is left out. Files of an interrupted save are
  removed. Without the file `checkpoint` a run begins anew, as without this. If
  no checkpoint is whole, nothing is changed, and restoring it says why.

  Args:
    model_dir: The Estimator's.
  """
  for path in tf.io.gfile.glob(os.path.join(model_dir, _LEFTOVERS)):
    tf.io.gfile.rmtree(path)
  state_file = os.path.join(model_dir, "checkpoint")
  if not tf.io.gfile.exists(state_file):
    return
  try:
    state = tf.train.get_checkpoint_state(model_dir)
  except ValueError:  # It names none, or is no text.
    state = None
  named: list[str] = []
  problem = f"{state_file} names no checkpoint"
  if state is not None:
    newest = str(state.model_checkpoint_path)
    lack = missing_part(newest)
    if lack is None:
      return
    problem = f"{newest} is incomplete: {lack}"
    named = list(state.all_model_checkpoint_paths)
  for paths in (named, _in_folder(model_dir)):
    whole = [path for path in paths if missing_part(path) is None]
    if whole:
      LOG.warning("%s; training goes on from %s", problem, whole[-1])
      v1.train.update_checkpoint_state(model_dir, whole[-1], whole)
      return


def _in_folder(model_dir: str) -> list[str]:
  """Returns the checkpoints of an Estimator's folder, the last step last."""
  indices = filter(None, map(_INDEX.fullmatch, tf.io.gfile.listdir(model_dir)))
  by_step = sorted(indices, key=lambda x: int(x["step"]))
  return [os.path.join(model_dir, x["name"]) for x in by_step]


def damage(path: str) -> str | None:
  """Returns the damage of a checkpoint, all of which is read; it has sums.

  Args:
    path: The path of the checkpoint, without the suffixes of its files.
  """
  lack = missing_part(path)
  if lack:
    return lack
  name = "its index"
  try:
    reader = tf.train.load_checkpoint(path)
    for name in reader.get_variable_to_shape_map():
      reader.get_tensor(name)
  except UNREADABLE as error:
    text = " ".join((getattr(error, "message", None) or str(error)).split())
    return f"{name}: {text}"
  return None


def missing_part(path: str) -> str | None:
  """Returns the part that a checkpoint lacks, in words; None if it is whole.

  Its tensors are not read: that the files are as long as they are to be is
  known from the shapes in the index.

  Args:
    path: The path of the checkpoint, without the suffixes of its files.
  """
  missing = _missing_file(path)
  if missing:
    return f"{missing} is missing"
  try:
    reader = tf.train.load_checkpoint(path)
    shapes = reader.get_variable_to_shape_map()
    dtypes = reader.get_variable_to_dtype_map()
  except UNREADABLE:
    return f"{os.path.basename(path)}.index cannot be read"
  # Texts take more than a byte each; others as many bytes as in memory.
  needed = sum(
    math.prod(shape) * dtypes[name].size for name, shape in shapes.items()
  )
  size = max(
    sum(tf.io.gfile.stat(part).length for part in parts)
    for parts in _data_files(path)
    if all(map(tf.io.gfile.exists, parts))
  )
  if size < needed:
    return f"its data files have {size:,} bytes of {needed:,}"
  return None


def _missing_file(path: str) -> str | None:
  """Returns a file of a checkpoint that is not there; None if all are.

  Args:
    path: The path of the checkpoint, without the suffixes of its files.
  """
  index = f"{path}.index"
  if not tf.io.gfile.exists(index):
    return os.path.basename(index)
  missing = [
    next((part for part in parts if not tf.io.gfile.exists(part)), None)
    for parts in _data_files(path)
  ]
  return None if None in missing else os.path.basename(str(missing[-1]))


def _data_files(path: str) -> list[list[str]]:
  """Returns the data files of a checkpoint, also those that are not there.

  Two meshes may have saved the same step, in different numbers of files.
  """
  folder, name = os.path.split(path)
  matches = [
    _DATA.fullmatch(x.removeprefix(name))
    for x in tf.io.gfile.listdir(folder)
    if x.startswith(name)
  ]
  counts = {int(x["count"]) for x in matches if x is not None} or {1}
  return [
    [f"{path}.data-{i:05}-of-{count:05}" for i in range(count)]
    for count in sorted(counts)
  ]
