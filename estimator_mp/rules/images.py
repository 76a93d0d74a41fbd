"""Rules for convolutions, and for other ops on images.

A convolution is a product of matrices over channels, for each image of a batch
by itself: so images, or the channels it makes, are split; over the channels it
reads it is a sum, and so is the gradient of filters over images. Images stay
whole in space. Kernels do not work on no image.
"""

from collections.abc import Sequence

from estimator_mp.rules.rule import (
  Input,
  Labels,
  Local,
  Reduction,
  Rule,
  SizesOf,
  Whole,
)
from estimator_mp.rules.shapes import dict_of, entries
from estimator_mp.rules.table import Shapes, Table
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf

TABLE = Table("""
Dilation2D: n _ _ c, _ _ c -> n _ _ c; nonempty
Dilation2DBackpropInput: n H W c, _ _ c, n _ _ c -> n H W c; nonempty
Dilation2DBackpropFilter: n _ _ c, H W c, n _ _ c -> H W c; sum, nonempty

ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor
  ResizeNearestNeighborGrad:
  n _ _ c, = -> n _ _ c; nonempty
ResizeBicubicGrad ResizeBilinearGrad: n _ _ c, n H W c -> n H W c; nonempty
AdjustHue AdjustSaturation: b... C, = -> b... C
HSVToRGB RGBToHSV: b... C -> b... C
AdjustContrastv2: b... H W c, = -> b... H W c
LRN: n h w C -> n h w C
LRNGrad: n h w C, n h w C, n h w C -> n h w C
DepthToSpace ExtractImagePatches SpaceToDepth: n _ _ _ -> n _ _ _
CropAndResize: _ _ _ c, k _, k, = -> k _ _ c
CropAndResizeGradImage: k _ _ _, k _, k, = -> _ _ _ _; sum
CropAndResizeGradBoxes: k _ _ _, _ _ _ _, k X, k -> k X
""")


def _images(op: tf.Operation, rank: int, channels: str | None) -> Labels | None:
  """Returns the labels of a batch of images; None in unusual formats.

  Args:
    op: An op with the attribute `data_format`.
    rank: The rank of the images.
    channels: The label of channels.
  """
  axis = _channel_axis(op, rank)
  if axis is None:
    return None
  return tuple(
    "n" if i == 0 else channels if i == axis else None for i in range(rank)
  )


def _channel_axis(op: tf.Operation, rank: int) -> int | None:
  form = op.get_attr("data_format").decode()
  if form in ("NHWC", "NDHWC"):
    return rank - 1
  return 1 if form in ("NCHW", "NCDHW") else None


def _filters(rank: int, *channels: str | None) -> Labels:
  return (None,) * (rank - 2) + channels


@TABLE.rule("Conv2D", "Conv3D")
def _convolution(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images, and filters [space.., in, out], where in is that of a group."""
  images, filters = map(shapes.shape, op.inputs)
  axis = None if filters is None else _channel_axis(op, len(filters))
  if images is None or filters is None or axis is None:
    return None
  rank = len(filters)
  is_one_group = images[axis] == filters[-2]
  c_in, c_out = ("c", "f") if is_one_group else (None, None)
  return Rule(
    (_images(op, rank, c_in) or (), _filters(rank, c_in, c_out)),
    (_images(op, rank, c_out),),
    Reduction.SUM,
    (frozenset([0]), frozenset([1])),
    {(0, axis): filters[-1]},
    nonempty=True,
  )


@TABLE.rule("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def _transposed(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The shape of images, filters [space.., in, out], and gradients."""
  sizes, filters = entries(shapes, op.inputs[0]), shapes.shape(op.inputs[1])
  axis = None if filters is None else _channel_axis(op, len(filters))
  if sizes is None or filters is None or axis is None:
    return None
  rank = len(filters)
  shape: Input = SizesOf()
  known: list[Size | None] = [*sizes]
  if len(sizes) < rank:  # Those in space alone.
    shape, known = Whole(), [None, *sizes]
    known.insert(axis, filters[-2])
  is_one_group = known[axis] == filters[-2]
  c_in, c_out = ("c", "f") if is_one_group else (None, None)
  return Rule(
    (shape, _filters(rank, c_in, c_out), _images(op, rank, c_out) or ()),
    (_images(op, rank, c_in),),
    Reduction.SUM,
    (frozenset([1]), frozenset([2])),
    dict_of(known),
    nonempty=True,
  )


@TABLE.rule("Conv2DBackpropFilter", "Conv3DBackpropFilterV2")
def _filter_gradient(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images, the sizes of filters [space.., in, out], and gradients."""
  images, sizes = shapes.shape(op.inputs[0]), entries(shapes, op.inputs[1])
  axis = None if images is None else _channel_axis(op, len(images))
  if images is None or axis is None:
    return None
  rank = len(images)
  is_one_group = sizes is not None and images[axis] == sizes[-2]
  c_in, c_out = ("c", "f") if is_one_group else (None, None)
  return Rule(
    (
      _images(op, rank, c_in) or (),
      SizesOf() if is_one_group else Whole(),
      _images(op, rank, c_out) or (),
    ),
    (_filters(rank, c_in, c_out),),
    Reduction.SUM,
    (frozenset([0]), frozenset([2])),
    {} if sizes is None else dict_of(sizes),
    nonempty=True,
  )


@TABLE.rule("DepthwiseConv2dNative")
def _depthwise(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images [.., in], and filters [height, width, in, outputs of each]."""
  filters, axis = shapes.shape(op.inputs[1]), _channel_axis(op, 4)
  if filters is None or axis is None:
    return None
  return Rule(
    (_images(op, 4, "c") or (), _filters(4, "c", None)),
    (_images(op, 4, "c"),),
    None,
    (frozenset([0]), frozenset([1])),
    {(0, axis): filters[2] * filters[3]},
    is_proportional=True,
    nonempty=True,
  )


@TABLE.rule("DepthwiseConv2dNativeBackpropFilter")
def _depthwise_filter(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images, the sizes of filters, and gradients of all their outputs."""
  sizes = entries(shapes, op.inputs[1])
  channels = None if sizes is None else "c"
  labels = _images(op, 4, channels)
  if labels is None:
    return None
  return Rule(
    (labels, Whole() if sizes is None else SizesOf(), labels),
    (_filters(4, channels, None),),
    Reduction.SUM,
    (frozenset([0]), frozenset([2])),
    {} if sizes is None else dict_of(sizes),
    is_proportional=True,
    nonempty=True,
  )


@TABLE.rule("DepthwiseConv2dNativeBackpropInput")
def _depthwise_transposed(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The shape of images, filters, and gradients of all their outputs."""
  sizes = entries(shapes, op.inputs[0])
  labels = _images(op, 4, "c")
  if sizes is None or labels is None:
    return None
  return Rule(
    (SizesOf(), _filters(4, "c", None), labels),
    (labels,),
    None,
    (frozenset([1]), frozenset([2])),
    dict_of(sizes),
    is_proportional=True,
    nonempty=True,
  )


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
def _pool(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images, and for gradients the pooled ones and their gradient."""
  shape = shapes.shape(op.inputs[0])
  windows = op.get_attr("ksize"), op.get_attr("strides")
  labels = None if shape is None else _pooled(op, len(shape), windows)
  if labels is None:
    return None
  is_linear = op.type.startswith("AvgPool")
  return Rule(
    (labels,) * len(op.inputs),
    (labels,),
    linear=(frozenset([0]),) if is_linear else (),
    nonempty=True,
  )


@TABLE.rule("MaxPoolGradGradV2", "MaxPoolGradV2", "MaxPoolV2")
def _pool_by_tensors(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The same, but that the last two inputs are the sizes of the pool."""
  shape = shapes.shape(op.inputs[0])
  windows = [entries(shapes, tensor) for tensor in op.inputs[-2:]]
  if shape is None or None in windows:
    return None
  labels = _pooled(op, len(shape), [x or () for x in windows])
  if labels is None:
    return None
  images = [labels] * (len(op.inputs) - 2)
  return Rule((*images, Whole(), Whole()), (labels,), nonempty=True)


@TABLE.rule("AvgPool3DGrad", "AvgPoolGrad")
def _pool_of_shape(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """The shape of images, and the gradient of the pooled ones."""
  sizes = entries(shapes, op.inputs[0])
  windows = op.get_attr("ksize"), op.get_attr("strides")
  labels = None if sizes is None else _pooled(op, len(sizes), windows)
  if sizes is None or labels is None:
    return None
  return Rule(
    (SizesOf(), labels),
    (labels,),
    None,
    (frozenset([1]),),
    dict_of(sizes),
    nonempty=True,
  )


def _pooled(
  op: tf.Operation, rank: int, windows: Sequence[Sequence[Size]]
) -> Labels | None:
  """Returns labels of images, and of channels, over which nothing is pooled.

  Args:
    op: An op that pools images.
    rank: The rank of the images.
    windows: The sizes of the windows, and their strides.
  """
  labels = _images(op, rank, "c")
  if labels is None:
    return None
  return tuple(
    None if any(sizes[i] != 1 for sizes in windows) else label
    for i, label in enumerate(labels)
  )


@TABLE.rule("MaxPoolWithArgmax")
def _pool_with_places(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Places are counted in an image, over all of its channels."""
  windows = op.get_attr("ksize"), op.get_attr("strides")
  if op.get_attr("include_batch_in_index") or any(x[0] != 1 for x in windows):
    return None
  labels = ("n", None, None, None)
  return Rule((labels,), (labels, labels), nonempty=True)


@TABLE.rule("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _transform(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images, a transform of each or one of all, a shape, and a fill value."""
  transforms = shapes.shape(op.inputs[1])
  if transforms is None:
    return None
  labels = ("n", None, None, None)
  each = Whole() if transforms[0] == 1 else ("n", None)
  others = [Whole()] * (len(op.inputs) - 2)
  return Rule((labels, each, *others), (labels,), nonempty=True)


@TABLE.rule("SpaceToBatchND", "BatchToSpaceND")
def _space_and_batch(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images [batch, space.., others], as for dilated convolutions.

  How many dimensions are space is the size of the second input.
  """
  shape, block = map(shapes.shape, op.inputs[:2])
  if shape is None or not block or not isinstance(block[0], int):
    return None
  labels = tuple(f"d{i}" if i > block[0] else None for i in range(len(shape)))
  return Rule((labels, Whole(), Whole()), (labels,), None, (frozenset([0]),))


@TABLE.rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Images, and vectors of scales, offsets, means and variances.

  By images, if means and variances are those of the past; other outputs of
  kernels are open then. In training parts of the images exchange their sums.
  The outputs that the last version reserves beyond vectors are its kernel's.
  """
  shape, moments = shapes.shape(op.inputs[0]), shapes.shape(op.inputs[3])
  labels = None if shape is None else _images(op, len(shape), "c")
  if labels is None or moments is None:
    return None
  vector: Labels = ("c",)
  reserved = (None,) * (len(op.outputs) - 5)
  if not op.get_attr("is_training"):
    vectors = (vector,) * 4
    return Rule((labels, *vectors), (labels, *(None,) * 4, *reserved))
  past = Whole() if moments[0] == 0 else vector
  return Rule(
    (labels, vector, vector, past, past),
    (labels, vector, vector, vector, vector, *reserved),
    Reduction.MEAN,
    exchanged={"n": 0},
    local=frozenset(range(5, len(op.outputs))),
  )


@TABLE.rule(
  "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"
)
def _batch_norm_grad(op: tf.Operation, shapes: Shapes) -> Rule | None:
  """Gradients, images, scales, and means and variances.

  Makes gradients of images, of scales and of offsets, and two outputs of the
  kernel's own.
  """
  shape = shapes.shape(op.inputs[1])
  labels = None if shape is None else _images(op, len(shape), "c")
  if labels is None:
    return None
  vector: Labels = ("c",)
  reserved = [Local()] * (len(op.inputs) - 5)
  return Rule(
    (labels, labels, vector, vector, vector, *reserved),
    (labels, vector, vector, None, None),
    Reduction.SUM,
    # Kernels reserve different tensors: all are split as the images are.
    exchanged={"n": 1} if op.get_attr("is_training") else {},
  )
