"""Rules for ops on images that do not mix images, or channels.

Pooling, resizing and the like work on each image of a batch by itself, and most
on each channel: either may be split. Ops that mix channels, as local response
normalisation does, or depth that becomes space, are split by images alone; ops
that mix images, as normalisation over the batch does, by channels.
"""

from collections.abc import Sequence

from estimator_mp.model_axis import axes, choices
from estimator_mp.model_axis.decisions import (
  Operand,
  Output,
  Partial,
  PerPart,
  Replicate,
  Resized,
  Shard,
  Shards,
  Table,
)
from estimator_mp.model_axis.rules import convolutions

import tensorflow as tf

TABLE = Table()


@TABLE.rule(
  "AvgPool",
  "AvgPool3D",
  "MaxPool",
  "MaxPool3D",
  "MaxPool3DGrad",
  "MaxPool3DGradGrad",
  "MaxPoolGrad",
  "MaxPoolGradGrad",
)
def _pool(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images, and for gradients what was made of them and its gradient."""
  ksize, strides = op.get_attr("ksize"), op.get_attr("strides")
  split = _pooled(op, axes.only(splits), op.inputs[0], ksize, strides)
  if split is None:
    return None
  return PerPart((split,) * len(splits), (split,))


@TABLE.rule("MaxPoolGradGradV2", "MaxPoolGradV2", "MaxPoolV2")
def _pool_by_tensors(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The same, but that the last two inputs are the sizes of the pool."""
  *images, ksize, strides = splits
  values = list(map(tf.get_static_value, op.inputs[-2:]))
  if ksize is not None or strides is not None:
    return None
  if any(value is None for value in values):
    return None
  split = _pooled(op, axes.only(images), op.inputs[0], *values)
  if split is None:
    return None
  return PerPart((*[split] * len(images), Replicate(), Replicate()), (split,))


@TABLE.rule("AvgPool3DGrad", "AvgPoolGrad")
def _pool_of_shape(op: tf.Operation, splits: Shards) -> PerPart | None:
  """The shape of images, and the gradient of what was made of them."""
  shape, gradients = splits
  ksize, strides = op.get_attr("ksize"), op.get_attr("strides")
  split = _pooled(op, gradients, op.inputs[1], ksize, strides)
  if split is None or shape is not None:
    return None
  return PerPart((Resized(split.axis, split.sizes), split), (split,))


def _pooled(
  op: tf.Operation,
  split: Shard | None,
  images: tf.Tensor,
  ksize: Sequence[int],
  strides: Sequence[int],
) -> Shard | None:
  """Returns how images are split if nothing is pooled in that dimension."""
  axis = convolutions.channel_axis(op, images.shape.rank)
  if split is None or axis is None or split.axis not in (0, axis):
    return None
  if ksize[split.axis] != 1 or strides[split.axis] != 1:
    return None
  return split if all(split.sizes) else None


@TABLE.rule("MaxPoolWithArgmax")
def _pool_with_places(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Places are counted in an image, over all of its channels."""
  (split,) = splits
  if split is None or split.axis or op.get_attr("include_batch_in_index"):
    return None
  if op.get_attr("ksize")[0] != 1 or op.get_attr("strides")[0] != 1:
    return None
  if not all(split.sizes):
    return None
  return PerPart((split,), (split, split))


@TABLE.rule(
  "ResizeArea",
  "ResizeBicubic",
  "ResizeBilinear",
  "ResizeNearestNeighbor",
  "ResizeNearestNeighborGrad",
)
def _resize(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images [batch, height, width, channels], and a height and width."""
  split, size = splits
  if split is None or size is not None or split.axis not in (0, 3):
    return None
  return PerPart((split, Replicate()), (split,)) if all(split.sizes) else None


@TABLE.rule("ResizeBicubicGrad", "ResizeBilinearGrad")
def _resize_of_images(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Gradients of resized images, and the images, as many if they say so."""
  split = axes.only(splits)
  if split is None or split.axis not in (0, 3) or not all(split.sizes):
    return None
  if any(axes.size(x, split.axis) != split.size for x in op.inputs):
    return None
  return PerPart((split, split), (split,))


@TABLE.rule("AdjustHue", "AdjustSaturation", "HSVToRGB", "RGBToHSV")
def _colors(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Each pixel by itself, which has its colors in the last dimension."""
  return choices.first_input(op, splits, axes.last(op.inputs[0], 1))


@TABLE.rule("AdjustContrastv2")
def _contrast(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Each channel of an image by itself; its last three dimensions are one."""
  image = axes.last(op.inputs[0], 3)
  return choices.first_input(op, splits, image and image[:2])


@TABLE.rule("LRN", "LRNGrad")
def _normalization_of_channels(
  op: tf.Operation, splits: Shards
) -> PerPart | None:
  """Each pixel by itself: images, for gradients with what was made of them."""
  split = axes.only(splits)
  if split is None or split.axis == 3:
    return None
  return PerPart((split,) * len(splits), (split,))


@TABLE.rule("DepthToSpace", "ExtractImagePatches", "SpaceToDepth")
def _image_by_image(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Pixels and channels of an image change their places in it."""
  (split,) = splits
  if split is None or split.axis:
    return None
  return PerPart((split,), (split,))


@TABLE.rule("CropAndResize")
def _crop(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images, boxes with the numbers of their images, and a height and width."""
  images, boxes, numbers, size = splits
  if size is not None:
    return None
  if images is not None:
    if images.axis != 3 or boxes is not None or numbers is not None:
      return None
    return PerPart((images, *[Replicate()] * 3), (images,))
  split = axes.only([boxes, numbers])
  if split is None or split.axis:
    return None
  return PerPart((Replicate(), split, split, Replicate()), (split,))


@TABLE.rule("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _transform(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images, a transform of each or one of all, a shape, and what to fill in."""
  images, transforms, *others = splits
  split = axes.only([images, transforms])
  if split is None or split.axis or any(others) or not all(split.sizes):
    return None
  count = axes.size(op.inputs[1], 0)
  if count not in (1, split.size):
    return None
  read: Operand = Replicate() if count == 1 else split
  return PerPart((split, read, *[Replicate()] * len(others)), (split,))


@TABLE.rule("CropAndResizeGradImage")
def _crop_grad_of_images(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Gradients of crops, boxes, the numbers of their images, and a shape."""
  *rows, shape = splits
  split = axes.only(rows)
  if split is None or split.axis or shape is not None:
    return None
  return PerPart((split, split, split, Replicate()), (Partial(),))


@TABLE.rule("CropAndResizeGradBoxes")
def _crop_grad_of_boxes(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Gradients of crops, images, boxes and the numbers of their images."""
  gradients, images, boxes, numbers = splits
  split = axes.only([gradients, boxes, numbers])
  if split is None or split.axis or images is not None:
    return None
  return PerPart((split, Replicate(), split, split), (split,))


@TABLE.rule("SpaceToBatchND", "BatchToSpaceND")
def _space_and_batch(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images [batch, space.., others], as for dilated convolutions.

  How many dimensions are space is the size of the second input.
  """
  split, block = splits[0], op.inputs[1].shape
  count = block[0] if block.rank == 1 else None
  if split is None or count is None or split.axis <= count:
    return None
  return PerPart((split, Replicate(), Replicate()), (split,))


@TABLE.rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(op: tf.Operation, splits: Shards) -> PerPart | None:
  """Images, and vectors of scales, offsets, means and variances.

  By images, if means and variances are those of the past. The outputs that the
  last version reserves beyond vectors are its kernel's own: where a gradient op
  has them already, the op stays whole.
  """
  split = splits[0]
  axis = convolutions.channel_axis(op, op.inputs[0].shape.rank)
  reserved = op.outputs[5:]
  if split is None or axis is None:
    return None
  if any(tensor.consumers() for tensor in reserved):
    return None
  if not split.axis and not op.get_attr("is_training"):
    # Kernels leave open what else they make then.
    if any(tensor.consumers() for tensor in op.outputs[1:]):
      return None
    vectors = [Replicate()] * (len(op.outputs) - 1)
    return PerPart((split, *[Replicate()] * 4), (split, *vectors))
  if split.axis != axis:
    return None
  vector = split.at(0)
  operands: list[Operand] = [split]
  for tensor in op.inputs[1:]:
    # Means and variances of the past may be left out in training.
    if tensor.shape.rank != 1 or tensor.shape[0] not in (0, split.size):
      return None
    operands.append(vector if tensor.shape[0] else Replicate())
  outputs: list[Output] = [split, *[vector] * 4]
  outputs += [Replicate() for _ in reserved]
  return PerPart(tuple(operands), tuple(outputs))


@TABLE.rule(
  "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"
)
def _batch_norm_grad(op: tf.Operation, splits: Shards) -> PerPart | None:
  """By images, if means and variances are those of the past.

  Gradients, images, and what is the same for all images; gradients of images,
  of scales and of offsets, and two outputs of the kernel's own.
  """
  split = axes.only(splits[:2])
  if split is None or split.axis or op.get_attr("is_training"):
    return None
  if convolutions.channel_axis(op, op.inputs[0].shape.rank) is None:
    return None
  if any(tensor.consumers() for tensor in op.outputs[3:]):
    return None
  weights: list[Operand] = [Replicate()] * (len(splits) - 2)
  first = Replicate()
  outputs = (split, Partial(), Partial(), first, first)
  return PerPart((split, split, *weights), outputs)
