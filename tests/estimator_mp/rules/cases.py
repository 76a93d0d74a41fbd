"""Ops with small inputs whose dimensions have sizes of their own.

What a rule says of dimensions is tried on them, literally: see `CASES`.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tests.estimator_mp import session_configs

import numpy as np
import tensorflow as tf

_v1 = tf.compat.v1
_rng = np.random.RandomState(12)


@dataclasses.dataclass(frozen=True)
class Known:
  """An input that is a constant of the graph."""

  value: Any


def floats(*shape):
  return _rng.uniform(0.1, 2, shape).astype(np.float32)


def images(*shape):
  return _rng.randn(*shape).astype(np.float32)


def ids(most, *shape):
  return _rng.randint(0, most, shape).astype(np.int32)


@dataclasses.dataclass(frozen=True)
class Case:
  """An op, and of which dimensions its rule has to speak.

  Attributes:
    name: The type of the op, and after a space what is special about it.
    sizes: The sizes of the dimensions of which the rule has to speak.
    inputs: Arrays that are fed, or what is `Known`; lists of them.
    on: Which inputs are split; None for all of a size.
    made: How many outputs are compared; None for all. Nothing reads others.
    asks_rows: Whether the rule has to know how many rows there are.
    attributes: Of the op.
  """

  name: str
  sizes: set[int]
  inputs: tuple[Any, ...]
  on: Sequence[int] | None
  made: int | None
  asks_rows: bool
  attributes: Mapping[str, Any]

  @functools.cached_property
  def flat(self) -> list[Any]:
    """All inputs, without their lists."""
    return [*tf.nest.flatten(list(self.inputs))]

  def outputs(self, tensors, name=None):
    """Makes the op.

    Args:
      tensors: One for each of `flat`.
      name: Of the op.
    """
    function = getattr(tf.raw_ops, self.name.split()[0])
    names = list(function.__signature__.parameters)
    values = tf.nest.pack_sequence_as(list(self.inputs), tensors)
    made = function(
      **dict(zip(names, values, strict=False)), **self.attributes, name=name
    )
    return tf.nest.flatten(made)

  def op(self, shape_of, name="asked"):
    """Makes the op of placeholders, whose shapes are known so far."""
    tensors = [
      tf.constant(x.value)
      if isinstance(x, Known)
      else _v1.placeholder(x.dtype, shape_of(x))
      for x in self.flat
    ]
    return self.outputs(tensors, name)[0].op


def _case(name, sizes, *inputs, on=None, made=None, asks_rows=False, **fields):
  """Returns a case.

  Args:
    name: As of `Case`, and so are the other arguments.
    sizes: As there.
    *inputs: Numbers, texts and lists are constants of the graph, a tuple of
      sizes is an array of random numbers, one of inputs is a list of these.
    on: As there.
    made: As there.
    asks_rows: As there.
    **fields: Attributes of the op.
  """
  made_inputs = tuple(map(_input, inputs))
  return Case(name, sizes, made_inputs, on, made, asks_rows, fields)


def _input(value):
  if isinstance(value, tuple):
    if all(isinstance(size, int) for size in value):
      return images(*value)
    return [_input(x) for x in value]
  if isinstance(value, (int, float, bytes, list)):
    return Known(value)
  return value


_CONV = {"strides": [1, 2, 2, 1], "padding": "SAME"}
_HOLES = {"strides": [1] * 4, "padding": "SAME", "dilations": [1, 2, 2, 1]}
_CONV3 = {"strides": [1, 1, 2, 1, 1], "padding": "VALID"}
_POOL = {"ksize": [1, 2, 3, 1], **_CONV}
_POOL3 = {"ksize": [1, 2, 2, 1, 1], **_CONV3}
_VECTORS = [floats(5) for _ in range(4)]
_NORMS = {"is_training": False, "epsilon": 1e-3}
_NORM_GRADS = [images(4, 3, 6, 5), images(4, 3, 6, 5), *_VECTORS[:3]]


def _run(make, *values):
  """Returns what ops make of values."""
  with (
    tf.Graph().as_default(),
    _v1.Session(config=session_configs.config()) as session,
  ):
    return session.run(make(*map(tf.constant, values)))


def _pooled(name, rank, **pool):
  """Returns images, what their maxima are, and gradients of these."""
  x = images(*([4, 8, 6, 5] if rank == 4 else [4, 6, 8, 7, 5]))
  made = _run(lambda y: getattr(tf.raw_ops, name)(input=y, **pool), x)
  return x, made, images(*made.shape)


_POOLED, _POOLED3 = (
  _pooled("MaxPool", 4, **_POOL),
  _pooled("MaxPool3D", 5, **_POOL3),
)
_SIZES_OF_POOL = [[1, 2, 3, 1], [1, 2, 2, 1]]
_BOXES = np.tile([[0.1, 0.2, 0.9, 0.8]], [9, 1]).astype(np.float32)
_NOTHING = Known(np.zeros([0], np.float32))

_IMAGES = [
  _case("Conv2D", {4, 2, 7}, (4, 8, 6, 2), (3, 3, 2, 7), **_CONV),
  _case(
    "Conv2D with padding",
    {4, 2, 7},
    (4, 8, 6, 2),
    (3, 3, 2, 7),
    strides=[1, 1, 1, 1],
    padding="EXPLICIT",
    explicit_paddings=[0, 0, 2, 1, 0, 3, 0, 0],
  ),
  _case("Conv2D of holes", {4, 2, 7}, (4, 8, 6, 2), (3, 3, 2, 7), **_HOLES),
  _case("Conv2D of groups", {5, 8, 12}, (5, 9, 7, 8), (3, 3, 2, 12), **_CONV),
  _case("Conv3D", {2, 4, 5}, (4, 7, 8, 6, 2), (1, 3, 3, 2, 5), **_CONV3),
  *(
    _case(
      f"Conv2DBackpropInput of {sizes}",
      {5, 2, 7},
      sizes,
      (3, 3, 2, 7),
      (5, 4, 3, 7),
      **_CONV,
    )
    for sizes in ([5, 8, 6, 2], [8, 6])
  ),
  _case(
    "Conv2DBackpropFilter",
    {5, 2, 7},
    (5, 8, 6, 2),
    [3, 3, 2, 7],
    (5, 4, 3, 7),
    **_CONV,
  ),
  _case(
    "Conv3DBackpropInputV2",
    {9, 2, 5},
    [9, 7, 8, 6, 2],
    (1, 3, 3, 2, 5),
    (9, 7, 3, 4, 5),
    **_CONV3,
  ),
  _case(
    "Conv3DBackpropFilterV2",
    {9, 2, 5},
    (9, 7, 8, 6, 2),
    [1, 3, 3, 2, 5],
    (9, 7, 3, 4, 5),
    **_CONV3,
  ),
  _case("DepthwiseConv2dNative", {4, 5}, (4, 8, 6, 5), (3, 3, 5, 2), **_CONV),
  _case(
    "DepthwiseConv2dNativeBackpropInput",
    {5, 6, 12},
    [5, 9, 7, 6],
    (3, 3, 6, 2),
    (5, 5, 4, 12),
    **_CONV,
  ),
  _case(
    "DepthwiseConv2dNativeBackpropFilter",
    {4, 5, 10},
    (4, 8, 6, 5),
    [3, 3, 5, 2],
    (4, 4, 3, 10),
    **_CONV,
  ),
  _case("AvgPool", {4, 5}, (4, 8, 6, 5), **_POOL),
  _case("AvgPool3D", {4, 5}, (4, 6, 8, 7, 5), **_POOL3),
  _case("MaxPool", {4, 5}, (4, 8, 6, 5), **_POOL),
  _case(
    "MaxPool of channels",
    {4},
    (4, 8, 6, 5),
    ksize=[1, 1, 1, 5],
    strides=[1, 1, 1, 5],
    padding="VALID",
  ),
  _case("MaxPool3D", {4, 5}, (4, 6, 8, 7, 5), **_POOL3),
  _case(
    "MaxPoolV2",
    {4, 5},
    (4, 8, 6, 5),
    [1, 2, 3, 1],
    [1, 2, 2, 1],
    padding="SAME",
  ),
  _case("AvgPoolGrad", {9, 5}, [9, 8, 6, 5], (9, 4, 3, 5), **_POOL),
  _case("AvgPool3DGrad", {9, 2}, [9, 6, 8, 7, 2], (9, 5, 4, 7, 2), **_POOL3),
  _case("MaxPoolGrad", {4, 5}, *_POOLED, **_POOL),
  _case("MaxPoolGradGrad", {4, 5}, *_POOLED[:2], _POOLED[0] + 1, **_POOL),
  _case("MaxPoolGradV2", {4, 5}, *_POOLED, *_SIZES_OF_POOL, padding="SAME"),
  _case(
    "MaxPoolGradGradV2",
    {4, 5},
    *_POOLED[:2],
    _POOLED[0] + 1,
    *_SIZES_OF_POOL,
    padding="SAME",
  ),
  _case("MaxPool3DGrad", {4, 5}, *_POOLED3, **_POOL3),
  _case("MaxPool3DGradGrad", {4, 5}, *_POOLED3[:2], _POOLED3[0] + 1, **_POOL3),
  _case("MaxPoolWithArgmax", {4}, (4, 8, 6, 5), **_POOL),
  _case(
    "MaxPoolWithArgmax of all",
    set(),
    (4, 8, 6, 5),
    include_batch_in_index=True,
    **_POOL,
  ),
  *(
    _case(f"Resize{name}", {4, 5}, (4, 8, 6, 5), [9, 3])
    for name in ("Area", "Bicubic", "Bilinear", "NearestNeighbor")
  ),
  _case("ResizeNearestNeighborGrad", {4, 5}, (4, 9, 3, 5), [8, 6]),
  *(
    _case(f"Resize{name}Grad", {4, 5}, (4, 9, 3, 5), (4, 8, 6, 5))
    for name in ("Bicubic", "Bilinear")
  ),
  _case("LRN", {4, 8, 6}, (4, 8, 6, 5), depth_radius=1),
  _case("LRNGrad", {4, 8, 6}, *((4, 8, 6, 5),) * 3),
  _case("DepthToSpace", {3}, (3, 5, 6, 8), block_size=2),
  _case("SpaceToDepth", {3}, (3, 8, 6, 5), block_size=2),
  _case(
    "ExtractImagePatches",
    {3},
    (3, 8, 6, 5),
    ksizes=[1, 2, 3, 1],
    strides=[1, 2, 1, 1],
    rates=[1, 1, 1, 1],
    padding="VALID",
  ),
  _case("CropAndResize", {9, 5}, (3, 8, 6, 5), _BOXES, ids(3, 9), [4, 2]),
  _case("SpaceToBatchND", {5}, (3, 8, 6, 5), [2, 3], [[0, 0], [0, 0]]),
  _case("BatchToSpaceND", {5}, (12, 8, 6, 5), [2, 3], [[0, 0], [0, 0]]),
  *(
    _case(
      f"FusedBatchNorm{v}", {4, 5}, (4, 3, 6, 5), *_VECTORS, made=1, **_NORMS
    )
    for v in ("", "V2", "V3")
  ),
  *(
    _case(
      f"FusedBatchNorm{v} in training",
      {5},
      (4, 3, 6, 5),
      *_VECTORS[:2],
      _NOTHING,
      _NOTHING,
      on=[0],
      made=5,
    )
    for v in ("", "V2", "V3")
  ),
  _case(
    "FusedBatchNormV3 of moving averages",
    {5},
    (4, 3, 6, 5),
    *_VECTORS,
    on=[0],
    made=5,
    exponential_avg_factor=0.3,
  ),
  *(
    _case(name, {2, 4, 5}, floats(2, 4, 5, 3) / 2)
    for name in ("HSVToRGB", "RGBToHSV")
  ),
  *(
    _case(name, {2, 4, 5}, floats(2, 4, 5, 3) / 2, 0.3)
    for name in ("AdjustHue", "AdjustSaturation")
  ),
  _case("AdjustContrastv2", {2, 3}, (2, 4, 5, 3), 0.3),
  _case(
    "ImageProjectiveTransformV3",
    {3},
    (3, 8, 6, 5),
    np.tile([[1, 0.2, 0, 0, 1, 0.5, 0, 0]], [3, 1]).astype(np.float32),
    [8, 6],
    0.5,
    interpolation="BILINEAR",
  ),
  _case(
    "ImageProjectiveTransformV2",
    {3},
    (3, 8, 6, 5),
    Known(np.array([[1, 0.2, 0, 0, 1, 0.5, 0, 0]], np.float32)),
    [8, 6],
    interpolation="BILINEAR",
  ),
  *(
    _case(
      f"Dilation2D{name}",
      {9},
      (9, 8, 6, 5),
      (2, 3, 5),
      *gradients,
      strides=[1, 1, 1, 1],
      rates=[1, 1, 1, 1],
      padding="SAME",
    )
    for name, gradients in (
      ("", []),
      ("BackpropInput", [images(9, 8, 6, 5)]),
      ("BackpropFilter", [images(9, 8, 6, 5)]),
    )
  ),
  _case(
    "CropAndResizeGradImage",
    {9},
    (9, 4, 2, 5),
    _BOXES,
    ids(3, 9),
    [3, 8, 6, 5],
    T=tf.float32,
  ),
  _case(
    "CropAndResizeGradBoxes",
    {9},
    (9, 4, 2, 5),
    (3, 8, 6, 5),
    _BOXES,
    ids(3, 9),
  ),
  *(
    _case(f"FusedBatchNormGrad{v}", {4}, *_NORM_GRADS, made=3, **_NORMS)
    for v in ("", "V2")
  ),
  _case("FusedBatchNormGradV3", {4}, *_NORM_GRADS, 0.0, made=3, **_NORMS),
]


def texts(*shape):
  words = np.array([b"Ulm ", b" rom", b"oslo", b"7", b""], object)
  return words[_rng.randint(0, 5, shape)]


def _numerals(*shape):
  return np.vectorize(lambda x: b"%d" % x, [object])(ids(99, *shape))


def _matrices(*shape):
  """Positive definite ones."""
  x = _rng.randn(*shape)
  return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def _complex(*shape):
  return (_rng.randn(*shape) + 1j * _rng.randn(*shape)).astype(np.complex64)


_SEGMENTS = np.array([0, 0, 2, 3], np.int32)
_SELECTIONS = [
  _case("Gather", {2, 3, 4, 5, 6}, (5, 2, 3), ids(5, 4, 6)),
  _case("Gather of one", {2, 3, 5}, (5, 2, 3), np.int32(4)),
  _case("Gather of none", {2, 3, 5}, (5, 2, 3), ids(5, 0)),
  *(
    _case(
      f"GatherV2 along {axis}",
      {2, 3, 4, 5, 6, 7},
      (2, 3, 7, 5),
      ids(2, 4, 6),
      axis,
    )
    for axis in (0, 2, -1)
  ),
  _case(
    "GatherV2 of examples",
    {4, 2, 3, 5, 6},
    (4, 2, 3, 5),
    ids(3, 4, 6),
    2,
    batch_dims=1,
  ),
  _case(
    "GatherV2 of matrices",
    {4, 2, 6, 7, 3},
    (4, 2, 7, 3),
    ids(7, 4, 2, 6).astype(np.int64),
    -2,
    batch_dims=-1,
  ),
  _case("GatherNd", {4, 6, 7}, (5, 3, 7), ids(3, 4, 6, 2)),
  _case("GatherNd of rows", {3, 4, 6, 7}, (5, 3, 7), ids(5, 4, 6, 1)),
  _case("ScatterNd of rows", {4, 6, 7}, ids(5, 4, 6, 1), (4, 6, 7), [5, 7]),
  _case("ScatterNd", {4, 6, 7}, ids(3, 4, 6, 2), (4, 6, 7), [5, 3, 7]),
  _case(
    "ScatterNd of truths",
    {7},
    ids(3, 4, 6, 2),
    floats(4, 6, 7) > 1,
    [5, 3, 7],
  ),
  *(
    _case(f"UnsortedSegment{name}", {4, 6, 7}, (4, 6, 7), ids(9, 4, 6), 9)
    for name in ("Prod", "Sum")
  ),
  *(
    _case(
      f"UnsortedSegment{name} of integers",
      {4, 6, 7},
      ids(99, 4, 6, 7) - 50,
      ids(9, 4, 6),
      9,
    )
    for name in ("Max", "Min", "Prod", "Sum")
  ),
  *(
    _case(
      f"UnsortedSegment{name} that may be differentiated",
      {7},
      (4, 6, 7),
      ids(9, 4, 6),
      9,
    )
    for name in ("Max", "Min")
  ),
  *(
    _case(f"Segment{name}", {6}, (4, 6), _SEGMENTS)
    for name in ("Max", "Mean", "Min", "Prod", "Sum")
  ),
  *(
    _case(f"SparseSegment{name}", {6}, (7, 6), ids(7, 4), _SEGMENTS)
    for name in ("Mean", "SqrtN", "Sum")
  ),
  _case(
    "SparseSegmentSumWithNumSegments", {4, 6}, (7, 6), ids(7, 4), _SEGMENTS, 5
  ),
  _case(
    "SparseSegmentMeanWithNumSegments", {6}, (7, 6), ids(7, 4), _SEGMENTS, 5
  ),
  _case("MatrixBandPart", {3, 4}, (3, 4, 5, 6), 1, 2),
  _case("MatrixDiag", {3, 4}, (3, 4, 5)),
  _case("MatrixDiagPart", {3, 4}, (3, 4, 5, 6)),
  _case("MatrixSetDiag", {3, 4}, (3, 4, 5, 6), (3, 4, 5)),
  _case("MatrixDiagV3", {3, 4}, (3, 4, 5), 1, -1, -1, 0.0),
  _case("MatrixDiagV3 of a band", {3, 4}, (3, 4, 2, 5), [0, 1], -1, -1, 0.0),
  _case("MatrixDiagPartV3", {3, 4}, (3, 4, 5, 6), [-1, 1], 0.0),
  _case("MatrixSetDiagV3", {3, 4}, (3, 4, 5, 6), (3, 4, 2, 5), [0, 1]),
  *(
    _case(
      f"OneHot along {axis}",
      {3, 4},
      ids(5, 3, 4),
      5,
      np.float32(2),
      np.float32(0.5),
      axis=axis,
    )
    for axis in (0, 1, -1)
  ),
  *(
    _case(f"Pack along {axis}", {3, 4}, ((3, 4), (3, 4)), axis=axis)
    for axis in (0, 1, 2, -1, -2)
  ),
  *(
    _case(
      f"Unpack along {axis}",
      {3, 4, 5} - {3 + axis % 3},
      (3, 4, 5),
      axis=axis,
      num=3 + axis % 3,
    )
    for axis in (0, 1, 2, -2)
  ),
  _case(
    "DynamicPartition", {5, 6}, (4, 3, 5, 6), ids(2, 4, 3), num_partitions=2
  ),
  _case(
    "DynamicStitch",
    {5, 6},
    ([3, 1], [[0, 2], [2, 4]]),
    ((2, 5, 6), (2, 2, 5, 6)),
  ),
  _case("InTopKV2", {4}, (4, 6), ids(6, 4), 2),
]
_COUNTS = [
  _case("TopKV2", {3, 4}, (3, 4, 6), 2),
  _case("NthElement", {3, 4}, (3, 4, 6), 2),
  *(
    _case(name, {4, 7}, np.sort(floats(4, 6)), (4, 7))
    for name in ("LowerBound", "UpperBound")
  ),
  *(
    _case(name, {3, 6}, (3, 4, 6), 1, exclusive=True, reverse=True)
    for name in ("Cumprod", "Cumsum", "CumulativeLogsumexp")
  ),
  _case("Bincount", {4, 6}, ids(5, 4, 6), 5, _NOTHING),
  _case("Bincount with weights", {4, 6}, ids(5, 4, 6), 5, (4, 6)),
  *(
    _case(
      f"DenseBincount of {shape} {is_binary}",
      {*shape},
      ids(5, *shape),
      5,
      _NOTHING,
      binary_output=is_binary,
    )
    for shape in ((4,), (4, 6))
    for is_binary in (False, True)
  ),
  _case("DenseBincount with weights", {4, 6}, ids(5, 4, 6), 5, (4, 6)),
  _case("SparseSoftmaxCrossEntropyWithLogits", {4, 5}, (4, 5), ids(5, 4)),
  _case(
    "SoftmaxCrossEntropyWithLogits", {4, 5}, (4, 5), floats(4, 5) / 5, on=[0]
  ),
  _case("L2Loss", {3, 4}, (3, 4)),
]
_TEXTS = [
  *(
    _case(name, {3, 4}, texts(3, 4))
    for name in (
      "EncodeBase64",
      "StringLength",
      "StringLower",
      "StringStrip",
      "StringUpper",
    )
  ),
  _case("AsString", {3, 4}, (3, 4), precision=3),
  _case("DecodeBase64", {3, 4}, np.full([3, 4], b"b3Nsbw", object)),
  _case("StaticRegexFullMatch", {3, 4}, texts(3, 4), pattern=".*o"),
  _case("StaticRegexReplace", {3, 4}, texts(3, 4), pattern="o", rewrite="oo"),
  _case("RegexFullMatch", {3, 4}, texts(3, 4), b".*o"),
  _case("RegexReplace", {3, 4}, texts(3, 4), b"o", b"oo"),
  _case("StringJoin", {3, 4}, (texts(3, 4), b"/", texts(3, 4))),
  _case("Substr", {3, 4}, texts(3, 4), ids(1, 3, 4), ids(3, 3, 4)),
  _case("Substr of each", {3, 4}, texts(3, 4), 0, 2),
  _case("Substr at each", {3, 4}, texts(3, 1), ids(1, 4), ids(3, 4)),
  _case("StringToHashBucketFast", {3, 4}, texts(3, 4), num_buckets=9),
  _case("StringToHashBucket", {3, 4}, texts(3, 4), num_buckets=9),
  _case(
    "StringToHashBucketStrong", {3, 4}, texts(3, 4), num_buckets=9, key=[1, 2]
  ),
  _case("StringToNumber", {3, 4}, _numerals(3, 4)),
  _case("UnicodeScript", {3, 4}, ids(900, 3, 4)),
  _case(
    "UnicodeTranscode",
    {3, 4},
    texts(3, 4),
    input_encoding="UTF-8",
    output_encoding="UTF-16-BE",
  ),
]
_PRODUCTS = [
  _case("BatchMatMulV2", {2, 4, 5, 6, 7}, (2, 4, 5, 6), (4, 6, 7)),
  _case(
    "BatchMatMulV2 of ones",
    {2, 3, 4, 5, 6},
    (1, 4, 5),
    (3, 2, 5, 6),
    asks_rows=True,
  ),
  _case(
    "BatchMatMulV2 of adjoints",
    {3, 4, 5, 6},
    (3, 5, 4),
    (3, 6, 5),
    adj_x=True,
    adj_y=True,
  ),
  _case("BatchMatMul", {2, 3, 4, 5, 6}, (2, 3, 4, 5), (2, 3, 5, 6)),
  *(
    _case(
      f"MatMul {a} {b}",
      {3, 4, 5},
      (4, 3) if a else (3, 4),
      (5, 4) if b else (4, 5),
      transpose_a=a,
      transpose_b=b,
    )
    for a, b in itertools.product((False, True), repeat=2)
  ),
  _case("SparseMatMul", {3, 4, 5}, (3, 4), (4, 5)),
  *(
    _case(
      f"SparseTensorDenseMatMul {adjoint_b}",
      {6},
      Known(np.array([[0, 1], [1, 0], [2, 4]], np.int64)),
      (3,),
      Known(np.array([3, 5], np.int64)),
      (6, 5) if adjoint_b else (5, 6),
      adjoint_b=adjoint_b,
    )
    for adjoint_b in (False, True)
  ),
  *(
    _case(f"Einsum {equation}", sizes, (*shapes,), equation=equation)
    for equation, sizes, *shapes in (
      ("bfnh,btnh->bnft", {2, 3, 4, 5, 6}, (2, 4, 3, 5), (2, 6, 3, 5)),
      ("bfd,dnh->bfnh", {2, 3, 4, 5, 6}, (2, 4, 5), (5, 3, 6)),
      ("bfnh,nhd->bfd", {2, 3, 4, 5, 6}, (2, 4, 3, 5), (3, 5, 6)),
      ("...ij,jk->...ik", {2, 3, 4, 5, 6}, (2, 3, 4, 5), (5, 6)),
      ("...ij,...jk->...ik", {2, 3, 4, 5, 6}, (2, 1, 4, 5), (3, 5, 6)),
      ("i...j,jk->k...i", {2, 4, 5, 6}, (4, 2, 5), (5, 6)),
      ("ij,jk->k", {4, 5, 6}, (4, 5), (5, 6)),
      ("ij->j", {4, 5}, (4, 5)),
      ("ij->", {4, 5}, (4, 5)),
      ("i...->...i", {3, 4, 5}, (3, 4, 5)),
      ("ii->i", set(), (4, 4)),
      ("ii->", set(), (4, 4)),
    )
  ),
  *(
    _case(name, {2, 3}, _matrices(2, 3, 4, 4))
    for name in (
      "Cholesky",
      "LogMatrixDeterminant",
      "MatrixDeterminant",
      "MatrixInverse",
      "MatrixSquareRoot",
      "Qr",
    )
  ),
  _case("CholeskyGrad", {2, 3}, _matrices(2, 3, 4, 4), _matrices(2, 3, 4, 4)),
  _case("MatrixLogarithm", {2, 3}, _matrices(2, 3, 4, 4).astype(np.complex64)),
  *(
    _case(name, {2, 3}, _matrices(2, 3, 4, 4), _matrices(2, 3, 4, 4)[..., :1])
    for name in ("MatrixSolve", "MatrixTriangularSolve")
  ),
  _case(
    "MatrixTriangularSolve for all",
    {2},
    _matrices(2, 1, 4, 4),
    _matrices(2, 3, 4, 4)[..., :1],
  ),
  *(
    _case(
      f"{name} {wanted}",
      {2, 3},
      _matrices(2, 3, 4, 4),
      made=None if wanted else 1,
      **{key: wanted},
    )
    for name, key in (("SelfAdjointEigV2", "compute_v"), ("Svd", "compute_uv"))
    for wanted in (False, True)
  ),
  *(
    _case(
      f"{way}FFT{'' if rank == 1 else f'{rank}D'}",
      {2, 3, 4, 5} - {2 + i for i in range(4 - rank, 4)},
      _complex(2, 3, 4, 5),
    )
    for way in ("", "I")
    for rank in (1, 2, 3)
  ),
]


def _of_cell(steps, *names):
  """Returns what a cell of 6 units reads of 4 sequences with 3 features."""
  shapes = {
    "x": (*steps, 4, 3),
    "start": (4, 6),
    "step": (*steps, 4, 6),
    "w": (9, 24),
    "peephole": (6,),
    "b": (24,),
    "w_ru": (9, 12),
    "w_c": (9, 6),
    "b_ru": (12,),
  }
  return [images(*shapes[name]) / 2 for name in names]


_LSTM = ["x", "start", "start", "w", *["peephole"] * 3, "b"]
_GRU = ["x", "start", "w_ru", "w_c", "b_ru", "peephole"]
_STEPS = Known(np.int64(5))
_CELLS = [
  _case("LSTMBlockCell", {4}, *_of_cell((), *_LSTM)),
  _case(
    "LSTMBlockCellGrad",
    {4},
    *_of_cell((), *_LSTM, *["step"] * 8),
    use_peephole=True,
  ),
  _case("GRUBlockCell", {4}, *_of_cell((), *_GRU)),
  _case("GRUBlockCellGrad", {4}, *_of_cell((), *_GRU, *["step"] * 4)),
  _case("BlockLSTM", {4}, _STEPS, *_of_cell((5,), *_LSTM)),
  _case("BlockLSTMV2", {4}, _STEPS, *_of_cell((5,), *_LSTM)),
  *(
    _case(
      f"BlockLSTMGrad{v}",
      {4},
      _STEPS,
      *_of_cell((5,), *_LSTM, *["step"] * 9),
      use_peephole=True,
    )
    for v in ("", "V2")
  ),
]


def _sliced(name, sizes, take):
  """Returns the case of a slice of [4, 5, 6].

  Args:
    name: What is special about it.
    sizes: As of `_case`.
    take: Returns the slice of a tensor.
  """
  with tf.Graph().as_default():
    made = take(_v1.placeholder(tf.float32, [4, 5, 6])).op
    bounds = [tf.get_static_value(x).tolist() for x in made.inputs[1:]]
    masks = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    attributes = {f"{x}_mask": made.get_attr(f"{x}_mask") for x in masks}
  return _case(f"StridedSlice {name}", sizes, (4, 5, 6), *bounds, **attributes)


def _unary(name):
  """Returns the case of an op of one input, by what it is fed with."""
  x = floats(5) / 2.1  # In (0, 1).
  if name == "Acosh":
    x += 1
  elif name in ("Angle", "ComplexAbs", "Conj", "Imag", "Real"):
    x = _complex(5)
  elif name in ("Invert", "PopulationCount"):
    x = ids(9, 5)
  elif name == "LogicalNot":
    x = x > 0.5
  elif name in ("Elu", "LeakyRelu", "Relu", "Relu6", "Selu"):
    x = 14 * x - 4
  return _case(name, {5}, x, **_ATTRIBUTES.get(name, {}))


def _binary(name):
  """Returns the case of an op of two inputs, of which one is broadcast."""
  x, y = floats(1, 5) / 2.1, floats(5) / 2.1
  if name in _OF_INTEGERS:
    x, y = 1 + ids(9, 1, 5), 1 + ids(9, 5)
  elif name in ("LogicalAnd", "LogicalOr"):
    x, y = x > 0.5, y > 0.5
  elif name in ("Polygamma", "Zeta"):
    x, y = np.round(4 * x) + 2, y + 1
  return _case(name, {5}, x, y)


# Types of ops of one input, of two that are broadcast, and of two of a shape.
_UNARY = [
  "Abs",
  "Acos",
  "Acosh",
  "Angle",
  "Asin",
  "Asinh",
  "Atan",
  "Atanh",
  "BesselI0",
  "BesselI0e",
  "BesselI1",
  "BesselI1e",
  "BesselJ0",
  "BesselJ1",
  "BesselK0",
  "BesselK0e",
  "BesselK1",
  "BesselK1e",
  "BesselY0",
  "BesselY1",
  "Bucketize",
  "Cast",
  "Ceil",
  "CheckNumerics",
  "ComplexAbs",
  "Conj",
  "Cos",
  "Cosh",
  "Dawsn",
  "Digamma",
  "Elu",
  "Erf",
  "Erfc",
  "Erfinv",
  "Exp",
  "Expint",
  "Expm1",
  "FakeQuantWithMinMaxArgs",
  "Floor",
  "FresnelCos",
  "FresnelSin",
  "Identity",
  "Imag",
  "Inv",
  "Invert",
  "IsFinite",
  "IsInf",
  "IsNan",
  "LeakyRelu",
  "Lgamma",
  "Log",
  "Log1p",
  "LogicalNot",
  "Ndtri",
  "Neg",
  "OnesLike",
  "PopulationCount",
  "PreventGradient",
  "Real",
  "Reciprocal",
  "Relu",
  "Relu6",
  "Rint",
  "Round",
  "Rsqrt",
  "Selu",
  "Sigmoid",
  "Sign",
  "Sin",
  "Sinh",
  "Snapshot",
  "Softplus",
  "Softsign",
  "Spence",
  "Sqrt",
  "Square",
  "StopGradient",
  "Tan",
  "Tanh",
  "ZerosLike",
]
_BROADCAST = [
  "Add",
  "AddV2",
  "Atan2",
  "BitwiseAnd",
  "BitwiseOr",
  "BitwiseXor",
  "Complex",
  "Div",
  "DivNoNan",
  "FloorDiv",
  "FloorMod",
  "Greater",
  "GreaterEqual",
  "Igamma",
  "IgammaGradA",
  "Igammac",
  "LeftShift",
  "Less",
  "LessEqual",
  "LogicalAnd",
  "LogicalOr",
  "Maximum",
  "Minimum",
  "Mod",
  "Mul",
  "MulNoNan",
  "NextAfter",
  "Polygamma",
  "Pow",
  "RandomGammaGrad",
  "RealDiv",
  "RightShift",
  "SquaredDifference",
  "Sub",
  "TruncateDiv",
  "TruncateMod",
  "Xdivy",
  "Xlog1py",
  "Xlogy",
  "Zeta",
]
_OF_ONE_SHAPE = [
  "EluGrad",
  "FakeQuantWithMinMaxArgsGradient",
  "InvGrad",
  "LeakyReluGrad",
  "ReciprocalGrad",
  "Relu6Grad",
  "ReluGrad",
  "RsqrtGrad",
  "SeluGrad",
  "SigmoidGrad",
  "SoftplusGrad",
  "SoftsignGrad",
  "SqrtGrad",
  "TanhGrad",
]

_ATTRIBUTES = {
  "Bucketize": {"boundaries": [0.2, 0.6]},
  "Cast": {"DstT": tf.float64},
  "CheckNumerics": {"message": "no number"},
  "PreventGradient": {"message": "no gradient"},
  "LeakyRelu": {"alpha": 0.3},
  "LeakyReluGrad": {"alpha": 0.3},
}
_OF_INTEGERS = (
  "BitwiseAnd",
  "BitwiseOr",
  "BitwiseXor",
  "LeftShift",
  "Mod",
  "RightShift",
  "TruncateDiv",
  "TruncateMod",
)
_ENTRIES = [
  *map(_unary, _UNARY),
  *map(_binary, _BROADCAST),
  *(
    _case(
      name,
      {5},
      floats(5) / 2.1,
      floats(5) / 2.1,
      **_ATTRIBUTES.get(name, {}),
    )
    for name in _OF_ONE_SHAPE
  ),
  _case("Tanh of rows", {4, 5}, (4, 5)),
  _case("TanhGrad of rows", {4, 5}, (4, 5), (4, 5)),
  _case("Mul of rows", {3, 4, 5}, (3, 4, 5), (4, 5)),
  _case("IdentityN", {2, 4, 5, 6}, ((4, 5), (2,), (6,))),
]
_BOUNDS = [np.float32(-0.4), np.float32(0.8)]
_TIES = ids(3, 3, 4, 5).astype(np.float32)
_INFINITIES = np.float32([-np.inf, 1, np.inf])[ids(3, 3, 4, 5)]
_SHAPES = [
  *(
    _case(
      f"{name} over {over} {keep_dims}",
      {3, 4, 5},
      (3, 4, 5),
      Known(np.array(over, np.int32)),
      keep_dims=keep_dims,
    )
    for name in ("EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
    for over, keep_dims in itertools.product(([-1, 0], [1], []), (False, True))
  ),
  *(
    _case(f"{name} of integers", sizes, ids(9, 3, 4, 5) - 4, 1)
    for name, sizes in (
      ("Max", {3, 4, 5}),
      ("Mean", {3, 5}),
      ("Prod", {3, 4, 5}),
      ("Sum", {3, 4, 5}),
    )
  ),
  *(_case(name, {3, 4, 5}, images(3, 4, 5) > 0, 1) for name in ("All", "Any")),
  *(
    _case(f"{name} of {what}", {3, 4, 5}, values, 1)
    for name in ("Max", "Min", "ArgMax", "ArgMin")
    for what, values in (("ties", _TIES), ("infinities", _INFINITIES))
  ),
  *(
    _case(f"{name} along {axis}", {3, 4, 5}, _TIES, axis, output_type=dtype)
    for name in ("ArgMax", "ArgMin")
    for axis, dtype in ((0, tf.int32), (2, tf.int64), (-1, tf.int32))
  ),
  _case("ArgMax of truths", {3, 5}, _TIES > 0, 1),
  *(
    _case(f"{name} over what is fed", set(), (3, 4, 5), np.int32(1))
    for name in ("ArgMax", "Cumsum", "Max", "Mean", "Sum")
  ),
  _case(
    "EuclideanNorm of zeros",
    {3, 4, 5},
    floats(3, 4, 5) * np.float32([[0], [0], [0], [1]]),
    1,
  ),
  *(_case(name, {3, 4, 5}, (3, 4, 5)) for name in ("LogSoftmax", "Softmax")),
  _case("AddV2 of ones", {3, 4, 5}, (3, 4, 1), (4, 5)),
  _case("SelectV2", {3, 4, 5}, images(3, 1, 5) > 0, (4, 5), (4, 1)),
  *(
    _case(
      f"Select of {shape}",
      {3, 4},
      np.asarray(floats(*shape) > 1),
      (3, 4),
      (3, 4),
    )
    for shape in ((), (3,), (3, 4))
  ),
  *(
    _case(name, {3, 4, 5}, ids(2, 3, 4, 1), ids(2, 4, 5))
    for name in ("Equal", "NotEqual")
  ),
  _case(
    "Equal of any shapes",
    set(),
    (4, 5),
    (4, 5),
    incompatible_shape_error=False,
  ),
  _case("ClipByValue", {4, 5}, (4, 5), np.float32(0.5), floats(4, 5) + 1),
  _case("Betainc", {4, 5}, *[floats(4, 5) / 3 for _ in range(3)]),
  _case("FakeQuantWithMinMaxVars", {4, 5}, (4, 5), *_BOUNDS),
  _case("FakeQuantWithMinMaxVarsGradient", {4, 5}, (4, 5), (4, 5), *_BOUNDS),
  _case("AddN", {4, 5}, ((4, 5),) * 3),
  _case("AccumulateNV2", {4, 5}, ((4, 5),) * 3, shape=[4, 5]),
  _case("ApproximateEqual", {4, 5}, (4, 5), (4, 5), tolerance=1),
  *(
    _case(f"BiasAdd of {form}", {2, 3, 4, 5}, *images, data_format=form)
    for form, *images in (
      ("NHWC", images(3, 4, 2, 5), images(5)),
      ("NCHW", images(3, 5, 4, 2), images(5)),
    )
  ),
  _case("BiasAdd of a split bias", {5}, (3, 4, 5), (5,), on=[1]),
  *(
    _case(
      f"BiasAddGrad of {form}", {2, 3, 4, 5}, (3, 4, 2, 5), data_format=form
    )
    for form in ("NHWC", "NCHW")
  ),
  _case("Cross", {4, 5}, (4, 5, 3), (4, 5, 3), on=[0]),
  _case("Transpose", {3, 4, 5}, (3, 4, 5), [1, 2, 0]),
  *(
    _case(f"Reshape to {after}", sizes, before, after, asks_rows=True)
    for sizes, before, after in (
      ({3, 4}, (3, 4, 5), [3, -1]),
      ({2, 6}, (2, 5, 6), [-1, 6]),
      ({2, 5, 6}, (2, 5, 6), [2, 5, 3, 2]),
      ({2, 5, 6}, (2, 5, 6), [2, 5, 3, 2, 1]),
      ({2, 5, 6}, (2, 5, 6), [-1, 5, 6]),
      ({2, 3, 4, 5}, (3, 4, 5, 2), [3, 4, 1, 5, 2]),
      ({3, 6}, (3, 6), [3, 3, 2]),
      ({3}, (3, 6), [-1]),
      ({3}, (3, 6), [2, 9]),
      ({2, 3}, (2, 3, 4, 6), [2, 72]),
    )
  ),
  *(
    _case(f"ExpandDims at {axis}", {3, 4}, (3, 4), axis)
    for axis in (0, 1, 2, -1, -2)
  ),
  _case("Squeeze", {3, 4}, (3, 1, 4), asks_rows=True),
  _case("Squeeze of one", {3, 4}, (3, 1, 4, 1), axis=[-3]),
  _case("EnsureShape", {3, 4, 5}, (3, 4, 5), shape=[None, 4, 5]),
  _case("Tile", {3, 5}, (3, 4, 5), [1, 2, 1]),
  _case("Pad", {3, 5}, (3, 4, 5), [[0, 0], [1, 2], [0, 0]]),
  _case("PadV2", {3, 5}, (3, 4, 5), [[0, 0], [1, 2], [0, 0]], 3.0),
  _case(
    "MirrorPad", {3, 5}, (3, 4, 5), [[0, 0], [1, 2], [0, 0]], mode="REFLECT"
  ),
  _case("Slice", {3, 5}, (3, 4, 5), [0, 1, 0], [3, 2, -1]),
  _sliced("of one", {4, 6}, lambda x: x[:, -1]),
  _sliced("of all", {4, 5, 6}, lambda x: x[:, :, :]),
  _sliced("by 2", {6}, lambda x: x[1:3, ::2, 0:6]),
  _sliced("beyond", {4, 6}, lambda x: x[:, 1:, 0:100]),
  _sliced("from the last", {4, 6}, lambda x: x[:, 1:, -6:]),
  _sliced("less one", {4, 5}, lambda x: x[:, :, :-1]),
  _sliced("backwards", {6}, lambda x: x[::-1, ::-2]),
  _sliced("of the rest", {5, 6}, lambda x: x[1, ..., :]),
  _sliced("with new", {4, 6}, lambda x: x[tf.newaxis, ..., 1:, tf.newaxis, :]),
  _sliced("new before", {4, 6}, lambda x: x[:, tf.newaxis, 2, ..., tf.newaxis]),
  _sliced("rest of nothing", {6}, lambda x: x[1:, ..., 0, :]),
  _case(
    "StridedSlice to what is fed",
    {4, 6},
    (4, 5, 6),
    [0, 0],
    np.int32([4, 3]),
    [1, 1],
    begin_mask=3,
    end_mask=1,
  ),
  _case(
    "StridedSliceGrad",
    {6},
    [4, 5, 6],
    [1, 0],
    [3, 1],
    [1, 1],
    (2, 6),
    shrink_axis_mask=2,
  ),
  *(
    _case(f"ConcatV2 along {axis}", {3, 5}, ((3, 4, 5), (3, 2, 5)), axis)
    for axis in (1, -2)
  ),
  *(
    _case(f"Split along {axis}", sizes, axis, (2, 3, 12), num_split=count)
    for axis, count, sizes in (
      (2, 3, {2, 3, 12}),
      (-1, 4, {2, 3}),
      (1, 3, {2, 12}),
    )
  ),
  _case("SplitV along -1", {2, 12}, (2, 12), [6, 4, 2], -1, num_split=3),
  _case("SplitV", {3, 5}, (3, 4, 5), [1, 3], 1, num_split=2),
  _case("ReverseV2", {3, 5}, (3, 4, 5), [1]),
  _case("Roll", {3, 5}, (3, 4, 5), 1, 1),
  _case("BroadcastTo", {3, 5}, (3, 1, 5), [2, 3, 4, 5]),
  _case(
    "ReverseSequence",
    {3, 5},
    (3, 4, 5),
    np.array([1, 4, 2], np.int64),
    seq_dim=1,
    batch_dim=0,
  ),
  _case("TensorScatterAdd", {4}, (3, 4), ids(3, 2, 6, 1), (2, 6, 4)),
]

CASES = [
  *_IMAGES,
  *_SELECTIONS,
  *_COUNTS,
  *_TEXTS,
  *_PRODUCTS,
  *_CELLS,
  *_ENTRIES,
  *_SHAPES,
]
