"""Values of shapes: the arithmetic of sizes, on symbols.

A graph measures tensors, and computes from their sizes those of others:

    Reshape(x, Pack(Shape(x)[0] * 2, -1))

Here Shape(x) is [n, 8], Shape(x)[0] * 2 is 2*n, and so on: small tensors of
integers, whose entries are `Size`s, are evaluated as the kernels would. So the
shape to which a part of a tensor is reshaped, or filled, follows from the
part's own sizes, and no op of this arithmetic is ever copied.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial, Size, UnknownSizeError

import numpy as np
import tensorflow as tf

# An array of `Size`s, of which numpy knows no more than that they are objects.
Value: TypeAlias = np.ndarray[Any, Any]
# From an op, and the values of its inputs, to those of its outputs.
_Kernel: TypeAlias = Callable[[tf.Operation, Sequence[Value]], list[Value]]

# Larger tensors are no shapes, and take time.
MOST_ENTRIES = 64

# From a symbol to the least number it may stand for; None for any.
_Least: TypeAlias = Callable[[str], int | None]

_KERNELS: dict[str, _Kernel] = {}


def value_of(sizes: Sequence[Size] | Size) -> Value:
  """Returns the value that a tensor of sizes has.

  Args:
    sizes: Those of a vector, or that of a scalar.
  """
  if isinstance(sizes, int | Polynomial):
    value = np.empty((), object)
    value[()] = sizes
    return value
  value = np.empty(len(sizes), object)
  value[:] = list(sizes)
  return value


def evaluate(
  op: tf.Operation,
  inputs: Sequence[Value],
  least: _Least = lambda symbol: None,
) -> list[Value] | None:
  """Returns the values of an op's outputs; None if they are not known.

  Args:
    op: The op.
    inputs: The values of its inputs.
    least: Returns the least number that a symbol may stand for, 0 or more; None
      if it may be any.
  """
  kernel = _KERNELS.get(op.type)
  try:
    if op.type in _COMPARISONS:
      choose = functools.partial(_COMPARISONS[op.type], least)
      outputs = [_entrywise(choose)(op, *inputs)]
    elif kernel is not None:
      outputs = kernel(op, inputs)
    else:
      return None
  except UnknownSizeError:
    return None
  return [np.asarray(value, object) for value in outputs]


def is_evaluated(op: tf.Operation) -> bool:
  """Whether ops of this type are evaluated.

  Args:
    op: The op.
  """
  return op.type in _KERNELS or op.type in _COMPARISONS


def numbers(value: Value) -> list[int]:
  """Returns the entries of a value that has no symbols.

  Args:
    value: The value.

  Raises:
    UnknownSizeError: It has some.
  """
  entries = list(np.ravel(value))
  if any(isinstance(entry, Polynomial) for entry in entries):
    raise UnknownSizeError(f"{entries} are no numbers")
  return [int(entry) for entry in entries]


def _number(value: Value) -> int:
  (entry,) = numbers(value)
  return entry


def _kernel(*types: str) -> Callable[[_Kernel], _Kernel]:
  def enter(kernel: _Kernel) -> _Kernel:
    _KERNELS.update(dict.fromkeys(types, kernel))
    return kernel

  return enter


def _one(*types: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
  """Enters a function of the op and its inputs' values, for its only output."""

  def enter(function: Callable[..., Any]) -> Callable[..., Any]:
    _kernel(*types)(lambda op, inputs: [function(op, *inputs)])
    return function

  return enter


@_kernel("Const")
def _constant(op: tf.Operation, inputs: Sequence[Value]) -> list[Value]:
  value = tf.get_static_value(op.outputs[0])
  if value is None or value.size > MOST_ENTRIES or value.dtype.kind not in "iu":
    raise UnknownSizeError(f"{op.name} is no shape")
  entries = np.empty(value.shape, object)
  for place, entry in np.ndenumerate(value):
    entries[place] = int(entry)
  return [entries]


_one(
  "Cast",
  "CheckNumerics",
  "EnsureShape",
  "Enter",
  "Identity",
  "PreventGradient",
  "Snapshot",
  "StopGradient",
)(lambda op, x: x)
_one("Neg")(lambda op, x: -x)
_one("ZerosLike")(lambda op, x: x * 0)
_one("OnesLike")(lambda op, x: x * 0 + 1)


def _entrywise(function: Callable[[Size, Size], Size]) -> Callable[..., Value]:
  def broadcast(op: tf.Operation, x: Value, y: Value) -> Value:
    left, right = np.broadcast_arrays(x, y)
    result = np.empty(left.shape, object)
    for place in np.ndindex(*left.shape):
      result[place] = function(left[place], right[place])
    return result

  return broadcast


def _floor_divide(x: Size, y: Size) -> Size:
  if isinstance(x, int) and isinstance(y, int):
    if not y:
      raise UnknownSizeError(f"{x} is divided by 0")
    return x // y
  return polynomials.divide(x, y)


def _truncate_divide(x: Size, y: Size) -> Size:
  if isinstance(x, int) and isinstance(y, int) and y and (x < 0) != (y < 0):
    return -(-x // y)
  return _floor_divide(x, y)


def _remainder(x: Size, y: Size) -> Size:
  if isinstance(x, int) and isinstance(y, int):
    if not y:
      raise UnknownSizeError(f"{x} is divided by 0")
    return x % y
  polynomials.divide(x, y)
  return 0


def _larger(least: _Least, x: Size, y: Size) -> Size:
  """The larger of two sizes, if it is the same for all symbols."""
  if x == y or _is_no_less(x - y, least):
    return x
  if _is_no_less(y - x, least):
    return y
  raise UnknownSizeError(f"the larger of {x} and {y}")


def _smaller(least: _Least, x: Size, y: Size) -> Size:
  return x + y - _larger(least, x, y)


def _is_no_less(size: Size, least: _Least) -> bool:
  """Whether a size is not negative, as far as can be seen."""
  total = 0
  for term, count in polynomials.terms_of(size).items():
    bounds = [least(symbol) for symbol in term]
    if None in bounds or (term and count < 0):
      return False
    total += count * math.prod(x or 0 for x in bounds)
  return total >= 0


_COMPARISONS = {"Maximum": _larger, "Minimum": _smaller}


_one("Add", "AddV2")(_entrywise(lambda x, y: x + y))
_one("Sub")(_entrywise(lambda x, y: x - y))
_one("Mul")(_entrywise(lambda x, y: x * y))
_one("FloorDiv")(_entrywise(_floor_divide))
_one("Div", "TruncateDiv")(_entrywise(_truncate_divide))
_one("FloorMod")(_entrywise(_remainder))
_one("AddN")(lambda op, first, *others: sum(others, first))


def _axes(op: tf.Operation, value: Value, over: Value) -> list[int]:
  return sorted({axis % max(value.ndim, 1) for axis in numbers(over)})


def _reduced(
  function: Callable[[list[Size]], Size],
) -> Callable[..., Value]:
  def reduce(op: tf.Operation, value: Value, over: Value) -> Value:
    axes = _axes(op, value, over)
    others = [axis for axis in range(value.ndim) if axis not in axes]
    shape = [value.shape[axis] for axis in others]
    rows = np.transpose(value, others + axes).reshape([*shape, -1])
    result = np.empty(shape, object)
    for place in np.ndindex(*shape):
      result[place] = function(list(rows[place]))
    if op.get_attr("keep_dims"):
      result = np.expand_dims(result, axes)
    return result

  return reduce


_one("Sum")(_reduced(lambda entries: sum(entries[1:], *entries[:1] or [0])))
_one("Prod")(_reduced(polynomials.product))

_one("ConcatV2")(lambda op, *read: np.concatenate(read[:-1], _number(read[-1])))
_one("Concat")(lambda op, *read: np.concatenate(read[1:], _number(read[0])))
_one("Pack")(lambda op, *read: np.stack(read, op.get_attr("axis")))
_one("ExpandDims")(lambda op, x, axis: np.expand_dims(x, _number(axis)))
_one("Reshape")(lambda op, x, shape: x.reshape(numbers(shape)))
_one("Transpose")(lambda op, x, order: np.transpose(x, numbers(order)))
_one("Tile")(lambda op, x, times: np.tile(x, numbers(times)))
_one("BroadcastTo")(lambda op, x, shape: np.broadcast_to(x, numbers(shape)))
_one("ReverseV2")(lambda op, x, over: np.flip(x, _axes(op, x, over)))
_one("InvertPermutation")(lambda op, x: np.argsort(numbers(x)))


@_one("GatherV2")
def _gather(op: tf.Operation, x: Value, indices: Value, axis: Value) -> Value:
  if op.get_attr("batch_dims"):
    raise UnknownSizeError(f"{op.name} gathers by rows")
  places = np.array(numbers(indices), int).reshape(indices.shape)
  return np.take(x, places, _number(axis))


@_one("Squeeze")
def _squeeze(op: tf.Operation, x: Value) -> Value:
  named = tuple(op.get_attr("squeeze_dims"))
  return np.squeeze(x, named or None)


@_one("Fill")
def _fill(op: tf.Operation, shape: Value, x: Value) -> Value:
  sizes = numbers(shape)
  if np.prod(sizes) > MOST_ENTRIES:
    raise UnknownSizeError(f"{op.name} is no shape")
  result = np.empty(sizes, object)
  result[...] = x
  return result


@_one("Range")
def _range(op: tf.Operation, start: Value, limit: Value, step: Value) -> Value:
  entries = range(_number(start), _number(limit), _number(step))
  if len(entries) > MOST_ENTRIES:
    raise UnknownSizeError(f"{op.name} is no shape")
  return value_of(list(entries))


@_kernel("Switch")
def _switch(op: tf.Operation, inputs: Sequence[Value]) -> list[Value]:
  return [inputs[0], inputs[0]]


@_kernel("Unpack")
def _unpack(op: tf.Operation, inputs: Sequence[Value]) -> list[Value]:
  axis = op.get_attr("axis")
  rows = np.moveaxis(inputs[0], axis, 0)
  return [rows[i : i + 1].reshape(rows.shape[1:]) for i in range(len(rows))]


@_kernel("Split")
def _split(op: tf.Operation, inputs: Sequence[Value]) -> list[Value]:
  return [*np.split(inputs[1], len(op.outputs), _number(inputs[0]))]


@_kernel("SplitV")
def _split_by_sizes(op: tf.Operation, inputs: Sequence[Value]) -> list[Value]:
  sizes, axis = numbers(inputs[1]), _number(inputs[2])
  if -1 in sizes:
    left = inputs[0].shape[axis] - sum(x for x in sizes if x != -1)
    sizes[sizes.index(-1)] = left
  return [*np.split(inputs[0], np.cumsum(sizes)[:-1], axis)]


@_one("Slice")
def _slice(op: tf.Operation, x: Value, begin: Value, size: Value) -> Value:
  bounds = zip(numbers(begin), numbers(size), strict=True)
  return x[
    tuple(slice(i, None if count == -1 else i + count) for i, count in bounds)
  ]


@_one("StridedSlice")
def _strided_slice(
  op: tf.Operation, x: Value, begin: Value, end: Value, stride: Value
) -> Value:
  begins, ends, strides = numbers(begin), numbers(end), numbers(stride)

  def has(mask: str, entry: int) -> bool:
    return bool(op.get_attr(f"{mask}_mask") >> entry & 1)

  index: list[Any] = []
  for i in range(len(begins)):
    if has("ellipsis", i):
      index.append(Ellipsis)
    elif has("new_axis", i):
      index.append(None)
    elif has("shrink_axis", i):
      index.append(begins[i])
    else:
      first = None if has("begin", i) else begins[i]
      last = None if has("end", i) else ends[i]
      index.append(slice(first, last, strides[i]))
  piece = x[tuple(index)]
  return piece if isinstance(piece, np.ndarray) else value_of(piece)


@_one("DynamicStitch")
def _stitch(op: tf.Operation, *read: Value) -> Value:
  half = len(read) // 2
  entries: dict[int, Size] = {}
  for places, values in zip(read[:half], read[half:], strict=True):
    entries.update(zip(numbers(places), np.ravel(values), strict=True))
  if set(entries) != set(range(len(entries))):
    raise UnknownSizeError(f"{op.name} leaves places open")
  return value_of([entries[i] for i in range(len(entries))])


@_kernel("ConcatOffset")
def _offsets(op: tf.Operation, inputs: Sequence[Value]) -> list[Value]:
  axis, begin = _number(inputs[0]), 0
  offsets = []
  for shape in inputs[1:]:
    offset: list[Size] = [0] * len(shape)
    offset[axis] = begin
    offsets.append(value_of(offset))
    begin = begin + shape[axis]
  return offsets
