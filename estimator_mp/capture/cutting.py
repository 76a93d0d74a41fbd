"""Cutting: a tensor with examples, and the slices that it is cut into."""

import dataclasses
from typing import Any

from estimator_mp.capture import batch_size

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Slices:
  """Where micro-batches begin, and how long they are.

  Attributes:
    count: How many there are.
    mean_weights: As in `MicroBatches`.
    sum_weights: As in `MicroBatches`.
    size: The number of examples of each, if the graph knows it.
    ranges: Otherwise where they begin, and their sizes: int32 tensors [count].
  """

  count: int
  mean_weights: tuple[float, ...] | tuple[tf.Tensor, ...]
  sum_weights: tuple[float, ...] | tuple[tf.Tensor, ...]
  size: int | None
  ranges: tuple[tf.Tensor, tf.Tensor] | None


def slices_of(whole: batch_size.BatchSize, count: int) -> Slices:
  """Returns the slices of a batch: equal ones, if the graph knows its size.

  Args:
    whole: The size of the batch; if the graph knows it, the number of slices
      divides it.
    count: How many slices there are to be.
  """
  if whole.known is not None:
    size = whole.known // count
    return Slices(count, (1 / count,) * count, (1.0,) * count, size, None)
  examples: Any = whole.checked
  is_longer = tf.range(count) < examples % count
  sizes = examples // count + tf.cast(is_longer, tf.int32)
  starts = tf.minimum(tf.cumsum(sizes, exclusive=True), examples - 1)
  mean_weights = tf.cast(sizes, tf.float32) / tf.cast(examples, tf.float32)
  sum_weights = tf.cast(tf.minimum(sizes, 1), tf.float32)
  return Slices(
    count,
    tuple(tf.unstack(mean_weights, count)),
    tuple(tf.unstack(sum_weights, count)),
    None,
    (starts, tf.maximum(sizes, 1)),
  )


def pieces_of(entry: batch_size.Input, slices: Slices) -> list[Any]:
  """Returns the pieces of an input.

  The graph knows of their shapes what it knows of the input's.

  Args:
    entry: An input with examples.
    slices: Where to cut.
  """
  value, axis = entry.value, entry.axis or 0
  if isinstance(value, tf.RaggedTensor):
    return _ragged_pieces(value, slices)
  if isinstance(value, tf.SparseTensor):
    return _sparse_pieces(value, slices)
  if slices.ranges is None:
    return list(tf.split(value, slices.count, axis))
  return dense_pieces(value, axis, slices.ranges)


def dense_pieces(
  value: tf.Tensor, axis: int, ranges: tuple[tf.Tensor, tf.Tensor]
) -> list[tf.Tensor]:
  """Returns pieces of a tensor that begin, and are as long, as ranges say.

  Args:
    value: The tensor.
    axis: The axis of its examples.
    ranges: Where pieces begin, and their sizes: int32 tensors [count].
  """
  boxes = [
    _boxes(numbers, axis, value.shape.rank, other)
    for numbers, other in zip(ranges, (0, -1), strict=True)
  ]
  pieces = [tf.slice(value, *box) for box in zip(*boxes, strict=True)]
  shape = value.shape.as_list()
  shape[axis] = None
  for piece in pieces:
    piece.set_shape(shape)
  return pieces


def _boxes(
  numbers: tf.Tensor, axis: int, rank: int, other: int
) -> list[tf.Tensor]:
  """Returns vectors for all dimensions: a number for one, another for all."""
  rest = tf.fill(tf.shape(numbers), other)
  columns = [numbers if i == axis else rest for i in range(rank)]
  return list(tf.unstack(tf.stack(columns, 1), int(numbers.shape[0])))


def _rows(slices: Slices, dtype: tf.DType) -> list[tuple[Any, Any]]:
  """Returns the first row of each slice, and how many it has."""
  if slices.ranges is None:
    size = slices.size or 0
    return [(m * size, size) for m in range(slices.count)]
  starts, sizes = (
    tf.unstack(tf.cast(numbers, dtype), slices.count)
    for numbers in slices.ranges
  )
  return [*zip(starts, sizes, strict=True)]


def _ragged_pieces(
  value: tf.RaggedTensor, slices: Slices
) -> list[tf.RaggedTensor]:
  pieces = []
  for start, rows in _rows(slices, value.row_splits.dtype):
    piece = value[start : start + rows]
    if value.uniform_row_length is not None:
      piece = tf.RaggedTensor.from_uniform_row_length(
        piece.values, value.uniform_row_length, slices.size, validate=False
      )
    elif slices.size is not None:
      piece.row_splits.set_shape([slices.size + 1])
    pieces.append(piece)
  return pieces


def _sparse_pieces(
  value: tf.SparseTensor, slices: Slices
) -> list[tf.SparseTensor]:
  others = [
    value.dense_shape[i] if dimension is None else dimension
    for i, dimension in enumerate(value.shape.as_list())
  ][1:]
  pieces = []
  for start, rows in _rows(slices, tf.int64):
    begin = tf.convert_to_tensor([start] + [0] * len(others), tf.int64)
    # One for each reader: what micro-batches differ in must not make them.
    shape, of_piece = (
      tf.convert_to_tensor([rows, *others], tf.int64) for _ in range(2)
    )
    piece = tf.sparse.slice(value, begin, shape)
    pieces.append(tf.SparseTensor(piece.indices, piece.values, of_piece))
  return pieces
