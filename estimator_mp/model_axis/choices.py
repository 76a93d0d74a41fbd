"""Choices between several decisions: the one that gathers the least."""

from collections.abc import Callable, Collection, Iterable, Sequence

from estimator_mp.graph import shapes
from estimator_mp.model_axis.decisions import PerPart, Replicate, Shard, Shards

import tensorflow as tf


def gathered(op: tf.Operation, splits: Shards, decision: PerPart) -> int:
  """Returns the bytes of the inputs that are split, and not as parts read them.

  Args:
    op: An op.
    splits: How each of its inputs is split.
    decision: The decision, with the operands of its parts.
  """
  return sum(
    shapes.tensor_bytes(tensor)
    for tensor, own, operand in zip(
      op.inputs, splits, decision.operands, strict=True
    )
    if own is not None and own != operand
  )


def first_input(
  op: tf.Operation, splits: Shards, across: Collection[int] | None = ()
) -> PerPart | None:
  """Returns the decision that each part does its own of the first input.

  Args:
    op: An op whose outputs have the dimensions of its first input.
    splits: How each of its inputs is split: the first one alone.
    across: The dimensions along which the op is not done entry by entry; None
      if they are not known.

  Returns:
    The decision; None if it does not hold for these splits.
  """
  split, *others = splits
  if split is None or any(others) or across is None or split.axis in across:
    return None
  outputs = (split,) * len(op.outputs)
  return PerPart((split, *[Replicate()] * len(others)), outputs)


def least_gathered(
  op: tf.Operation,
  splits: Shards,
  along: Callable[[Shard], PerPart | None],
  candidates: Iterable[Shard | None] | None = None,
) -> PerPart | None:
  """Returns the decision for which the fewest bytes are gathered.

  Args:
    op: An op.
    splits: How each of its inputs is split.
    along: Returns what becomes of the op along a split; None for nothing.
    candidates: The splits that may be, if not those of the inputs.

  Returns:
    The first of the best; None if there is none.
  """
  found = map(along, different(splits if candidates is None else candidates))
  return min(
    (decision for decision in found if decision is not None),
    key=lambda decision: gathered(op, splits, decision),
    default=None,
  )


def cheapest(
  op: tf.Operation,
  splits: Shards,
  decisions: Sequence[PerPart],
) -> PerPart | None:
  """Returns the decision that sends the fewest bytes.

  Args:
    op: An op with one output.
    splits: How each of its inputs is split.
    decisions: The decisions to choose from.

  Returns:
    The first of the best; None if there is none. A sum over a dimension that is
    split in only one operand may send more than to gather that operand: then
    None.
  """
  if not decisions:
    return None
  best = min(decisions, key=lambda decision: sent(op, splits, decision))
  reads_as_split = all(
    own == read
    for own, read in zip(splits, best.operands, strict=True)
    if isinstance(read, Shard)
  )
  to_gather = sum(
    shapes.tensor_bytes(tensor)
    for tensor, split in zip(op.inputs, splits, strict=True)
    if split is not None
  )
  if reads_as_split or sent(op, splits, best) <= to_gather:
    return best
  return None


def sent(op: tf.Operation, splits: Shards, decision: PerPart) -> int:
  """Returns the bytes of the tensors that are gathered, and of those summed.

  Args:
    op: An op with one output.
    splits: How each of its inputs is split.
    decision: The decision, with the operands of its parts.
  """
  (output,) = decision.outputs
  bytes_ = gathered(op, splits, decision)
  if isinstance(output, Shard):
    return bytes_
  parts = [read for read in decision.operands if isinstance(read, Shard)]
  return bytes_ + len(parts[0].sizes) * shapes.tensor_bytes(op.outputs[0])


def different(splits: Iterable[Shard | None]) -> list[Shard]:
  """Returns each split once, in order.

  Args:
    splits: Splits; None stands for none.
  """
  return list(dict.fromkeys(split for split in splits if split is not None))
