"""Rules for ops that change shapes, and for those that read them.

Where a size stays in the split dimension, all of that dimension does: no op
below takes entries twice, and those that reverse or move them name the
dimension.
"""

from compat.private import graph_reads
from estimator_mp.graph import shapes as graph_shapes
from estimator_mp.model_axis import axes, choices
from estimator_mp.model_axis.decisions import (
  Composite,
  OnPart,
  PartInputs,
  PartOutputs,
  PerPart,
  Replicate,
  Resized,
  Shard,
  Shards,
  Table,
)

import numpy as np
import tensorflow as tf

TABLE = Table()


@TABLE.rule("Reshape")
def _reshape(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Heads of a layer's outputs, and outputs of heads."""
  split, shape = splits
  before = axes.dimensions(op.inputs[0])
  after = axes.dimensions(op.outputs[0])
  if split is None or shape is not None or before is None or after is None:
    return None
  output = axes.reshaped(before, after, split)
  if output is None:
    return None
  return PerPart((split, Resized(output.axis, output.sizes)), (output,))


@TABLE.rule("ConjugateTranspose", "Transpose")
def _transpose(op: tf.Operation, splits: Shards) -> PerPart | None:
  split, order = splits
  axes_before = axes.constant_axes(op.inputs[1], op.inputs[0].shape.rank)
  if split is None or order is not None or axes_before is None:
    return None
  output = split.at(axes_before.index(split.axis))
  return PerPart((split, Replicate()), (output,))


@TABLE.rule("ExpandDims")
def _expand_dims(op: tf.Operation, splits: Shards) -> PerPart | None:
  split, axis = splits
  new = axes.constant_axes(op.inputs[1], op.outputs[0].shape.rank)
  if split is None or axis is not None or new is None:
    return None
  output = split.at(split.axis + (new[0] <= split.axis))
  return PerPart((split, Replicate()), (output,))


@TABLE.rule("Squeeze")
def _squeeze(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The dimensions are named, because a part may be of size 1."""
  (split,) = splits
  sizes = op.inputs[0].shape
  if split is None or sizes.rank is None:
    return None
  gone = [axis % sizes.rank for axis in op.get_attr("squeeze_dims")]
  if not gone:
    if not sizes.is_fully_defined():
      return None
    gone = [axis for axis, size in enumerate(sizes.as_list()) if size == 1]
  if split.axis in gone:
    return None
  output = split.at(split.axis - sum(axis < split.axis for axis in gone))
  named = tf.compat.v1.AttrValue(list=tf.compat.v1.AttrValue.ListValue(i=gone))
  attributes = ({"squeeze_dims": named},) * len(split.sizes)
  return PerPart((split,), (output,), attributes)


@TABLE.rule("EnsureShape")
def _ensure_shape(op: tf.Operation, splits: Shards) -> PerPart | None:
  (split,) = splits
  shape = tf.TensorShape(op.get_attr("shape"))
  if split is None:
    return None
  if shape.rank is None:
    return PerPart((split,), (split,))
  attributes = []
  for size in split.sizes:
    sizes = shape.as_list()
    sizes[split.axis] = size
    proto = tf.TensorShape(sizes).as_proto()
    attributes.append({"shape": tf.compat.v1.AttrValue(shape=proto)})
  return PerPart((split,), (split,), tuple(attributes))


@TABLE.rule("MirrorPad", "MirrorPadGrad", "Pad", "PadV2", "Tile")
def _keep_size(op: tf.Operation, splits: Shards) -> PerPart | None:
  """No padding, and no more than one tile, where the size stays."""
  split = splits[0]
  if split is None or axes.size(op.outputs[0], split.axis) != split.size:
    return None
  if op.type.startswith("Mirror") and not all(split.sizes):
    return None
  return choices.first_input(op, splits)


@TABLE.rule("BroadcastTo")
def _broadcast_to(op: tf.Operation, splits: Shards) -> PerPart | None:
  split, shape = splits
  ranks = [op.inputs[0].shape.rank, op.outputs[0].shape.rank]
  if split is None or shape is not None or None in ranks:
    return None
  output = split.at(split.axis + ranks[1] - ranks[0])
  return PerPart((split, Resized(output.axis, output.sizes)), (output,))


@TABLE.rule("Reverse", "ReverseV2")
def _reverse(op: tf.Operation, splits: Shards) -> PerPart | None:
  if op.type == "Reverse":
    is_reversed = graph_shapes.constant(op.inputs[1])
    reversed_axes = None if is_reversed is None else np.nonzero(is_reversed)[0]
  else:
    reversed_axes = axes.constant_axes(op.inputs[1], op.inputs[0].shape.rank)
  return choices.first_input(op, splits, reversed_axes)


@TABLE.rule("Roll")
def _roll(op: tf.Operation, splits: Shards) -> PerPart | None:
  rolled = axes.constant_axes(op.inputs[2], op.inputs[0].shape.rank)
  return choices.first_input(op, splits, rolled)


@TABLE.rule("Rank")
def _rank(op: tf.Operation, splits: Shards) -> PerPart | None:
  (split,) = splits
  if split is None:
    return None
  return PerPart((split,), (Replicate(),))


@TABLE.rule("Shape", "ShapeN", "Size")
def _shape(op: tf.Operation, splits: Shards) -> Composite | None:
  """From the first part's, so that no tensor is gathered to be measured."""
  if any(tensor.shape.rank is None for tensor in op.inputs):
    return None

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    with on_part(0):
      whole = [
        _whole_shape(tensor, part, split, op.outputs[0].dtype)
        for tensor, part, split in zip(
          op.inputs, inputs[0], splits, strict=True
        )
      ]
      if op.type == "Size":
        return [tf.reduce_prod(shape) for shape in whole]
      return list(whole)

  operands = tuple(Replicate() if split is None else split for split in splits)
  return Composite(operands, (Replicate(),) * len(op.outputs), build)


def _whole_shape(
  tensor: tf.Tensor, part: tf.Tensor, split: Shard | None, dtype: tf.DType
) -> tf.Tensor:
  """Returns the shape of a tensor, read from its first part."""
  sizes: list[int | None] = tensor.shape.as_list()
  if split is not None:
    sizes[split.axis] = split.size
  # In a branch that is not taken the shape has to be dead, as the part is.
  is_inside = graph_reads.is_in_control_flow(part.op)
  with tf.control_dependencies([part.op] if is_inside else []):
    if None not in sizes:
      return tf.constant(sizes, dtype)
    read = tf.shape(part, out_type=dtype)
    return tf.stack(
      [
        read[axis] if size is None else tf.constant(size, dtype)
        for axis, size in enumerate(sizes)
      ]
    )
