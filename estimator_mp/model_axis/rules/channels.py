"""Rules for ops on images that do not mix channels: these may be split.

Pooling, resizing, and normalisation over the batch. What mixes channels has
none: local response normalisation, or depth that becomes space.
"""

from collections.abc import Sequence

from estimator_mp.model_axis.decisions import (
  Join,
  Joined,
  Operand,
  Output,
  PerPart,
  Split,
  Table,
  Whole,
)
from estimator_mp.model_axis.rules import convolutions

import tensorflow as tf

TABLE = Table()


@TABLE.rule("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D")
def _pool(op: tf.Operation, splits: Sequence[Split | None]) -> PerPart | None:
  return _pooled(op, splits, op.get_attr("ksize"), op.get_attr("strides"))


@TABLE.rule("MaxPoolV2")
def _pool_by_tensors(
  op: tf.Operation, splits: Sequence[Split | None]
) -> PerPart | None:
  _, ksize, strides = map(tf.get_static_value, op.inputs)
  if ksize is None or strides is None:
    return None
  return _pooled(op, splits, ksize, strides)


def _pooled(
  op: tf.Operation,
  splits: Sequence[Split | None],
  ksize: Sequence[int],
  strides: Sequence[int],
) -> PerPart | None:
  """Returns the op for each part, unless channels are pooled."""
  split = splits[0]
  axis = convolutions.channel_axis(op, op.inputs[0].shape.rank)
  if split is None or split.axis != axis:
    return None
  if ksize[axis] != 1 or strides[axis] != 1:
    return None
  others = [Whole()] * (len(op.inputs) - 1)
  return PerPart((split, *others), (split,))


@TABLE.rule(
  "ResizeArea", "ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor"
)
def _resize(op: tf.Operation, splits: Sequence[Split | None]) -> PerPart | None:
  """Images [batch, height, width, channels], and a height and width."""
  split = splits[0]
  if split is None or split.axis != 3:
    return None
  return PerPart((split, Whole()), (split,))


@TABLE.rule("SpaceToBatchND", "BatchToSpaceND")
def _space_and_batch(
  op: tf.Operation, splits: Sequence[Split | None]
) -> PerPart | None:
  """Images [batch, space.., others], as for dilated convolutions.

  How many dimensions are space is the size of the second input.
  """
  split, block = splits[0], op.inputs[1].shape
  count = block[0] if block.rank == 1 else None
  if split is None or count is None or split.axis <= count:
    return None
  return PerPart((split, Whole(), Whole()), (split,))


@TABLE.rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(
  op: tf.Operation, splits: Sequence[Split | None]
) -> PerPart | None:
  """Images, and vectors of scales, offsets, means and variances.

  What the last version reserves beyond vectors is its kernel's own: where a
  gradient op has it already, the op stays whole.
  """
  split = splits[0]
  axis = convolutions.channel_axis(op, op.inputs[0].shape.rank)
  if split is None or split.axis != axis:
    return None
  vector = split.at(0)
  operands: list[Operand] = [split]
  for tensor in op.inputs[1:]:
    # Means and variances of the past may be left out in training.
    if tensor.shape.rank != 1 or tensor.shape[0] not in (0, split.size):
      return None
    operands.append(vector if tensor.shape[0] else Whole())
  reserved = op.outputs[5:]
  if any(tensor.consumers() for tensor in reserved):
    return None
  outputs: list[Output] = [split, *[vector] * 4]
  outputs += [Joined(Join.FIRST) for _ in reserved]
  return PerPart(tuple(operands), tuple(outputs))
