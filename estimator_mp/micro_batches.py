"""Micro-batches: a batch, cut into slices that flow through the stages.

GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using
Pipeline Parallelism", 2019.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

# An expression for names such as "features/x", and the axis of its examples;
# None for a tensor that belongs to the whole batch.
BatchAxis: TypeAlias = tuple[str, int | None]

_Composite = (tf.SparseTensor, tf.RaggedTensor)


@dataclasses.dataclass(frozen=True)
class MicroBatches:
  """A batch in slices.

  Attributes:
    inputs: What was cut, as nested as it was, for each micro-batch.
    weights: Each micro-batch's part of the examples: the same number for all,
      or scalar float32 tensors, if only the session knows. Their sum is 1.
  """

  inputs: tuple[Any, ...]
  weights: tuple[float | tf.Tensor, ...]

  @property
  def is_even(self) -> bool:
    """Whether all micro-batches are known to have equally many examples."""
    return not tf.is_tensor(self.weights[0])


def check_batch_axis(rules: Any) -> tuple[BatchAxis, ...]:
  """Returns rules for axes as tuples, if they are well-formed.

  Args:
    rules: Pairs of a regular expression and an axis or None.

  Raises:
    ValueError: If they are not.
  """
  found = []
  for rule in rules:
    is_pair = isinstance(rule, list | tuple) and len(rule) == 2
    if not (
      is_pair
      and isinstance(rule[0], str)
      and (rule[1] is None or type(rule[1]) is int)
    ):
      raise ValueError(
        f"batch_axis has {rule!r}, which is no pair of an expression and an "
        'axis; write pairs such as ("features/mask", None)'
      )
    try:
      re.compile(rule[0])
    except re.error as error:
      raise ValueError(
        f"batch_axis has {rule[0]!r}, which is no regular expression: {error}"
      ) from error
    found.append((rule[0], rule[1]))
  return tuple(found)


def split_batch(
  inputs: Any, num_micro_batches: int, batch_axis: Sequence[BatchAxis] = ()
) -> MicroBatches:
  """Cuts a batch into slices of equally many examples, in their order.

  A batch that the graph does not know may be of any size: the first slices get
  one example more if the number does not divide it, and the last ones none if
  there are too few.

  Args:
    inputs: Tensors, SparseTensors and RaggedTensors, nested in dicts, lists
      and tuples; None stays None.
    num_micro_batches: Into how many slices.
    batch_axis: The axes of the examples, by names such as "features/x"; the
      first expression that is found in a name counts. Axis 0 for others, and
      none for scalars.

  Raises:
    ValueError: If tensors have different numbers of examples, the number of
      slices does not divide it, or an axis is none of a tensor's.
  """
  leaves = [
    (name, leaf, _axis(name, leaf, batch_axis)) for name, leaf in _leaves(inputs)
  ]
  examples = _num_examples(leaves, num_micro_batches)
  if isinstance(examples, int):
    sizes: Any = [examples // num_micro_batches] * num_micro_batches
    weights: list[Any] = [1 / num_micro_batches] * num_micro_batches
  else:
    sizes = _even_sizes(examples, num_micro_batches)
    parts = tf.cast(sizes, tf.float32) / tf.cast(examples, tf.float32)
    weights = tf.unstack(parts, num_micro_batches)
  pieces = [
    [leaf] * num_micro_batches if axis is None else _cut(leaf, axis, sizes)
    for _, leaf, axis in leaves
  ]
  return MicroBatches(
    tuple(
      _rebuilt(inputs, iter([piece[m] for piece in pieces]))
      for m in range(num_micro_batches)
    ),
    tuple(weights),
  )


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
    found = {key: _rebuilt(value[key], pieces) for key in sorted(value, key=str)}
    return type(value)((key, found[key]) for key in value)
  if isinstance(value, tuple) and hasattr(value, "_fields"):
    return type(value)(*(_rebuilt(item, pieces) for item in value))
  if isinstance(value, list | tuple):
    return type(value)(_rebuilt(item, pieces) for item in value)
  return None if value is None else next(pieces)


def _axis(name: str, leaf: Any, rules: Sequence[BatchAxis]) -> int | None:
  """Returns the axis of a tensor's examples; None if it has none."""
  rank = leaf.shape.rank
  for expression, axis in rules:
    if re.search(expression, name):
      if axis is not None and not 0 <= axis < (axis + 1 if rank is None else rank):
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
  leaves: Sequence[tuple[str, Any, int | None]], num_micro_batches: int
) -> int | tf.Tensor:
  """Returns the number of examples: a number if the graph knows it."""
  known: dict[int, str] = {}
  for name, leaf, axis in leaves:
    if axis is not None and leaf.shape.rank is not None:
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
    if size % num_micro_batches:
      fitting = [str(n) for n in range(1, size + 1) if size % n == 0]
      raise ValueError(
        f"num_micro_batches={num_micro_batches} does not divide the batch of "
        f"{size}; use {', '.join(fitting[:-1])} or {fitting[-1]}"
      )
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


def _even_sizes(examples: tf.Tensor, num_micro_batches: int) -> tf.Tensor:
  """Returns an int32 vector: sizes that differ by one at most."""
  is_longer = tf.range(num_micro_batches) < examples % num_micro_batches
  return examples // num_micro_batches + tf.cast(is_longer, tf.int32)


def _cut(leaf: Any, axis: int, sizes: Any) -> list[Any]:
  """Returns the pieces of a tensor."""
  if not isinstance(leaf, _Composite):
    if isinstance(sizes, list):
      return tf.split(leaf, len(sizes), axis)
    return tf.split(leaf, sizes, axis, num=int(sizes.shape[0]))
  count = len(sizes) if isinstance(sizes, list) else int(sizes.shape[0])
  ends = tf.cumsum(tf.cast(sizes, tf.int64))
  starts = tf.concat([[tf.constant(0, tf.int64)], ends[:-1]], 0)
  if isinstance(leaf, tf.RaggedTensor):
    return [leaf[starts[m] : ends[m]] for m in range(count)]
  rest = leaf.dense_shape[1:]
  return [
    tf.sparse.slice(
      leaf,
      tf.concat([starts[m : m + 1], tf.zeros_like(rest)], 0),
      tf.concat([(ends - starts)[m : m + 1], rest], 0),
    )
    for m in range(count)
  ]
