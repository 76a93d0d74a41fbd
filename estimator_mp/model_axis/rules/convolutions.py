"""Rules for convolutions, whose channels, or images, are split.

A convolution is a matrix multiplication over channels: its filters are split
by output channels, which its output then is, or by input channels, and then its
output is a sum over devices. Each image of a batch is convolved by itself, so
parts of the batch are, too; what they say of filters is a sum. Images stay
whole in space.
"""

from collections.abc import Iterable, Iterator

from estimator_mp.model_axis import axes, choices
from estimator_mp.model_axis.decisions import (
  Operand,
  Partial,
  PerPart,
  Replicate,
  Resized,
  Shard,
  Shards,
  Table,
)

import tensorflow as tf

TABLE = Table()


def channel_axis(op: tf.Operation, rank: int | None) -> int | None:
  """Returns which dimension of an op's images has the channels.

  Args:
    op: An op with the attribute `data_format`.
    rank: The rank of the images.

  Returns:
    The dimension, from 0; None if it is not one of the usual two.
  """
  if rank is None:
    return None
  form = op.get_attr("data_format").decode()
  if form in ("NHWC", "NDHWC"):
    return rank - 1
  return 1 if form in ("NCHW", "NCDHW") else None


@TABLE.rule("Conv2D", "Conv3D")
def _convolution(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images [batch, space.., in], filters [space.., in of a group, out]."""
  rank = op.inputs[1].shape.rank
  axis = channel_axis(op, rank)
  if rank is None or axis is None:
    return None
  decisions = [
    PerPart((rows, Replicate()), (rows,)) for rows in rows_of(splits[:1])
  ]
  decisions += _by_channels(op, splits, rank, axis)
  return choices.cheapest(op, splits, decisions)


def _by_channels(
  op: tf.Operation, splits: Shards, rank: int, axis: int
) -> list[PerPart]:
  """Returns what may become of a convolution whose channels are split.

  Args:
    op: The convolution.
    splits: How its images and its filters are split.
    rank: The rank of both.
    axis: Which dimension of images has the channels.
  """
  images, filters = op.inputs
  channels, of_group = axes.size(images, axis), axes.size(filters, rank - 2)
  outputs = axes.size(filters, rank - 1)
  if not channels or not of_group or not outputs:
    return []
  groups = channels // of_group
  if groups > 1:
    return [
      PerPart(
        (split.times(of_group).at(axis), split.times(outputs // groups)),
        (split.times(outputs // groups).at(axis),),
      )
      for split in _same(
        _over(splits[0], axis, of_group),
        _over(splits[1], rank - 1, outputs // groups),
        rank - 1,
      )
    ]
  decisions = [
    PerPart((split.at(axis), split), (Partial(),))
    for split in _same(
      _over(splits[0], axis), _over(splits[1], rank - 2), rank - 2
    )
  ]
  if (split := _over(splits[1], rank - 1)) is not None:
    decisions.append(PerPart((Replicate(), split), (split.at(axis),)))
  return decisions


@TABLE.rule("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _transposed(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The shape of the output, filters [space.., out, in], and images."""
  shape, filters, _ = op.inputs
  rank = filters.shape.rank
  axis = channel_axis(op, rank)
  if rank is None or axis is None or splits[0] is not None:
    return None
  decisions = [
    PerPart((sizes, Replicate(), rows), (rows,))
    for rows in rows_of(splits[2:])
    if (sizes := _resized(shape, rank, 0, rows.sizes)) is not None
  ]
  channels = axes.size(op.outputs[0], axis)
  if channels is None or channels != axes.size(filters, rank - 2):
    return choices.cheapest(op, splits, decisions)
  decisions += [
    PerPart((Replicate(), split, split.at(axis)), (Partial(),))
    for split in _same(
      _over(splits[2], axis), _over(splits[1], rank - 1), rank - 1
    )
  ]
  if (split := _over(splits[1], rank - 2)) is not None:
    sizes = _resized(shape, rank, axis, split.sizes)
    if sizes is not None:
      decisions.append(PerPart((sizes, split, Replicate()), (split.at(axis),)))
  return choices.cheapest(op, splits, decisions)


@TABLE.rule(
  "Conv2DBackpropFilter",
  "Conv3DBackpropFilterV2",
  "DepthwiseConv2dNativeBackpropFilter",
  "Dilation2DBackpropFilter",
)
def _of_filters(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images, filters or their shape, and gradients of what is made of images."""
  images, filters, gradients = splits
  if filters is not None:
    return None
  decisions = [
    PerPart((rows, Replicate(), rows), (Partial(),))
    for rows in rows_of([images, gradients])
  ]
  return choices.cheapest(op, splits, decisions)


@TABLE.rule("Dilation2D", "Dilation2DBackpropInput")
def _dilation(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images and filters, and for a gradient that of what they make."""
  images = [splits[0], *splits[2:]]
  decisions = [
    PerPart((rows, Replicate(), *[rows] * len(splits[2:])), (rows,))
    for rows in rows_of(images)
  ]
  return choices.cheapest(op, splits, decisions)


@TABLE.rule("DepthwiseConv2dNative")
def _depthwise(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images [.., in], and filters [height, width, in, outputs of each]."""
  axis, multiplier = channel_axis(op, 4), axes.size(op.inputs[1], 3)
  if axis is None:
    return None
  decisions = [
    PerPart((rows, Replicate()), (rows,)) for rows in rows_of(splits[:1])
  ]
  if multiplier:
    decisions += [
      PerPart((split.at(axis), split), (split.times(multiplier).at(axis),))
      for split in _same(_over(splits[0], axis), _over(splits[1], 2), 2)
    ]
  return choices.cheapest(op, splits, decisions)


@TABLE.rule("DepthwiseConv2dNativeBackpropInput")
def _depthwise_transposed(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The shape of the output, filters, and images with all their outputs."""
  axis, multiplier = channel_axis(op, 4), axes.size(op.inputs[1], 3)
  if axis is None or splits[0] is not None:
    return None
  decisions = [
    PerPart((sizes, Replicate(), rows), (rows,))
    for rows in rows_of(splits[2:])
    if (sizes := _resized(op.inputs[0], 4, 0, rows.sizes)) is not None
  ]
  if not multiplier:
    return choices.cheapest(op, splits, decisions)
  for split in _same(
    _over(splits[2], axis, multiplier), _over(splits[1], 2), 2
  ):
    sizes = _resized(op.inputs[0], 4, axis, split.sizes)
    if sizes is not None:
      images = split.times(multiplier).at(axis)
      decisions.append(PerPart((sizes, split, images), (split.at(axis),)))
  return choices.cheapest(op, splits, decisions)


def rows_of(splits: Iterable[Shard | None]) -> list[Shard]:
  """Returns how images are split between those of a batch.

  Not if a part has none of them, which ends the process in some kernels.

  Args:
    splits: How some inputs of an op are split that have as many images.
  """
  return choices.different(
    split
    for split in splits
    if split is not None and not split.axis and all(split.sizes)
  )


def _over(split: Shard | None, axis: int, divisor: int = 1) -> Shard | None:
  """Returns how groups of channels are split.

  Args:
    split: How a tensor is.
    axis: Which of its dimensions has the channels.
    divisor: How many channels a group has.

  Returns:
    The split of groups; None if groups are split, or another dimension is, or
    if a part has no group.
  """
  if split is None or split.axis != axis or not all(split.sizes):
    return None
  return split.over(divisor)


def _same(
  images: Shard | None, filters: Shard | None, axis: int
) -> Iterator[Shard]:
  """Yields how filters are split, if both are in the same way.

  Args:
    images: How the channels of images are split.
    filters: How those of filters are.
    axis: Which dimension of filters they are.
  """
  yield from choices.different(
    split.at(axis) for split in (images, filters) if split is not None
  )


def _resized(
  shape: tf.Tensor, rank: int, axis: int, sizes: tuple[int, ...]
) -> Operand | None:
  """Returns what parts read in place of the shape of an op's output.

  Args:
    shape: The shape, of all dimensions or of those in space alone.
    rank: The rank of the output.
    axis: Which dimension is split.
    sizes: Its size in each part.
  """
  count = axes.size(shape, 0)
  if count == rank:
    return Resized(axis, sizes)
  return Replicate() if count == rank - 2 else None
