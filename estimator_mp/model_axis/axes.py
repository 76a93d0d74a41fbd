"""Axes: the dimensions of tensors that a graph knows, and their mapping by ops.

Most graphs leave the batch open. So sizes are compared as far as they are
known: as numbers, or as the same unknown dimension of the same tensor.
"""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from estimator_mp.graph import shapes
from estimator_mp.model_axis.decisions import Shard, Shards

import numpy as np
import tensorflow as tf

# A size: a number, a certain dimension of a certain tensor, or not known.
Dimension: TypeAlias = int | tuple[str, int] | None


def size(tensor: tf.Tensor, axis: int) -> int | None:
  """Returns the size of a dimension; None if it, or the rank, is not known.

  Args:
    tensor: A tensor.
    axis: The dimension, from 0; there may be none of this number.
  """
  found = dimensions(tensor)
  if found is None or not 0 <= axis < len(found):
    return None
  length = found[axis]
  return length if isinstance(length, int) else None


def named_size(vector: tf.Tensor, index: int) -> int | None:
  """Returns the size that an element of a shape names; None if not known.

  Args:
    vector: The shape, as a tensor.
    index: Which element.

  Returns:
    The size; -1 for what follows from other sizes.
  """
  value = shapes.constant(vector)
  if value is not None:
    return int(np.ravel(value)[index])
  rank = vector.shape.num_elements()
  if rank is None:
    return None
  size = named_dimensions(vector, [None] * rank)[index]
  return size if isinstance(size, int) else None


def constant_axes(tensor: tf.Tensor, rank: int | None) -> list[int] | None:
  """Returns dimensions that a tensor names, from 0.

  Args:
    tensor: A scalar or a vector; negative numbers count from the last.
    rank: The number of dimensions that there are.

  Returns:
    The dimensions, or None if they are not known.
  """
  values = shapes.constant(tensor)
  if values is None or rank is None:
    return None
  return [int(axis) % rank for axis in np.ravel(values)]


def last(tensor: tf.Tensor, count: int) -> range | None:
  """Returns the last dimensions of a tensor; None if they are not known.

  Args:
    tensor: A tensor.
    count: How many.
  """
  rank = tensor.shape.rank
  return None if rank is None else range(rank - count, rank)


def only(splits: Shards) -> Shard | None:
  """Returns the one split that all have that are split; None if they differ.

  Args:
    splits: How tensors are split, None for those that are whole.
  """
  found = {split for split in splits if split is not None}
  return found.pop() if len(found) == 1 else None


def dimensions(tensor: tf.Tensor) -> list[Dimension] | None:
  """Returns the dimensions of a tensor; None if their number is not known.

  Args:
    tensor: A tensor.
  """
  sizes: Sequence[Dimension] | None = shapes.static_shape(tensor)
  if sizes is None:
    return None
  if tensor.op.type == "Reshape" and None in sizes:
    sizes = named_dimensions(tensor.op.inputs[1], sizes)
  return [
    (tensor.name, axis) if length is None else length
    for axis, length in enumerate(sizes)
  ]


def named_dimensions(
  vector: tf.Tensor, known: Sequence[Dimension]
) -> list[Dimension]:
  """Returns the dimensions that a shape names.

  Args:
    vector: The shape, as a tensor.
    known: The dimensions as far as they are known; None for others.
  """
  of = _named(vector)
  if of is None or len(of) != len(known):
    return list(known)
  return [
    found if length is None else length
    for found, length in zip(of, known, strict=True)
  ]


def _named(vector: tf.Tensor) -> list[Dimension] | None:
  """Returns the dimensions that a vector has; None if it may be any number."""
  op = vector.op
  value = shapes.constant(vector)
  if value is not None:
    return [int(length) if length >= 0 else None for length in np.ravel(value)]
  if op.type in ("Cast", "Identity"):
    return _named(op.inputs[0])
  if op.type == "Shape":
    return dimensions(op.inputs[0])
  if op.type == "Pack":
    return [_named_dimension(element) for element in op.inputs]
  if op.type == "ConcatV2":
    read = [_named(part) for part in op.inputs[:-1]]
    known = [part for part in read if part is not None]
    joined = [length for part in known for length in part]
    return joined if len(known) == len(read) else None
  if op.type == "Slice":
    of, (begin, length) = (
      _named(op.inputs[0]),
      map(shapes.constant, op.inputs[1:]),
    )
    if of is None or begin is None or length is None:
      return None
    first, count = int(begin[0]), int(length[0])
    return of[first : len(of) if count < 0 else first + count]
  if op.type == "GatherV2":
    of, indices = _named(op.inputs[0]), shapes.constant(op.inputs[1])
    if of is None or indices is None or op.get_attr("batch_dims"):
      return None
    return [of[index] for index in np.ravel(indices)]
  return None


def _named_dimension(element: tf.Tensor) -> Dimension:
  """Returns the dimension that a scalar is the size of."""
  op = element.op
  value = shapes.constant(element)
  if value is not None:
    return int(value) if value >= 0 else None
  if op.type in ("Identity", "Cast"):
    return _named_dimension(op.inputs[0])
  if op.type == "Prod":
    lengths = _named(op.inputs[0])
    return None if lengths is None else _product(lengths)
  if op.type != "StridedSlice" or not op.get_attr("shrink_axis_mask"):
    return None
  of, begin = _named(op.inputs[0]), shapes.constant(op.inputs[1])
  if of is None or begin is None or begin.size != 1:
    return None
  index = int(begin[0])
  return of[index] if -len(of) <= index < len(of) else None


def _product(lengths: Sequence[Dimension]) -> Dimension:
  """Returns how many entries dimensions have, if all are numbers, or one is."""
  numbers = [length for length in lengths if isinstance(length, int)]
  if len(numbers) == len(lengths):
    return math.prod(numbers)
  return lengths[0] if len(lengths) == 1 else None


def reshaped(
  before: Sequence[Dimension], after: Sequence[Dimension], split: Shard
) -> Shard | None:
  """Returns how a tensor is split once its shape is another.

  Parts of a dimension are the same entries as parts of another if the tensor
  has as many periods of both, and parts end where entries of the other do:
  heads of 64 in [batch, length, 768] and in [batch, length, 12, 64].

  Args:
    before: The dimensions of the tensor.
    after: The dimensions that it gets.
    split: How it is split.

  Returns:
    How it is split then; None if the parts cannot be shown to be parts then.
  """
  axis = split.axis
  for index, length in enumerate(after):
    if not isinstance(length, int):
      continue
    inner = _ratio(before[axis + 1 :], after[index + 1 :])
    if inner is None and length == split.size:
      inner = _ratio(before[:axis], after[:index])
      inner = inner if inner == 1 else None
    if inner is None or split.size * inner != length:
      continue
    sizes = [own * inner for own in split.sizes]
    if all(own.denominator == 1 for own in sizes):
      return Shard(index, tuple(int(own) for own in sizes))
  return None


def _ratio(
  some: Sequence[Dimension], others: Sequence[Dimension]
) -> Fraction | None:
  """Returns how many times as many entries some dimensions have as others."""
  if None in some or None in others:
    return None
  numbers = [
    math.prod(length for length in lengths if isinstance(length, int))
    for lengths in (some, others)
  ]
  names = [
    Counter(length for length in lengths if isinstance(length, tuple))
    for lengths in (some, others)
  ]
  if 0 in numbers or names[0] != names[1]:
    return None
  return Fraction(*numbers)
