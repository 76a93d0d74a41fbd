"""Which of several decisions: the one that gathers the least."""

from collections.abc import Iterable, Sequence

from estimator_mp.graph import shapes
from estimator_mp.model_axis.decisions import PerPart, Split

import tensorflow as tf


def gathered(
  op: tf.Operation, splits: Sequence[Split | None], decision: PerPart
) -> int:
  """Returns the bytes of the inputs that are split, and not as parts read them.

  Args:
    op: An op.
    splits: How each of its inputs is split.
    decision: What its parts read.
  """
  return sum(
    shapes.tensor_bytes(tensor)
    for tensor, own, operand in zip(
      op.inputs, splits, decision.operands, strict=True
    )
    if own is not None and own != operand
  )


def least_gathered(
  op: tf.Operation,
  splits: Sequence[Split | None],
  decisions: Iterable[PerPart | None],
) -> PerPart | None:
  """Returns the decision for which the fewest bytes are gathered.

  Args:
    op: An op.
    splits: How each of its inputs is split.
    decisions: What may become of it; None stands for none.

  Returns:
    The first of the best; None if there is none.
  """
  possible = [decision for decision in decisions if decision is not None]
  return min(
    possible, key=lambda decision: gathered(op, splits, decision), default=None
  )


def different(splits: Iterable[Split | None]) -> list[Split]:
  """Returns each split once, in order.

  Args:
    splits: Splits; None stands for none.
  """
  return list(dict.fromkeys(split for split in splits if split is not None))
