"""Checkpoints that a run may begin with: none that is half written.

A Saver writes the parts of a checkpoint under another name, then the index,
then the file `checkpoint`, which names it; so what is named is whole. But each
new session of an Estimator saves the checkpoint that it has read once more,
over the old files, and the index is written in place: who is killed in that
moment leaves a half one.
"""

import logging
import os

import tensorflow as tf

v1 = tf.compat.v1
# What TensorFlow raises of a file that it cannot read.
_UNREADABLE = (tf.errors.OpError, RuntimeError, ValueError)
_LEFTOVERS = "model.ckpt-*_temp*"
_log = logging.getLogger("tensorflow")


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
  _log.warning(
    "%s is no whole checkpoint; training goes on from %s",
    state.model_checkpoint_path,
    whole[-1],
  )
  v1.train.update_checkpoint_state(model_dir, whole[-1], whole)


def _is_whole(path: str) -> bool:
  """Whether the index of a checkpoint can be read, and the data is there."""
  try:
    tf.train.load_checkpoint(path).get_variable_to_shape_map()
  except _UNREADABLE:
    return False
  found = tf.io.gfile.glob(f"{path}.data-*-of-*")
  counts = {int(name.rpartition("-of-")[2]) for name in found}
  return any(
    all(f"{path}.data-{i:05}-of-{count:05}" in found for i in range(count))
    for count in counts
  )
