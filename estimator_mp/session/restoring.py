"""Checks before a session that a checkpoint fits the model.

TensorFlow finds out in the session that a variable is missing, and says so in a
hundred lines. A variable of another size it restores as it is: a layer of 16
units goes on with the 8 units of the checkpoint, and nothing fails.
"""

import re

from estimator_mp.placement import contents

import tensorflow as tf

v1 = tf.compat.v1

# A checkpoint of tf.train.Checkpoint, whose names are others.
_BY_OBJECT = "_CHECKPOINTABLE_OBJECT_GRAPH"
# A variable that model_fn itself has partitioned is saved as a whole, and its
# slots under names that TensorFlow makes of both; a Saver knows them.
_PART = re.compile(r"/part_\d+(?=/|$)")


def _has_saver(spec: tf.estimator.EstimatorSpec) -> bool:
  """Whether a model has, or may have, a Saver of its own."""
  if v1.get_collection(v1.GraphKeys.SAVERS):
    return True
  scaffold = getattr(spec, "scaffold", None)
  # A TPUEstimatorSpec has a function that makes one, later.
  makes_scaffold = getattr(spec, "scaffold_fn", None) is not None
  return makes_scaffold or (scaffold is not None and scaffold.saver is not None)


def check_fits(spec: tf.estimator.EstimatorSpec, model_dir: str) -> None:
  """Raises if the newest checkpoint is not of the model of the default graph.

  Args:
    spec: The spec that model_fn returned. If it has a Saver, that decides
      itself which variables to restore.
    model_dir: The Estimator's.

  Raises:
    ValueError: If the checkpoint lacks a variable, or has it in another size.
  """
  path = tf.train.latest_checkpoint(model_dir)
  if path is None or _has_saver(spec):
    return
  shapes = tf.train.load_checkpoint(path).get_variable_to_shape_map()
  if _BY_OBJECT in shapes:
    return
  wanted = {
    op.name: tf.TensorShape(op.get_attr("shape"))
    for op in map(contents.whole_of, v1.global_variables())
    if not _PART.search(op.name)
  }
  missing = [name for name in wanted if name not in shapes]
  if missing:
    more = f" and {len(missing) - 1:,} more" if missing[1:] else ""
    raise ValueError(
      f"{path} is of another model: it has no {missing[0]}{more}; train that "
      "model, or choose another model_dir"
    )
  for name, shape in wanted.items():
    saved = shapes.get(name)
    if saved is not None and not shape.is_compatible_with(saved):
      raise ValueError(
        f"{path} has {name} of the shape {saved}, but the model makes it "
        f"{shape.as_list()}; use the sizes that it was trained with, or choose "
        "another model_dir"
      )
