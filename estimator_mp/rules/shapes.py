"""Rules for ops that change shapes, take pieces of tensors, and join them."""

from collections.abc import Sequence
from typing import TypeAlias

from estimator_mp.rules.rule import Label, Labels, Rule, SizesOf, Whole
from estimator_mp.rules.table import Shapes, Table
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial, Size

import numpy as np
import tensorflow as tf

TABLE = Table()

_ALL = (frozenset([0]),)


class _Unknown:
  """A bound of a slice that is not known."""


_UNKNOWN = _Unknown()
_Bound: TypeAlias = Size | _Unknown | None
_Bounds: TypeAlias = tuple[_Bound, _Bound, _Bound]


def entries(shapes: Shapes, tensor: tf.Tensor) -> list[Size] | None:
  """Returns the entries of a tensor, such as a shape; None if not known.

  Args:
    shapes: The values of tensors.
    tensor: A small tensor of integers.
  """
  value = shapes.value(tensor)
  return None if value is None else list(np.ravel(value))


def number(shapes: Shapes, tensor: tf.Tensor) -> int | None:
  """Returns the only entry of a tensor, if it is known as a number.

  Args:
    shapes: The values of tensors.
    tensor: A tensor of one integer.
  """
  values = entries(shapes, tensor)
  return values[0] if values and isinstance(values[0], int) else None


def numbered(count: int, letter: str = "d") -> Labels:
  """Returns labels for so many dimensions.

  Args:
    count: How many.
    letter: Their first letter.
  """
  return tuple(f"{letter}{i}" for i in range(count))


@TABLE.rule("Reshape")
def _reshape(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """A dimension stays if one begins at the same place, and is not 1.

  So a part of the batch is one of [n, 4, d] and of [n*4, d]: its examples are
  next to each other in both. Its size in the shape is the part's own. What -1
  stands for need not be known, if it is not the examples: [n, a, b] may be
  [n, -1, 3].
  """
  before, after = shapes.shape(op.inputs[0]), _reshaped(op, shapes)
  if before is None or after is None:
    return None
  inputs: list[Label | None] = [None] * len(before)
  outputs: list[Label | None] = [None] * len(after)
  known: list[Size] = []
  for one in after:
    if one is None:
      break
    known.append(one)
  starts = {
    polynomials.product(known[:j]): j
    for j in reversed(range(len(known)))
    if known[j] != 1
  }
  for i, size in enumerate(before):
    j = starts.pop(polynomials.product(before[:i]), None) if size != 1 else None
    if j is not None:
      inputs[i] = outputs[j] = f"d{i}"
  return Rule(
    (tuple(inputs), SizesOf()),
    (tuple(outputs),),
    None,
    _ALL,
    dict_of(after),
    is_proportional=True,
  )


def dict_of(sizes: Sequence[Size | None]) -> dict[tuple[int, int], Size]:
  """Returns the sizes of the first output as a rule has them.

  Args:
    sizes: The size of each dimension; None if it is not known.
  """
  return {(0, i): x for i, x in enumerate(sizes) if x is not None}


def _reshaped(op: tf.Operation, shapes: Shapes) -> list[Size | None] | None:
  """Returns the sizes after a reshape, without -1; None for one not known."""
  before, after = shapes.shape(op.inputs[0]), entries(shapes, op.inputs[1])
  if before is None or after is None:
    return None
  if not all(size == -1 or shapes.is_size(size) for size in after):
    return None  # One of them may be -1 in a step.
  if -1 in after:
    place = after.index(-1)
    others = [x for i, x in enumerate(after) if i != place]
    size = polynomials.quotient(
      polynomials.product(before), polynomials.product(others)
    )
    known = op.outputs[0].shape
    if size is None and known.rank is not None:
      size = known.as_list()[place]
    if size is None and not (place and before[0] == after[0]):
      return None
    return [*after[:place], size, *after[place + 1 :]]
  return [*after]


@TABLE.rule("ConjugateTranspose", "Transpose")
def _transpose(op: tf.Operation, shapes: Shapes) -> Rule | None:
  named = entries(shapes, op.inputs[1])
  if named is None:
    return None
  order = [x for x in named if isinstance(x, int)]
  if len(order) < len(named):
    return None
  labels = numbered(len(order))
  output = tuple(labels[x] for x in order)
  return Rule((labels, Whole()), (output,), None, _ALL)


@TABLE.rule("ExpandDims")
def _expand_dims(op: tf.Operation, shapes: Shapes) -> Rule | None:
  shape, axis = shapes.shape(op.inputs[0]), number(shapes, op.inputs[1])
  if shape is None or axis is None:
    return None
  labels = numbered(len(shape))
  axis %= len(shape) + 1
  output = (*labels[:axis], None, *labels[axis:])
  return Rule((labels, Whole()), (output,), None, _ALL, {(0, axis): 1})


@TABLE.rule("Squeeze")
def _squeeze(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Without names it removes dimensions of 1, which have to be known."""
  shape = shapes.shape(op.inputs[0])
  if shape is None:
    return None
  gone = {axis % len(shape) for axis in op.get_attr("squeeze_dims")}
  if not gone:
    if len(shape) != (op.outputs[0].shape.rank or 0) + shape.count(1):
      return None
    gone = {i for i, size in enumerate(shape) if size == 1}
  labels: list[Label | None] = [
    None if i in gone else f"d{i}" for i in range(len(shape))
  ]
  output = tuple(x for i, x in enumerate(labels) if i not in gone)
  # They are named, because a part may be of size 1.
  named = tf.compat.v1.AttrValue()
  named.list.i.extend(sorted(gone))
  return Rule(
    (tuple(labels),),
    (output,),
    None,
    _ALL,
    attributes={"squeeze_dims": named} if gone else {},
  )


@TABLE.rule("BroadcastTo")
def _broadcast_to(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Dimensions are counted from the last; those of size 1 are repeated."""
  before, after = shapes.shape(op.inputs[0]), entries(shapes, op.inputs[1])
  if before is None or after is None:
    return None
  labels = tuple(f"...{i}" for i in range(len(after), 0, -1))
  of_value = labels[len(after) - len(before) :]
  return Rule((of_value, SizesOf()), (labels,), None, _ALL, dict_of(after))


@TABLE.rule("Fill")
def _fill(op: tf.Operation, shapes: Shapes) -> Rule | None:
  sizes = entries(shapes, op.inputs[0])
  if sizes is None:
    return None
  labels = numbered(len(sizes))
  return Rule((SizesOf(), ()), (labels,), sizes=dict_of(sizes))


@TABLE.rule("Tile")
def _tile(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """A dimension that is not repeated stays; one entry is, to any size."""
  before, times = shapes.shape(op.inputs[0]), entries(shapes, op.inputs[1])
  if before is None or times is None:
    return None
  is_repeated = [
    x == 1 and factor != 1 for x, factor in zip(before, times, strict=True)
  ]
  outputs: Labels = tuple(
    f"...{i}" if repeated else f"d{i}" if factor == 1 else None
    for i, (factor, repeated) in enumerate(zip(times, is_repeated, strict=True))
  )
  sizes = [x * factor for x, factor in zip(before, times, strict=True)]
  of_entries = tuple(i if x else None for i, x in enumerate(is_repeated))
  return Rule(
    (outputs, SizesOf(0, of_entries)), (outputs,), None, _ALL, dict_of(sizes)
  )


@TABLE.rule("MirrorPad", "MirrorPadGrad", "Pad", "PadV2")
def _pad(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """A dimension without padding stays."""
  before, paddings = shapes.shape(op.inputs[0]), entries(shapes, op.inputs[1])
  if before is None or paddings is None:
    return None
  pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
  sign = -1 if op.type == "MirrorPadGrad" else 1
  labels = tuple(
    f"d{i}" if pair == (0, 0) else None for i, pair in enumerate(pairs)
  )
  sizes = [
    size + sign * (first + last)
    for size, (first, last) in zip(before, pairs, strict=True)
  ]
  others = [Whole()] * (len(op.inputs) - 1)
  linear = () if op.type == "PadV2" else _ALL
  return Rule(
    (labels, *others),
    (labels,),
    None,
    linear,
    dict_of(sizes),
    nonempty=op.type.startswith("Mirror"),
  )


@TABLE.rule("Reverse", "ReverseV2", "Roll")
def _turn(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Other dimensions than those that are turned around stay."""
  shape = shapes.shape(op.inputs[0])
  if shape is None:
    return None
  if op.type == "Reverse":
    flags = entries(shapes, op.inputs[1])
    turned = flags and frozenset(i for i, x in enumerate(flags) if x)
  else:
    over = shapes.axes(op.inputs[-1], len(shape))
    turned = None if over is None else over.sure | over.maybe
  if turned is None:
    return None
  labels = tuple(f"D{i}" if i in turned else f"d{i}" for i in range(len(shape)))
  others = [Whole()] * (len(op.inputs) - 1)
  return Rule((labels, *others), (labels,), None, _ALL)


@TABLE.rule("Slice")
def _slice(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """A dimension stays of which all is taken."""
  before = shapes.shape(op.inputs[0])
  if before is None:
    return None
  unknown = [None] * len(before)
  begins = entries(shapes, op.inputs[1]) or unknown
  taken = entries(shapes, op.inputs[2]) or unknown
  labels = tuple(
    f"d{i}" if begin == 0 and size in (-1, whole) else None
    for i, (begin, size, whole) in enumerate(
      zip(begins, taken, before, strict=True)
    )
  )
  sizes = [x if x is not None and shapes.is_size(x) else None for x in taken]
  is_known = taken is not unknown
  return Rule(
    (labels, Whole(), SizesOf() if is_known else Whole()),
    (labels,),
    None,
    _ALL,
    dict_of(sizes),
  )


@TABLE.rule("StridedSlice")
def _strided_slice(op: tf.Operation, shapes: Shapes) -> Rule | None:
  shape = shapes.shape(op.inputs[0])
  pieces = None if shape is None else _pieces(op, shapes, shape)
  if pieces is None:
    return None
  inputs, output, sizes = pieces
  return Rule((inputs, Whole(), Whole(), Whole()), (output,), None, _ALL, sizes)


@TABLE.rule("StridedSliceGrad")
def _strided_slice_grad(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The slice is put where it was taken from, and all else is 0."""
  shape = entries(shapes, op.inputs[0])
  pieces = None if shape is None else _pieces(op, shapes, shape)
  if shape is None or pieces is None:
    return None
  output, of_slice, _ = pieces
  return Rule(
    (SizesOf(), Whole(), Whole(), Whole(), of_slice),
    (output,),
    None,
    (frozenset([4]),),
    dict_of(shape),
  )


def _pieces(
  op: tf.Operation, shapes: Shapes, shape: Sequence[Size]
) -> tuple[Labels, Labels, dict[tuple[int, int], Size]] | None:
  """Returns the dimensions of a slice with strides.

  Args:
    op: A slice, or the gradient of one; the second, third and fourth inputs
      are its bounds and strides.
    shapes: The sizes and values of its inputs.
    shape: The sizes of the tensor that is sliced.

  Returns:
    The labels of that tensor, and of the slice: equal ones where all of a
    dimension is taken. And known sizes of the slice.
  """
  of_bounds = shapes.shape(op.inputs[1])
  count = of_bounds[0] if of_bounds else None
  if not isinstance(count, int):
    return None
  begins, ends, strides = (
    _bounds(shapes, tensor, count) for tensor in op.inputs[1:4]
  )

  def has(mask: str, entry: int) -> bool:
    return bool(op.get_attr(f"{mask}_mask") >> entry & 1)

  # The entry of each dimension; `count` for those that none speaks of.
  named = list(range(count))
  dots = next((i for i in named if has("ellipsis", i)), count)
  others = sum(not has("new_axis", i) for i in named if i != dots)
  named[dots : dots + 1] = [count] * (len(shape) - others)
  before: list[Label | None] = []
  after: list[Label | None] = []
  sizes: dict[tuple[int, int], Size] = {}
  for entry in named:
    if entry < count and has("new_axis", entry):
      sizes[0, len(after)] = 1
      after.append(None)
      continue
    whole = shape[len(before)]
    label = f"d{len(before)}"
    if entry < count and has("shrink_axis", entry):
      before.append(None)
      continue
    bounds: _Bounds = (None, None, 1)
    if entry < count:
      bounds = (
        None if has("begin", entry) else begins[entry],
        None if has("end", entry) else ends[entry],
        strides[entry],
      )
    taken = _taken(whole, *bounds)
    is_all = bounds[2] == 1 and taken is not None and taken == whole
    before.append(label if is_all else None)
    if taken is not None:
      sizes[0, len(after)] = taken
    after.append(label if is_all else None)
  return tuple(before), tuple(after), sizes


def _bounds(shapes: Shapes, tensor: tf.Tensor, count: int) -> list[_Bound]:
  return [*(entries(shapes, tensor) or ())] or [_UNKNOWN] * count


def _taken(
  whole: Size,
  begin: _Bound,
  end: _Bound,
  stride: _Bound,
) -> Size | None:
  """Returns how many entries of a dimension a slice takes; None if unknown.

  Args:
    whole: The size of the dimension.
    begin: The first entry; None for that at the edge.
    end: The entry after the last one; None for the edge.
    stride: The stride.
  """
  if (
    isinstance(whole, int)
    and isinstance(stride, int)
    and not isinstance(begin, Polynomial | _Unknown)
    and not isinstance(end, Polynomial | _Unknown)
  ):
    return len(range(whole)[slice(begin, end, stride)])
  if stride != 1 or isinstance(begin, _Unknown) or isinstance(end, _Unknown):
    return None
  # No size is 0 that is not known: one entry less is one less.
  if begin in (None, 0, 1) and (end is None or end == whole):
    return whole - (begin or 0)
  if begin in (None, 0) and end == -1:
    return whole - 1
  return None


@TABLE.rule("Pack")
def _pack(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Tensors of one shape, which is known of some of them at least."""
  of_inputs = [shapes.shape(tensor) for tensor in op.inputs]
  known = next((x for x in of_inputs if x is not None), None)
  if known is None:
    return None
  labels = numbered(len(known))
  axis = op.get_attr("axis") % (len(labels) + 1)
  return Rule(
    (labels,) * len(of_inputs),
    ((*labels[:axis], None, *labels[axis:]),),
    None,
    (frozenset(range(len(of_inputs))),),
    {(0, axis): len(of_inputs)},
  )


@TABLE.rule("Unpack")
def _unpack(op: tf.Operation, shapes: Shapes) -> Rule | None:
  shape = shapes.shape(op.inputs[0])
  if shape is None:
    return None
  labels = numbered(len(shape))
  axis = op.get_attr("axis") % len(labels)
  output = (*labels[:axis], *labels[axis + 1 :])
  labels = (*labels[:axis], None, *labels[axis + 1 :])
  return Rule((labels,), (output,) * len(op.outputs), None, _ALL)


@TABLE.rule("Concat", "ConcatV2")
def _concat(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Along another dimension each part joins its own."""
  of_axis = 0 if op.type == "Concat" else len(op.inputs) - 1
  tensors = [x for i, x in enumerate(op.inputs) if i != of_axis]
  of_inputs = [shapes.shape(tensor) for tensor in tensors]
  known = [x for x in of_inputs if x is not None]
  axis = number(shapes, op.inputs[of_axis])
  if not known or axis is None:
    return None
  axis %= len(known[0])
  labels = tuple(None if i == axis else f"d{i}" for i in range(len(known[0])))
  inputs: list[Labels | Whole] = [labels] * len(tensors)
  inputs.insert(of_axis, Whole())
  sizes: dict[tuple[int, int], Size] = {}
  if len(known) == len(of_inputs):
    total: Size = 0
    for shape in known:
      total = total + shape[axis]
    sizes[0, axis] = total
  linear = frozenset(range(len(op.inputs))) - {of_axis}
  return Rule(tuple(inputs), (labels,), None, (linear,), sizes)


@TABLE.rule("Split", "SplitV")
def _split(op: tf.Operation, shapes: Shapes) -> Rule | None:
  value, of_axis = (1, 0) if op.type == "Split" else (0, 2)
  shape = shapes.shape(op.inputs[value])
  axis = number(shapes, op.inputs[of_axis])
  if shape is None or axis is None:
    return None
  axis %= len(shape)
  labels = tuple(None if i == axis else f"d{i}" for i in range(len(shape)))
  inputs: list[Labels | Whole] = [Whole()] * len(op.inputs)
  inputs[value] = labels
  pieces: list[Size | None] = [None] * len(op.outputs)
  if op.type == "Split":
    each = polynomials.quotient(shape[axis], len(op.outputs))
    pieces = [each] * len(op.outputs)
  elif (named := entries(shapes, op.inputs[1])) is not None:
    total: Size = 0
    for size in named:
      total = total + (0 if size == -1 else size)
    pieces = [shape[axis] - total if x == -1 else x for x in named]
  sizes = {(i, axis): x for i, x in enumerate(pieces) if x is not None}
  return Rule(
    tuple(inputs),
    (labels,) * len(op.outputs),
    None,
    (frozenset([value]),),
    sizes,
  )
