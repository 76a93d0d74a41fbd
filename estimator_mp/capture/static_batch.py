"""The size of the batches that train, where input_fn leaves it open.

A model_fn may have it as a number, which then says nothing of the examples.
Features and labels have it before model_fn sees them, and each step checks it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_mp.capture import input_pieces, nested_inputs
from estimator_mp.config.sharding_options import BatchAxis
from estimator_mp.graph import batch_inputs

import tensorflow as tf

_SCOPE = "static_batch_size"
_OTHER_SIZE = (
  "static_batch_size={size}, but {name} has {found} example(s); let input_fn "
  "leave out short batches, as Dataset.batch(size, drop_remainder=True) does, "
  "or leave static_batch_size out"
)


def with_size(
  arguments: Mapping[str, Any], size: int, batch_axis: Sequence[BatchAxis] = ()
) -> dict[str, Any]:
  """Returns model_fn's arguments, whose batch has a known number of examples.

  Args:
    arguments: The arguments by name.
    size: The number of examples.
    batch_axis: The axes of the examples, as in `ShardingOptions`.

  Raises:
    ValueError: If the graph knows that it is another, or replicas read batches
      of their own.
  """
  batch = {x: arguments[x] for x in ("features", "labels") if x in arguments}
  leaves = [
    _with_size(name, leaf, size, nested_inputs.axis_of(name, leaf, batch_axis))
    for name, leaf in nested_inputs.leaves(batch)
  ]
  return {**arguments, **nested_inputs.rebuilt(batch, iter(leaves))}


def _with_size(name: str, leaf: Any, size: int, axis: int | None) -> Any:
  # Sparse and ragged tensors are compared with the others in each step.
  if axis is None or isinstance(leaf, batch_inputs.COMPOSITES):
    return leaf
  found = leaf.shape.as_list()[axis]
  if found == size:
    return leaf
  if found is not None:
    raise ValueError(_OTHER_SIZE.format(size=size, name=name, found=found))
  if input_pieces.pieces_of(batch_inputs.Input(name, leaf, axis)):
    raise ValueError(
      f"static_batch_size={size} is of one batch for all replicas, but each "
      "reads its own here; leave it out, and let input_fn make batches of one "
      "size by drop_remainder=True"
    )
  shape: list[int | None] = [None] * leaf.shape.rank
  shape[axis] = size
  with tf.compat.v1.device(leaf.device or None):
    return tf.ensure_shape(leaf, shape, f"{_SCOPE}/{_op_name(name)}")


def _op_name(name: str) -> str:
  """Returns the name of an input, without what TensorFlow refuses in one."""
  return re.sub(r"[^\w./-]", "_", name)


def message_of_check(message: str) -> str | None:
  """Returns the text of a batch of another size; None for another error.

  Args:
    message: That of an error of a step, which may have many lines.
  """
  named = re.search(rf"\b{_SCOPE}/([\w./-]+)", message)
  shapes = re.search(
    r"Shape of tensor \S+ \[([\d,]*)\] is not compatible with expected shape "
    r"\[([\d,?]*)\]",
    message,
  )
  if named is None or shapes is None:
    return None
  pairs = zip(shapes[1].split(","), shapes[2].split(","), strict=True)
  found, size = next((x, y) for x, y in pairs if y != "?")
  return _OTHER_SIZE.format(size=size, name=named[1], found=found)
