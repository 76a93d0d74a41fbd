"""Micro-batches: a batch, cut into slices that flow through the stages.

GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using
Pipeline Parallelism", 2019.
"""

import copy
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_mp.capture import batch_size
from estimator_mp.config.sharding_options import BatchAxis

import numpy as np
import tensorflow as tf

# What an input may be besides tensors: the same for all micro-batches.
_Constant = (bool, bytes, complex, float, int, str, np.generic)


@dataclasses.dataclass(frozen=True)
class BatchInput:
  """An input that was cut.

  Attributes:
    name: Its path, such as "features/x".
    whole: All examples: a Tensor, SparseTensor or RaggedTensor.
    slices: Those of each micro-batch.
    axis: The axis of the examples.
  """

  name: str
  whole: Any
  slices: tuple[Any, ...]
  axis: int


@dataclasses.dataclass(frozen=True)
class MicroBatches:
  """A batch in slices.

  Attributes:
    inputs: What was cut, as nested as it was, for each micro-batch.
    cut: The inputs with examples, one by one.
    mean_weights: Each micro-batch's part of the examples, for means: the same
      number for all, or scalar float32 tensors, if only the session knows.
      Their sum is 1.
    sum_weights: What each micro-batch counts in sums: the same number or scalar
      float32 tensors, which are 0 for a micro-batch that stands in for one
      without examples, and 1 for others.
    size: The number of examples of each, if the graph knows it.
    num_replicas: How many replicas they are for.
    num_rounds: In how many rounds each replica's go through the stages.
    whole: The number of examples of the batch.
  """

  inputs: tuple[Any, ...]
  cut: tuple[BatchInput, ...]
  mean_weights: tuple[float, ...] | tuple[tf.Tensor, ...]
  sum_weights: tuple[float, ...] | tuple[tf.Tensor, ...]
  size: int | None
  num_replicas: int
  num_rounds: int
  whole: batch_size.BatchSize

  def cutting(self) -> str:
    """Returns what cuts the batch, as a configuration says it."""
    count = len(self.inputs) // self.num_replicas
    return _cutting(count, self.num_rounds) + (
      f" on data:{self.num_replicas}" if self.num_replicas > 1 else ""
    )

  def without_cutting(self) -> str:
    """Returns what to use for a model that needs the batch as a whole."""
    return (
      "num_micro_batches=1"
      + (" without gradient_accumulation_steps" if self.num_rounds > 1 else "")
      + (" and no data axis" if self.num_replicas > 1 else "")
      + self.whole.advice()
    )


@dataclasses.dataclass(frozen=True)
class _Slices:
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


def split_batch(
  inputs: Any,
  num_micro_batches: int,
  batch_axis: Sequence[BatchAxis] = (),
  num_replicas: int = 1,
  num_rounds: int = 1,
  host: str = "",
) -> MicroBatches:
  """Cuts a batch into slices of equally many examples, in their order.

  A batch that the graph does not know may be of any size: the first slices get
  one example more if the number does not divide it. If there are fewer
  examples than slices, the last example stands in for those that are missing,
  and counts nothing there: many ops cannot do with an empty batch.

  What the graph does not know of sizes is checked in each step, which fails if
  inputs differ in their numbers of examples, or have none.

  Args:
    inputs: Tensors, SparseTensors and RaggedTensors, nested in dicts, lists
      and tuples; None, numbers and text stay as they are.
    num_micro_batches: Into how many slices for each replica.
    batch_axis: The axes of the examples, by names such as "features/x"; the
      first expression that is found in a name counts. Axis 0 for others, and
      none for scalars.
    num_replicas: For how many replicas; the slices of each follow each other.
    num_rounds: In how many rounds each replica's go through the stages.
    host: The device that compares sizes in each step.

  Raises:
    ValueError: If tensors have different numbers of examples, the number of
      slices does not divide it, or an axis is none of a tensor's.
  """
  count = num_micro_batches * num_replicas
  with (  # So that the model's ops keep their names.
    tf.compat.v1.name_scope(None),
    tf.compat.v1.name_scope("estimator_mp/split"),
  ):
    entries = [
      batch_size.Input(name, leaf, _axis(name, leaf, batch_axis))
      for name, leaf in _leaves(inputs)
    ]
    with_examples = [entry for entry in entries if entry.axis is not None]
    if not with_examples:
      raise ValueError(
        f"{_cutting(num_micro_batches, num_rounds)}, but features and labels "
        "have no tensor with examples to cut; use num_micro_batches=1"
      )
    whole = batch_size.batch_size(with_examples, host)
    if whole.known is not None:
      _check_divides(whole, num_micro_batches, num_replicas, num_rounds)
    slices = _slices(whole, count)
    # Slices of any size wait for the number of examples already.
    is_doubtful = whole.known is not None and whole.checked is not None
    with tf.control_dependencies([whole.checked] if is_doubtful else []):
      pieces = [_pieces(entry, count, slices) for entry in entries]
  return MicroBatches(
    tuple(
      _rebuilt(inputs, iter([piece[m] for piece in pieces]))
      for m in range(count)
    ),
    tuple(
      BatchInput(entry.name, entry.value, tuple(piece), entry.axis)
      for entry, piece in zip(entries, pieces, strict=True)
      if entry.axis is not None
    ),
    slices.mean_weights,
    slices.sum_weights,
    slices.size,
    num_replicas,
    num_rounds,
    whole,
  )


def _cutting(num_micro_batches: int, num_rounds: int) -> str:
  """Returns what cuts the batch of a replica into so many micro-batches."""
  if num_rounds == 1:
    return f"num_micro_batches={num_micro_batches}"
  return (
    f"num_micro_batches={num_micro_batches // num_rounds} with "
    f"gradient_accumulation_steps={num_rounds}"
  )


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
  """Yields what is to be cut, with its path as a name."""
  if isinstance(value, dict):
    for key in sorted(value, key=str):
      yield from _leaves(value[key], f"{name}/{key}" if name else str(key))
  elif isinstance(value, list | tuple):
    for index, item in enumerate(value):
      yield from _leaves(item, f"{name}/{index}" if name else str(index))
  elif isinstance(value, np.ndarray):
    yield name, tf.convert_to_tensor(value)
  elif value is not None:
    yield name, value


def _rebuilt(value: Any, pieces: Iterator[Any]) -> Any:
  """Returns a structure with other leaves, in the order of `_leaves`."""
  if isinstance(value, dict):
    found = {
      key: _rebuilt(value[key], pieces) for key in sorted(value, key=str)
    }
    new = copy.copy(value)
    new.update(found)
    return new
  if isinstance(value, tuple) and hasattr(value, "_fields"):
    return type(value)(*(_rebuilt(item, pieces) for item in value))
  if isinstance(value, list | tuple):
    return type(value)(_rebuilt(item, pieces) for item in value)
  return None if value is None else next(pieces)


def _axis(name: str, leaf: Any, rules: Sequence[BatchAxis]) -> int | None:
  """Returns the axis of a tensor's examples; None if it has none."""
  if isinstance(leaf, _Constant):
    return None
  if not tf.is_tensor(leaf):
    raise ValueError(
      f"{name} is a {type(leaf).__name__}, which cannot be cut; let input_fn "
      "return tensors, nested in dicts, lists and tuples"
    )
  rank = leaf.shape.rank
  said = [axis for expression, axis in rules if re.search(expression, name)]
  axis = said[0] if said else 0
  if axis is None or (rank == 0 and not said):
    return None
  if rank is None:
    raise ValueError(
      f"{name} has an unknown number of dimensions, so it cannot be cut; set "
      "its shape in input_fn"
    )
  if not 0 <= axis < rank:
    raise ValueError(
      f"batch_axis says axis {axis} for {name}, which has the shape "
      f"{leaf.shape}; use an axis that it has, or None if it holds no examples"
    )
  if axis and isinstance(leaf, batch_size.COMPOSITES):
    raise ValueError(
      f"batch_axis says axis {axis} for {name}, a {type(leaf).__name__}; these "
      "can be cut on axis 0 only"
    )
  return axis


def _check_divides(
  whole: batch_size.BatchSize,
  num_micro_batches: int,
  num_replicas: int,
  num_rounds: int,
) -> None:
  """Raises if a batch whose size the graph knows has no equal slices."""
  size = whole.known or 0
  if size % num_replicas:
    raise ValueError(
      f"data:{num_replicas} does not divide the batch of {size}; use a batch "
      f"of {-(-size // num_replicas) * num_replicas}, or as many replicas as "
      f"divide it{whole.advice()}"
    )
  of_replica = size // num_replicas
  if of_replica % num_micro_batches:
    fitting = [str(n) for n in range(1, of_replica + 1) if of_replica % n == 0]
    start = f"{', '.join(fitting[:-1])} or " if of_replica > 1 else ""
    of = (
      f" that each of {num_replicas} replicas gets" if num_replicas > 1 else ""
    )
    fix = "use" if num_rounds == 1 else "let their product be"
    raise ValueError(
      f"{_cutting(num_micro_batches, num_rounds)} does not divide the batch of "
      f"{of_replica}{of}; {fix} {start}{fitting[-1]}{whole.advice()}"
    )


def _slices(whole: batch_size.BatchSize, count: int) -> _Slices:
  """Returns the slices of a batch: equal ones, if the graph knows its size."""
  if whole.known is not None:
    size = whole.known // count
    return _Slices(count, (1 / count,) * count, (1.0,) * count, size, None)
  examples: Any = whole.checked
  is_longer = tf.range(count) < examples % count
  sizes = examples // count + tf.cast(is_longer, tf.int32)
  starts = tf.minimum(tf.cumsum(sizes, exclusive=True), examples - 1)
  mean_weights = tf.cast(sizes, tf.float32) / tf.cast(examples, tf.float32)
  sum_weights = tf.cast(tf.minimum(sizes, 1), tf.float32)
  return _Slices(
    count,
    tuple(tf.unstack(mean_weights, count)),
    tuple(tf.unstack(sum_weights, count)),
    None,
    (starts, tf.maximum(sizes, 1)),
  )


def _pieces(entry: batch_size.Input, count: int, slices: _Slices) -> list[Any]:
  """Returns the pieces of an input.

  The graph knows of their shapes what it knows of the input's.
  """
  value, axis = entry.value, entry.axis
  if axis is None:
    return [value] * slices.count
  if isinstance(value, tf.RaggedTensor):
    return _ragged_pieces(value, slices)
  if isinstance(value, tf.SparseTensor):
    return _sparse_pieces(value, slices)
  if slices.ranges is None:
    return list(tf.split(value, slices.count, axis))
  boxes = [
    _boxes(numbers, axis, value.shape.rank, other)
    for numbers, other in zip(slices.ranges, (0, -1), strict=True)
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


def _rows(slices: _Slices, dtype: tf.DType) -> list[tuple[Any, Any]]:
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
  value: tf.RaggedTensor, slices: _Slices
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
  value: tf.SparseTensor, slices: _Slices
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
