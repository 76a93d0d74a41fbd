"""Micro-batches: a batch, cut into slices that flow through the stages.

GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using
Pipeline Parallelism", 2019.
"""

import copy
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_mp.sharding_options import BatchAxis

import tensorflow as tf

_Composite = (tf.SparseTensor, tf.RaggedTensor)


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
    shares: Each micro-batch's part of the examples, for means: the same number
      for all, or scalar float32 tensors, if only the session knows. Their sum
      is 1.
    factors: What each micro-batch counts in sums: the same number or scalar
      float32 tensors, which are 0 for a micro-batch that stands in for one
      without examples, and 1 for others.
    size: The number of examples of each, if the graph knows it.
    num_replicas: How many replicas they are for.
  """

  inputs: tuple[Any, ...]
  cut: tuple[BatchInput, ...]
  shares: tuple[float, ...] | tuple[tf.Tensor, ...]
  factors: tuple[float, ...] | tuple[tf.Tensor, ...]
  size: int | None = None
  num_replicas: int = 1


@dataclasses.dataclass(frozen=True)
class _Ranges:
  """Where micro-batches begin, and how long they are: int32 tensors [M]."""

  starts: tf.Tensor
  sizes: tf.Tensor


def split_batch(
  inputs: Any,
  num_micro_batches: int,
  batch_axis: Sequence[BatchAxis] = (),
  num_replicas: int = 1,
) -> MicroBatches:
  """Cuts a batch into slices of equally many examples, in their order.

  A batch that the graph does not know may be of any size: the first slices get
  one example more if the number does not divide it. If there are fewer
  examples than slices, the last example stands in for those that are missing,
  and counts nothing there: many ops cannot do with an empty batch.

  Args:
    inputs: Tensors, SparseTensors and RaggedTensors, nested in dicts, lists
      and tuples; None stays None.
    num_micro_batches: Into how many slices for each replica.
    batch_axis: The axes of the examples, by names such as "features/x"; the
      first expression that is found in a name counts. Axis 0 for others, and
      none for scalars.
    num_replicas: For how many replicas; the slices of each follow each other.

  Raises:
    ValueError: If tensors have different numbers of examples, the number of
      slices does not divide it, or an axis is none of a tensor's.
  """
  leaves = [
    (name, leaf, _axis(name, leaf, batch_axis))
    for name, leaf in _leaves(inputs)
  ]
  examples = _num_examples(leaves, num_micro_batches, num_replicas)
  count = num_micro_batches * num_replicas
  if isinstance(examples, int):
    ranges = None
    shares: Any = [1 / count] * count
    factors: Any = [1.0] * count
  else:
    is_longer = tf.range(count) < examples % count
    sizes = examples // count + tf.cast(is_longer, tf.int32)
    starts = tf.minimum(tf.cumsum(sizes, exclusive=True), examples - 1)
    ranges = _Ranges(starts, tf.maximum(sizes, 1))
    total = tf.cast(examples, tf.float32)
    shares = tf.unstack(tf.cast(sizes, tf.float32) / total, count)
    factors = tf.unstack(tf.cast(tf.minimum(sizes, 1), tf.float32), count)
  pieces = [
    [leaf] * count if axis is None else _cut(leaf, axis, count, ranges)
    for _, leaf, axis in leaves
  ]
  return MicroBatches(
    tuple(
      _rebuilt(inputs, iter([piece[m] for piece in pieces]))
      for m in range(count)
    ),
    tuple(
      BatchInput(name, leaf, tuple(piece), axis)
      for (name, leaf, axis), piece in zip(leaves, pieces, strict=True)
      if axis is not None
    ),
    tuple(shares),
    tuple(factors),
    examples // count if isinstance(examples, int) else None,
    num_replicas,
  )


def explain_shape_error(error: ValueError, batches: MicroBatches) -> None:
  """Says so if a model_fn cannot be built for a micro-batch.

  Args:
    error: What was raised while it was built.
    batches: The micro-batches.

  Raises:
    ValueError: If TensorFlow says that shapes do not fit in an op, and the
      graph knows the size of micro-batches.
  """
  node = re.search(r"\{\{node (\S+)\}\}", str(error))
  if batches.size is None or node is None:
    return
  text = " ".join(str(error).split())
  num_replicas = batches.num_replicas
  what = f"num_micro_batches={len(batches.inputs) // num_replicas}"
  fix = "use num_micro_batches=1"
  if num_replicas > 1:
    what += f" on data:{num_replicas}"
    fix += " and no data axis"
  raise ValueError(
    f"{what} gives model_fn {batches.size} examples at a time, and {node[1]} "
    f"cannot be built for them: {text.rstrip('.')}; let model_fn take the "
    f"number of examples from its features, as in tf.shape(x)[0], or {fix}"
  ) from error


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
  """Yields what is to be cut, with its path as a name."""
  if isinstance(value, dict):
    for key in sorted(value, key=str):
      yield from _leaves(value[key], f"{name}/{key}" if name else str(key))
  elif isinstance(value, list | tuple):
    for index, item in enumerate(value):
      yield from _leaves(item, f"{name}/{index}" if name else str(index))
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
  rank = leaf.shape.rank
  if rank is None:
    raise ValueError(
      f"{name} has an unknown number of dimensions, so it cannot be cut; set "
      "its shape in input_fn"
    )
  for expression, axis in rules:
    if re.search(expression, name):
      if axis is not None and not 0 <= axis < rank:
        raise ValueError(
          f"batch_axis says axis {axis} for {name}, which has the shape "
          f"{leaf.shape}; use an axis that it has, or None if it holds no "
          "examples"
        )
      if axis and isinstance(leaf, _Composite):
        raise ValueError(
          f"batch_axis says axis {axis} for {name}, a {type(leaf).__name__}; "
          "these can be cut on axis 0 only"
        )
      return axis
  return None if rank == 0 else 0


def _num_examples(
  leaves: Sequence[tuple[str, Any, int | None]],
  num_micro_batches: int,
  num_replicas: int,
) -> int | tf.Tensor:
  """Returns the number of examples: a number if the graph knows it."""
  known: dict[int, str] = {}
  for name, leaf, axis in leaves:
    if axis is not None:
      size = leaf.shape.as_list()[axis]
      if size is not None:
        known.setdefault(size, name)
  if len(known) > 1:
    (first, name), (second, other) = list(known.items())[:2]
    raise ValueError(
      f"{name} has {first} examples but {other} has {second}, so the batch "
      f"cannot be cut; if one of them holds no examples, say so: "
      f'batch_axis=[("^{other}$", None)]'
    )
  for size in known:
    _check_divides(size, num_micro_batches, num_replicas)
    return size
  for _, leaf, axis in leaves:
    if axis is not None:
      if isinstance(leaf, tf.SparseTensor):
        return tf.cast(leaf.dense_shape[0], tf.int32)
      if isinstance(leaf, tf.RaggedTensor):
        return tf.cast(leaf.nrows(), tf.int32)
      return tf.shape(leaf)[axis]
  raise ValueError(
    f"num_micro_batches={num_micro_batches}, but features and labels have no "
    "tensor with examples to cut; use num_micro_batches=1"
  )


def _check_divides(size: int, num_micro_batches: int, num_replicas: int):
  """Raises if a batch cannot be cut into equal slices."""
  if size % num_replicas:
    raise ValueError(
      f"data:{num_replicas} does not divide the batch of {size}; use a batch "
      f"of {-(-size // num_replicas) * num_replicas}, or as many replicas as "
      "divide it"
    )
  of_replica = size // num_replicas
  if of_replica % num_micro_batches:
    fitting = [str(n) for n in range(1, of_replica + 1) if of_replica % n == 0]
    start = f"{', '.join(fitting[:-1])} or " if of_replica > 1 else ""
    of = (
      f" that each of {num_replicas} replicas gets" if num_replicas > 1 else ""
    )
    raise ValueError(
      f"num_micro_batches={num_micro_batches} does not divide the batch of "
      f"{of_replica}{of}; use {start}{fitting[-1]}"
    )


def _cut(leaf: Any, axis: int, count: int, ranges: _Ranges | None) -> list[Any]:
  """Returns the pieces of a tensor: as long as each other, or as ranges say."""
  if ranges is None and not isinstance(leaf, _Composite):
    return tf.split(leaf, count, axis)
  if ranges is None:
    # The graph may know the batch by other tensors only.
    size = (
      leaf.nrows() if isinstance(leaf, tf.RaggedTensor) else leaf.dense_shape[0]
    )
    size = tf.cast(size, tf.int32) // count
    ranges = _Ranges(tf.range(count) * size, tf.fill([count], size))
  if isinstance(leaf, tf.RaggedTensor):
    starts = tf.unstack(ranges.starts, count)
    sizes = tf.unstack(ranges.sizes, count)
    return [leaf[starts[m] : starts[m] + sizes[m]] for m in range(count)]
  if isinstance(leaf, tf.SparseTensor):
    begins, lengths = _boxes(ranges, 0, leaf.shape.rank, count, tf.int64)
    ends = tf.cast(leaf.dense_shape[1:], tf.int64)
    return [
      tf.sparse.slice(leaf, begins[m], tf.concat([lengths[m][:1], ends], 0))
      for m in range(count)
    ]
  begins, lengths = _boxes(ranges, axis, leaf.shape.rank, count, tf.int32)
  pieces = [tf.slice(leaf, begins[m], lengths[m]) for m in range(count)]
  shape = leaf.shape.as_list()
  shape[axis] = None
  for piece in pieces:
    piece.set_shape(shape)
  return pieces


def _boxes(
  ranges: _Ranges, axis: int, rank: int, count: int, dtype: tf.DType
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
  """Returns where slices begin, and their lengths, -1 for what is left."""
  found = []
  for values, other in ((ranges.starts, 0), (ranges.sizes, -1)):
    rest = tf.fill([count], other)
    columns = [values if i == axis else rest for i in range(rank)]
    found.append(tf.unstack(tf.cast(tf.stack(columns, 1), dtype), count))
  return found[0], found[1]
