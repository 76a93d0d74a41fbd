"""Sources: how parts make a tensor themselves that a reader wants split.

An initial value, a mask of a dropout or a table of positions is made of shapes,
constants and random numbers. So each part makes its own, and nothing is sent;
what is made of something whole is so as far as that is there in parts, such as
a bias that is reshaped.
"""

import math
from collections.abc import Mapping

from estimator_mp.collectives.exchange import RowOwners
from estimator_mp.graph import draws, feeds, op_types
from estimator_mp.graph import shapes as graph_shapes
from estimator_mp.model_axis import axes, decisions
from estimator_mp.model_axis.decisions import (
  Constants,
  Operand,
  Owned,
  PerPart,
  Replicate,
  Resized,
  Shard,
  Shifted,
  Table,
)
from estimator_mp.model_axis.rules import elementwise, pieces, shapes

import numpy as np
import tensorflow as tf

TABLE = Table()

# The most bytes of a constant that parts have in their own ops.
_MOST_CONSTANT_BYTES = 1 << 16

_BACKWARDS = decisions.joined(
  [elementwise.TABLE, pieces.TABLE, shapes.TABLE]
).rules


@TABLE.source(
  *elementwise.TABLE.rules,
  "Concat",
  "ConcatV2",
  "ConjugateTranspose",
  "EnsureShape",
  "ExpandDims",
  "Pack",
  "Pad",
  "PadV2",
  "Reshape",
  "Reverse",
  "ReverseV2",
  "Roll",
  "Slice",
  "Squeeze",
  "StridedSlice",
  "Transpose",
)
def _backwards(op: tf.Operation, split: Shard) -> PerPart | None:
  """Parts of an input of which the op's rule makes these parts."""
  if len(op.outputs) != 1:
    return None
  rule = _BACKWARDS[op.type]
  for index, tensor in enumerate(op.inputs):
    for candidate in _candidates(op, tensor, split):
      splits: list[Shard | None] = [None] * len(op.inputs)
      splits[index] = candidate
      decision = rule(op, splits)
      if isinstance(decision, PerPart) and decision.outputs == (split,):
        return decision
  return None


def _candidates(
  op: tf.Operation, tensor: tf.Tensor, split: Shard
) -> list[Shard]:
  """Returns how an input may be split."""
  if op.type == "Reshape":
    before = axes.dimensions(tensor)
    if axes.size(op.outputs[0], split.axis) is None or before is None:
      return []
    known = op.outputs[0].shape.as_list()
    after = axes.named_dimensions(op.inputs[1], known)
    found = axes.reshaped(after, before, split)
    return [] if found is None else [found]
  return [
    split.at(axis)
    for axis in range(tensor.shape.rank or 0)
    if axes.size(tensor, axis) == split.size
  ]


@TABLE.source("BroadcastTo", "Tile")
def _repeated(op: tf.Operation, split: Shard) -> PerPart | None:
  """One entry of the dimension is repeated, or all there are as they are."""
  rank, before = op.outputs[0].shape.rank, op.inputs[0].shape.rank
  if rank is None or before is None:
    return None
  axis = split.axis - rank + before
  size = 1 if axis < 0 else axes.size(op.inputs[0], axis)
  resized = Resized(split.axis, split.sizes)
  if size == 1:
    return PerPart((Replicate(), resized), (split,))
  if size != split.size:
    return None
  sizes = Replicate() if op.type == "Tile" else resized
  return PerPart((split.at(axis), sizes), (split,))


@TABLE.source("Fill")
def _fill(op: tf.Operation, split: Shard) -> PerPart:
  return PerPart((Resized(split.axis, split.sizes), Replicate()), (split,))


@TABLE.source("Const")
def _constant(op: tf.Operation, split: Shard) -> PerPart | None:
  """A constant that is small, or of one value, and that nobody feeds."""
  if not feeds.can_be_copied(op):
    return None
  dtype, value = op.outputs[0].dtype, op.get_attr("value")
  if _is_of_one_value(value):
    attributes = []
    for size in split.sizes:
      part = type(value)()
      part.CopyFrom(value)
      part.tensor_shape.dim[split.axis].size = size
      attributes.append(_value(part))
    return PerPart((), (split,), tuple(attributes))
  sizes = op.outputs[0].shape.as_list()
  num_bytes = max(value.ByteSize(), math.prod(sizes) * (dtype.size or 1))
  if num_bytes > _MOST_CONSTANT_BYTES:
    return None
  entries = np.split(tf.make_ndarray(value), split.offsets[1:], split.axis)
  parts = [tf.make_tensor_proto(part, dtype, part.shape) for part in entries]
  return PerPart((), (split,), tuple(map(_value, parts)))


def _value(proto: object) -> Mapping[str, tf.compat.v1.AttrValue]:
  return {"value": tf.compat.v1.AttrValue(tensor=proto)}


def _is_of_one_value(value: object) -> bool:
  """Whether a `TensorProto` has one value for all entries, or none for 0."""
  numbers = [
    len(entries)
    for field, entries in value.ListFields()  # type: ignore[attr-defined]
    if field.name.endswith("_val")
  ]
  has_bytes = bool(value.tensor_content)  # type: ignore[attr-defined]
  return not has_bytes and (not numbers or numbers == [1])


@TABLE.source("RandomStandardNormal", "RandomUniform", "TruncatedNormal")
def _random(op: tf.Operation, split: Shard) -> PerPart:
  shape = Resized(split.axis, split.sizes)
  return PerPart((shape,), (split,), _seeds(op, split))


@TABLE.source("RandomUniformInt")
def _random_integers(op: tf.Operation, split: Shard) -> PerPart:
  shape = Resized(split.axis, split.sizes)
  return PerPart((shape, Replicate(), Replicate()), (split,), _seeds(op, split))


@TABLE.source("RandomGamma", "RandomPoissonV2")
def _random_by_parameters(op: tf.Operation, split: Shard) -> PerPart | None:
  """So many numbers, as a shape says, for each entry of a parameter."""
  rank = axes.size(op.inputs[0], 0)
  if rank is None:
    return None
  seeds = _seeds(op, split)
  if split.axis >= rank:
    parameters = split.at(split.axis - rank)
    return PerPart((Replicate(), parameters), (split,), seeds)
  shape = Resized(split.axis, split.sizes)
  return PerPart((shape, Replicate()), (split,), seeds)


@TABLE.source(
  "StatelessRandomNormal",
  "StatelessRandomNormalV2",
  "StatelessRandomUniform",
  "StatelessRandomUniformV2",
  "StatelessTruncatedNormal",
  "StatelessTruncatedNormalV2",
)
def _random_of_a_seed(op: tf.Operation, split: Shard) -> PerPart:
  """The seed, or the key that was made of one, is another one for each part.

  `inference` asks for initial values only: other numbers that follow from a
  seed are the plain model's.
  """
  operands: list[Operand] = [Replicate()] * len(op.inputs)
  operands[0] = Resized(split.axis, split.sizes)
  operands[op_types.SEED_INPUTS[op.type]] = Shifted(
    tuple(range(len(split.sizes)))
  )
  return PerPart(tuple(operands), (split,))


def _seeds(
  op: tf.Operation, split: Shard
) -> tuple[Mapping[str, tf.compat.v1.AttrValue], ...]:
  """Returns a seed for each part, so that no two draw the same numbers."""
  if not draws.has_seed(op.node_def):
    return ()
  seeds = []
  for number in range(len(split.sizes)):
    node = tf.compat.v1.NodeDef()
    node.CopyFrom(op.node_def)
    node.name = f"{op.name}/part_{number}"
    draws.reseed(node, node.attr["seed2"].i, 0)
    seeds.append({"seed2": node.attr["seed2"]})
  return tuple(seeds)


@TABLE.source("OneHot")
def _one_hot(op: tf.Operation, split: Shard) -> PerPart | None:
  """Of the classes of a part, or of other indices."""
  rank = op.outputs[0].shape.rank
  if rank is None:
    return None
  axis = op.get_attr("axis") % rank
  if split.axis != axis:
    indices = split.at(split.axis - (axis < split.axis))
    return PerPart((indices, *[Replicate()] * 3), (split,))
  if op.inputs[0].dtype not in (tf.int32, tf.int64):
    return None
  depths = Constants(tuple(np.array(size, np.int32) for size in split.sizes))
  shifted = Shifted(split.offsets)
  return PerPart((shifted, depths, Replicate(), Replicate()), (split,))


@TABLE.source("Range")
def _range(op: tf.Operation, split: Shard) -> PerPart | None:
  """Integers: sums of floats would be rounded in another way."""
  start, delta = (
    graph_shapes.constant(op.inputs[0]),
    graph_shapes.constant(op.inputs[2]),
  )
  dtype = op.outputs[0].dtype
  if start is None or delta is None or dtype not in (tf.int32, tf.int64):
    return None
  first = [int(start) + offset * int(delta) for offset in split.offsets]
  bounds = [*first, int(start) + split.size * int(delta)]
  numbers = [np.array(bound, dtype.as_numpy_dtype) for bound in bounds]
  starts, limits = Constants(tuple(numbers[:-1])), Constants(tuple(numbers[1:]))
  return PerPart((starts, limits, Replicate()), (split,))


@TABLE.source("UnsortedSegmentSum")
def _sum_of_rows(op: tf.Operation, split: Shard) -> PerPart | None:
  """Each part adds what is for its own rows, as of a table's dense gradient."""
  values, ids, _ = op.inputs
  rank = values.shape.rank
  if split.axis or ids.shape.rank != 1 or rank is None:
    return None
  if not values.shape[1:].is_fully_defined():
    return None
  dtype = op.inputs[2].dtype.as_numpy_dtype
  sizes = Constants(tuple(np.array(size, dtype) for size in split.sizes))
  owned = Owned(RowOwners(split.sizes), 1)
  return PerPart((owned, owned, sizes), (split,))
