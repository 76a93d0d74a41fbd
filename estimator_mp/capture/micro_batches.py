"""Micro-batches: a batch, cut into slices that flow through the stages.

GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks using
Pipeline Parallelism", 2019.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from estimator_mp.capture import (
  batch_size,
  cutting,
  nested_inputs,
  replica_batches,
)
from estimator_mp.config.sharding_options import BatchAxis

import tensorflow as tf


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
class Parts:
  """Where parts of a batch begin, for tensors that are cut later.

  Attributes:
    count: How many parts there are.
    ranges: Where they begin, and their sizes: int32 tensors [count]; None if
      all are of the same size, which the graph knows.
    size: The number of examples of the batch.
  """

  count: int
  ranges: tuple[tf.Tensor, tf.Tensor] | None
  size: int | tf.Tensor

  def cut(
    self, tensor: tf.Tensor, axis: int, per_example: int
  ) -> list[tf.Tensor]:
    """Returns the parts of a tensor.

    Args:
      tensor: A tensor with examples.
      axis: Their axis.
      per_example: How long it is for each of them.
    """
    if self.ranges is None:
      return list(tf.split(tensor, self.count, axis))
    ranges = [numbers * per_example for numbers in self.ranges]
    return cutting.dense_pieces(tensor, axis, (ranges[0], ranges[1]))

  def join(
    self, pieces: Sequence[tf.Tensor], axis: int, per_example: int, rank: int
  ) -> tf.Tensor:
    """Returns what parts make together, without what stands in for examples.

    Args:
      pieces: What each part makes.
      axis: The axis of the examples.
      per_example: How long it is for each of them.
      rank: The number of dimensions.
    """
    whole = tf.concat(pieces, axis)
    if self.ranges is None:
      return whole
    sizes = [-1] * rank
    sizes[axis] = per_example * self.size
    return tf.slice(whole, [0] * len(sizes), tf.stack(sizes))


def inputs_with_examples(
  inputs: Any, batch_axis: Sequence[BatchAxis] = ()
) -> list[BatchInput]:
  """Returns what has examples of features and labels, whole.

  Args:
    inputs: Features and labels, nested.
    batch_axis: As for `split_batch`.
  """
  return [
    BatchInput(name, leaf, (leaf,), axis)
    for name, leaf in nested_inputs.leaves(inputs)
    if tf.is_tensor(leaf)
    and (axis := nested_inputs.axis_of(name, leaf, batch_axis)) is not None
  ]


def known_size(inputs: Sequence[BatchInput]) -> int | None:
  """Returns how many examples inputs have; None if the graph does not know.

  Args:
    inputs: Inputs with examples.
  """
  sizes = {batch_size.Input(x.name, x.whole, x.axis).size for x in inputs}
  return sizes.pop() if len(sizes) == 1 else None


def parts_of_batch(
  inputs: Sequence[BatchInput], count: int, host: str = ""
) -> Parts:
  """Returns where parts of a batch begin.

  What the graph does not know of sizes is checked in each step.

  Args:
    inputs: Inputs with examples, at least one.
    count: How many parts there are to be.
    host: The device that compares sizes in each step.

  Raises:
    ValueError: If inputs have different numbers of examples, or none.
  """
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/split"),
  ):
    whole = batch_size.batch_size(
      [batch_size.Input(x.name, x.whole, x.axis) for x in inputs], host
    )
    if whole.known is not None and whole.checked is None:
      if whole.known % count == 0:
        return Parts(count, None, whole.known)
      whole = dataclasses.replace(whole, checked=tf.constant(whole.known))
    slices = cutting.slices_of(dataclasses.replace(whole, known=None), count)
    if slices.ranges is None or whole.checked is None:
      raise ValueError("a batch of an unknown size has no ranges")
    return Parts(count, slices.ranges, whole.checked)


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
      batch_size.Input(
        name, leaf, nested_inputs.axis_of(name, leaf, batch_axis)
      )
      for name, leaf in nested_inputs.leaves(inputs)
    ]
    with_examples = [entry for entry in entries if entry.axis is not None]
    if not with_examples:
      raise ValueError(
        f"{_cutting(num_micro_batches, num_rounds)}, but features and labels "
        "have no tensor with examples to cut; use num_micro_batches=1"
      )
    of_replicas = replica_batches.find(with_examples, num_replicas)
    whole = (
      batch_size.batch_size(with_examples, host)
      if of_replicas is None
      else of_replicas.whole
    )
    if whole.known is not None:
      _check_divides(whole, num_micro_batches, num_replicas, num_rounds)
    if of_replicas is None:
      slices, found = _cut(with_examples, whole, count)
    else:
      said = _cutting(num_micro_batches, num_rounds)
      made = replica_batches.cut(of_replicas, num_micro_batches, said, host)
      whole, slices, found = made.whole, made.slices, made.pieces
    rest = iter(found)
    pieces = [
      (entry.value,) * count if entry.axis is None else next(rest)
      for entry in entries
    ]
  return MicroBatches(
    tuple(
      nested_inputs.rebuilt(inputs, iter([piece[m] for piece in pieces]))
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


def _cut(
  inputs: Sequence[batch_size.Input], whole: batch_size.BatchSize, count: int
) -> tuple[cutting.Slices, Sequence[Sequence[Any]]]:
  """Cuts a batch that is in one place; returns each input's pieces."""
  slices = cutting.slices_of(whole, count)
  # Slices of any size wait for the number of examples already.
  is_doubtful = whole.known is not None and whole.checked is not None
  with tf.control_dependencies([whole.checked] if is_doubtful else []):
    return slices, [cutting.pieces_of(entry, slices) for entry in inputs]


def _cutting(num_micro_batches: int, num_rounds: int) -> str:
  """Returns what cuts the batch of a replica into so many micro-batches."""
  if num_rounds == 1:
    return f"num_micro_batches={num_micro_batches}"
  return (
    f"num_micro_batches={num_micro_batches // num_rounds} with "
    f"gradient_accumulation_steps={num_rounds}"
  )


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
