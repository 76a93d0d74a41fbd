"""Rules for ops that work entry by entry."""

from collections.abc import Sequence

from estimator_mp.model_axis.decisions import (
  Operand,
  PerPart,
  Split,
  Table,
  Whole,
)

import tensorflow as tf

TABLE = Table()


@TABLE.rule(
  "Identity",
  "Relu",
  "Erf",
  "Tanh",
  "Sigmoid",
  "Neg",
  "Rsqrt",
  "Square",
  "Sqrt",
  "Exp",
  "StopGradient",
  "Cast",
)
def _unary(op: tf.Operation, splits: Sequence[Split | None]) -> PerPart | None:
  (split,) = splits
  return PerPart((split,), (split,)) if split is not None else None


@TABLE.rule(
  "Add",
  "AddV2",
  "Mul",
  "RealDiv",
  "Sub",
  "SquaredDifference",
  "Maximum",
  "Minimum",
  "Pow",
)
def _binary(op: tf.Operation, splits: Sequence[Split | None]) -> PerPart | None:
  """Operands are broadcast, so that dimensions are counted from the last."""
  ranks = [tensor.shape.rank for tensor in op.inputs]
  if None in ranks:
    return None
  rank = max(ranks)
  index, split = max(
    (
      (index, split.at(split.axis + rank - ranks[index]))
      for index, split in enumerate(splits)
      if split is not None
    ),
    key=lambda found: found[1].size,
  )
  del index
  operands: list[Operand] = []
  for tensor, tensor_rank in zip(op.inputs, ranks, strict=True):
    axis = split.axis - rank + tensor_rank
    size = tensor.shape.as_list()[axis] if axis >= 0 else 1
    if size not in (1, split.size):
      return None
    operands.append(Whole() if size == 1 else split.at(axis))
  return PerPart(tuple(operands), (split,))
