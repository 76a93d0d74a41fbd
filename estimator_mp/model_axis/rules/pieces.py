"""Rules for ops that take pieces of tensors, and join them.

Along another dimension than the split one each part takes, or joins, its own.
The split dimension itself may be cut into pieces, as a layer's outputs are into
queries, keys and values: each piece is split in the same proportions then, and
parts send each other what they are to have.
"""

from collections.abc import Mapping, Sequence

from estimator_mp.graph import shapes
from estimator_mp.model_axis import axes
from estimator_mp.model_axis.decisions import (
  Composite,
  Decision,
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

import tensorflow as tf

TABLE = Table()


@TABLE.rule("Slice")
def _slice(op: tf.Operation, splits: Shards) -> PerPart | None:
  """A slice of the whole dimension begins at 0."""
  split, *others = splits
  if split is None or any(other is not None for other in others):
    return None
  if axes.size(op.outputs[0], split.axis) != split.size:
    return None
  return PerPart(
    (split, Replicate(), Resized(split.axis, split.sizes)), (split,)
  )


@TABLE.rule("StridedSlice")
def _strided_slice(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Bounds of a whole dimension are bounds of all of its parts, too."""
  split, *others = splits
  if split is None or any(other is not None for other in others):
    return None
  axis = _sliced_axes(op, op.inputs[0].shape.rank).get(split.axis)
  if axis is None or axes.size(op.outputs[0], axis) != split.size:
    return None
  return PerPart((split, *[Replicate()] * 3), (split.at(axis),))


@TABLE.rule("StridedSliceGrad")
def _strided_slice_grad(op: tf.Operation, splits: Shards) -> PerPart | None:
  *others, split = splits
  if split is None or any(other is not None for other in others):
    return None
  for axis, sliced in _sliced_axes(op, op.outputs[0].shape.rank).items():
    if sliced == split.axis:
      if axes.size(op.outputs[0], axis) != split.size:
        return None
      shape = Resized(axis, split.sizes)
      return PerPart((shape, *[Replicate()] * 3, split), (split.at(axis),))
  return None


def _sliced_axes(op: tf.Operation, rank: int | None) -> Mapping[int, int]:
  """Returns where dimensions go that are sliced, if at all, forwards.

  Args:
    op: A slice, or the gradient of one; the second, third and fourth inputs
      are its bounds and strides.
    rank: The number of dimensions of what is sliced.

  Returns:
    From dimensions of what is sliced to those of the slice, without those that
    are gone, or that may be sliced with another stride than 1.
  """
  count = axes.size(op.inputs[1], 0)
  strides = shapes.constant(op.inputs[3])
  if rank is None or count is None or strides is None:
    return {}

  def is_set(mask: str, entry: int) -> bool:
    return bool(op.get_attr(mask) >> entry & 1)

  is_new = [is_set("new_axis_mask", i) for i in range(count)]
  entries = list(range(count))
  ellipsis = next((i for i in entries if is_set("ellipsis_mask", i)), count)
  others = sum(not is_new[i] for i in entries if i != ellipsis)
  entries[ellipsis : ellipsis + 1] = [count] * (rank - others)
  where: dict[int, int] = {}
  axis = sliced = 0
  for entry in entries:
    if entry < count and is_new[entry]:
      sliced += 1
    elif entry < count and is_set("shrink_axis_mask", entry):
      axis += 1
    else:
      if entry == count or strides[entry] == 1:
        where[axis] = sliced
      axis += 1
      sliced += 1
  return where


@TABLE.rule("Concat", "ConcatV2")
def _concat(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Along another dimension; tensors that are whole are sliced."""
  split = axes.only(splits)
  names = 0 if op.type == "Concat" else len(op.inputs) - 1
  along = axes.constant_axes(op.inputs[names], op.outputs[0].shape.rank)
  if split is None or along is None or split.axis == along[0]:
    return None
  operands = [
    Replicate() if index == names else split for index in range(len(splits))
  ]
  return PerPart(tuple(operands), (split,))


@TABLE.rule("Pack")
def _pack(op: tf.Operation, splits: Shards) -> PerPart | None:
  split, rank = axes.only(splits), op.outputs[0].shape.rank
  if split is None or rank is None:
    return None
  output = split.at(split.axis + (op.get_attr("axis") % rank <= split.axis))
  return PerPart((split,) * len(splits), (output,))


@TABLE.rule("Unpack")
def _unpack(op: tf.Operation, splits: Shards) -> PerPart | None:
  (split,) = splits
  rank = op.inputs[0].shape.rank
  if split is None or rank is None:
    return None
  axis = op.get_attr("axis") % rank
  if axis == split.axis:
    return None
  output = split.at(split.axis - (axis < split.axis))
  return PerPart((split,), (output,) * len(op.outputs))


@TABLE.rule("Split", "SplitV")
def _split(op: tf.Operation, splits: Shards) -> Decision | None:
  names, value = (0, 1) if op.type == "Split" else (2, 0)
  split = splits[value]
  if split is None or axes.only(splits) != split:
    return None
  along = axes.constant_axes(op.inputs[names], op.inputs[value].shape.rank)
  if along is None:
    return None
  if split.axis == along[0]:
    return _cut(op, value, split)
  operands = [
    split if index == value else Replicate() for index in range(len(splits))
  ]
  return PerPart(tuple(operands), (split,) * len(op.outputs))


def _cut(op: tf.Operation, value: int, split: Shard) -> Composite | None:
  """Returns how the split dimension is cut into pieces that are split, too.

  Each piece is split in the same proportions as the whole is: as heads are,
  if the whole was split between groups of heads. No part of a piece is empty.

  Args:
    op: The op, whose outputs are pieces of all the dimension, one by one.
    value: The number of the input that is cut.
    split: How that is split.
  """
  pieces: list[Shard] = []
  for tensor in op.outputs:
    size = axes.size(tensor, split.axis)
    piece = None if size is None else split.times(size).over(split.size)
    if piece is None or not all(piece.sizes):
      return None
    pieces.append(piece)
  if sum(piece.size for piece in pieces) != split.size:
    return None

  def build(
    op: tf.Operation, inputs: PartInputs, on_part: OnPart
  ) -> PartOutputs:
    parts = [part[value] for part in inputs]
    outputs: PartOutputs = []
    begin = 0
    for piece in pieces:
      made: list[tf.Tensor] = []
      for number, size in enumerate(piece.sizes):
        made.append(
          _between(parts, split, begin, begin + size, on_part, number)
        )
        begin += size
      outputs.append(made)
    return outputs

  # Nearly all that a part has is sent, and nearly as much received.
  sizes = op.inputs[value].shape.as_list()
  sizes[split.axis] = max(split.sizes)
  operands = tuple(
    split if index == value else Replicate() for index in range(len(op.inputs))
  )
  return Composite(operands, tuple(pieces), build, (tf.TensorShape(sizes),))


def _between(
  parts: Sequence[tf.Tensor],
  split: Shard,
  begin: int,
  end: int,
  on_part: OnPart,
  number: int,
) -> tf.Tensor:
  """Returns some entries of the split dimension, on a part's device.

  Args:
    parts: The parts of the tensor.
    split: How it is split.
    begin: The first entry.
    end: The one after the last.
    on_part: The contexts of the parts' devices.
    number: The number of the part.
  """
  found: list[tf.Tensor] = []
  for source, (part, offset, size) in enumerate(
    zip(parts, split.offsets, split.sizes, strict=True)
  ):
    first, last = max(begin - offset, 0), min(end - offset, size)
    if first >= last:
      continue
    if (first, last) == (0, size):
      found.append(part)
      continue
    with on_part(source):
      here = (slice(None),) * split.axis + (slice(first, last),)
      found.append(part[here])
  with on_part(number):
    return found[0] if len(found) == 1 else tf.concat(found, split.axis)
