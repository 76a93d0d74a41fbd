"""Checkpoints that a run may begin with: none that is half written.

A Saver writes the parts of a checkpoint under another name, then the index,
then the file `checkpoint`, which names it; so what is named is whole. But each
new session of an Estimator saves the checkpoint that it has read once more,
over the old files, and the index is written in place: who is killed in that
moment leaves a half one.
"""

import os
import re

from estimator_mp.distributed.fault_log import LOG

import tensorflow as tf

v1 = tf.compat.v1
# What TensorFlow raises of a file that it cannot read.
UNREADABLE = (tf.errors.OpError, IndexError, RuntimeError, ValueError)
_DATA = re.compile(r"\.data-\d+-of-(?P<count>\d+)")
_LEFTOVERS = "model.ckpt-*_temp*"


def leave_out_broken(model_dir: str) -> None:
  """Makes the newest whole checkpoint the one that training begins with.

  It also removes what an interrupted save has left. If no checkpoint is whole,
  nothing is changed, and restoring it says why.

  Args:
    model_dir: The Estimator's.
  """
  for path in tf.io.gfile.glob(os.path.join(model_dir, _LEFTOVERS)):
    tf.io.gfile.rmtree(path)
  state = tf.train.get_checkpoint_state(model_dir)
  if state is None:
    return
  paths = list(state.all_model_checkpoint_paths)
  whole = [path for path in paths if _is_whole(path)]
  if not whole or whole[-1] == state.model_checkpoint_path:
    return
  LOG.warning(
    "%s is no whole checkpoint; training goes on from %s",
    state.model_checkpoint_path,
    whole[-1],
  )
  v1.train.update_checkpoint_state(model_dir, whole[-1], whole)


def _is_whole(path: str) -> bool:
  """Whether the index of a checkpoint can be read, and the data is there."""
  try:
    tf.train.load_checkpoint(path).get_variable_to_shape_map()
  except UNREADABLE:
    return False
  return missing_file(path) is None


def missing_file(path: str) -> str | None:
  """Returns a file of a checkpoint that is not there; None if all are.

  Args:
    path: The path of the checkpoint, without what tells its files apart.
  """
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
