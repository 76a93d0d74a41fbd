"""What rules say, done literally: parts make what the op makes, or none does.

Each case is an op with inputs whose dimensions have sizes of their own. For
each size, and parts of several sizes, the rule is asked what becomes of the op
if one input is split there, or all that have the size, with all that the graph
may know of shapes, some of it and nothing. What it says is done: parts read
what they are to read, and what they make is put together. So a rule is either
right or silent; the case names the dimensions of which it has to speak.
"""

import contextlib
import dataclasses
import functools
import itertools
from typing import Any

from estimator_mp.model_axis.decisions import (
  Composite,
  Constants,
  Join,
  Resized,
  Shifted,
  Split,
  Whole,
)
from estimator_mp.model_axis.rules import table

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_rng = np.random.RandomState(12)
_JOINS = {
  Join.ALL: np.logical_and,
  Join.ANY: np.logical_or,
  Join.MAXIMUM: np.maximum,
  Join.MINIMUM: np.minimum,
  Join.PRODUCT: np.multiply,
  Join.SUM: np.add,
}


@dataclasses.dataclass(frozen=True)
class _Known:
  """An input that is a constant of the graph."""

  value: Any


def _floats(*shape):
  return _rng.uniform(0.1, 2, shape).astype(np.float32)


def _images(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _ids(most, *shape):
  return _rng.randint(0, most, shape).astype(np.int32)


def _case(name, sizes, *inputs, on=None, made=None, **attributes):
  """Returns a case.

  Args:
    name: The type of the op, and after a space what is special about it.
    sizes: The sizes of the dimensions of which the rule has to speak.
    *inputs: Arrays that are fed, or what is `_Known`; lists of them.
    on: Which inputs are split; None for all of a size.
    made: How many outputs are compared; None for all. Nothing reads others.
    **attributes: Of the op.
  """
  return name, name.split()[0], sizes, inputs, on, made, attributes


_CONV = {"strides": [1, 2, 2, 1], "padding": "SAME"}
_CONV3 = {"strides": [1, 1, 2, 1, 1], "padding": "VALID"}
_POOL = {"ksize": [1, 2, 3, 1], **_CONV}
_POOL3 = {"ksize": [1, 2, 2, 1, 1], **_CONV3}
_VECTORS = [_floats(5) for _ in range(4)]
_NORMS = {"is_training": False, "epsilon": 1e-3}
_NORM_GRADS = [_images(4, 3, 6, 5), _images(4, 3, 6, 5), *_VECTORS[:3]]

_IMAGES = [
  _case("Conv2D", {4, 2, 7}, _images(4, 8, 6, 2), _images(3, 3, 2, 7), **_CONV),
  _case(
    "Conv2D with padding",
    {4, 2, 7},
    _images(4, 8, 6, 2),
    _images(3, 3, 2, 7),
    strides=[1, 1, 1, 1],
    padding="EXPLICIT",
    explicit_paddings=[0, 0, 2, 1, 0, 3, 0, 0],
  ),
  _case(
    "Conv2D of groups",
    {5, 8, 12},
    _images(5, 9, 7, 8),
    _images(3, 3, 2, 12),
    **_CONV,
  ),
  _case(
    "Conv3D",
    {2, 4, 5},
    _images(4, 7, 8, 6, 2),
    _images(1, 3, 3, 2, 5),
    **_CONV3,
  ),
  _case(
    "Conv2DBackpropInput",
    {5, 2, 7},
    _Known([5, 8, 6, 2]),
    _images(3, 3, 2, 7),
    _images(5, 4, 3, 7),
    **_CONV,
  ),
  _case(
    "Conv2DBackpropFilter",
    {5},
    _images(5, 8, 6, 2),
    _Known([3, 3, 2, 7]),
    _images(5, 4, 3, 7),
    **_CONV,
  ),
  _case(
    "Conv3DBackpropInputV2",
    {9, 2, 5},
    _Known([9, 7, 8, 6, 2]),
    _images(1, 3, 3, 2, 5),
    _images(9, 7, 3, 4, 5),
    **_CONV3,
  ),
  _case(
    "Conv3DBackpropFilterV2",
    {9},
    _images(9, 7, 8, 6, 2),
    _Known([1, 3, 3, 2, 5]),
    _images(9, 7, 3, 4, 5),
    **_CONV3,
  ),
  _case(
    "DepthwiseConv2dNative",
    {4, 5},
    _images(4, 8, 6, 5),
    _images(3, 3, 5, 2),
    **_CONV,
  ),
  _case(
    "DepthwiseConv2dNativeBackpropInput",
    {5, 6, 12},
    _Known([5, 9, 7, 6]),
    _images(3, 3, 6, 2),
    _images(5, 5, 4, 12),
    **_CONV,
  ),
  _case(
    "DepthwiseConv2dNativeBackpropFilter",
    {4},
    _images(4, 8, 6, 5),
    _Known([3, 3, 5, 2]),
    _images(4, 4, 3, 10),
    **_CONV,
  ),
  _case("AvgPool", {4, 5}, _images(4, 8, 6, 5), **_POOL),
  _case("AvgPool3D", {4, 5}, _images(4, 6, 8, 7, 5), **_POOL3),
  _case("MaxPool", {4, 5}, _images(4, 8, 6, 5), **_POOL),
  _case("MaxPool3D", {4, 5}, _images(4, 6, 8, 7, 5), **_POOL3),
  _case(
    "MaxPoolV2",
    {4, 5},
    _images(4, 8, 6, 5),
    _Known([1, 2, 3, 1]),
    _Known([1, 2, 2, 1]),
    padding="SAME",
  ),
  _case(
    "AvgPoolGrad", {9, 5}, _Known([9, 8, 6, 5]), _images(9, 4, 3, 5), **_POOL
  ),
  _case(
    "AvgPool3DGrad",
    {9, 2},
    _Known([9, 6, 8, 7, 2]),
    _images(9, 5, 4, 7, 2),
    **_POOL3,
  ),
  _case("MaxPoolWithArgmax", {4}, _images(4, 8, 6, 5), **_POOL),
  _case(
    "MaxPoolWithArgmax of all",
    set(),
    _images(4, 8, 6, 5),
    include_batch_in_index=True,
    **_POOL,
  ),
  *(
    _case(f"Resize{name}", {4, 5}, _images(4, 8, 6, 5), _Known([9, 3]))
    for name in ("Area", "Bicubic", "Bilinear", "NearestNeighbor")
  ),
  _case(
    "ResizeNearestNeighborGrad", {4, 5}, _images(4, 9, 3, 5), _Known([8, 6])
  ),
  *(
    _case(f"Resize{name}Grad", {4, 5}, _images(4, 9, 3, 5), _images(4, 8, 6, 5))
    for name in ("Bicubic", "Bilinear")
  ),
  _case("LRN", {4, 8, 6}, _images(4, 8, 6, 5), depth_radius=1),
  _case("LRNGrad", {4, 8, 6}, *[_images(4, 8, 6, 5) for _ in range(3)]),
  _case("DepthToSpace", {3}, _images(3, 5, 6, 8), block_size=2),
  _case("SpaceToDepth", {3}, _images(3, 8, 6, 5), block_size=2),
  _case(
    "ExtractImagePatches",
    {3},
    _images(3, 8, 6, 5),
    ksizes=[1, 2, 3, 1],
    strides=[1, 2, 1, 1],
    rates=[1, 1, 1, 1],
    padding="VALID",
  ),
  _case(
    "CropAndResize",
    {9, 5},
    _images(3, 8, 6, 5),
    np.tile([[0.1, 0.2, 0.9, 0.8]], [9, 1]).astype(np.float32),
    _ids(3, 9),
    _Known([4, 2]),
  ),
  _case(
    "SpaceToBatchND",
    {5},
    _images(3, 8, 6, 5),
    _Known([2, 3]),
    _Known([[0, 0], [0, 0]]),
  ),
  _case(
    "BatchToSpaceND",
    {5},
    _images(12, 8, 6, 5),
    _Known([2, 3]),
    _Known([[0, 0], [0, 0]]),
  ),
  *(
    _case(
      f"FusedBatchNorm{v}",
      {4, 5},
      _images(4, 3, 6, 5),
      *_VECTORS,
      made=1,
      **_NORMS,
    )
    for v in ("", "V2", "V3")
  ),
  _case(
    "FusedBatchNormV3 in training",
    {5},
    _images(4, 3, 6, 5),
    *_VECTORS[:2],
    _Known(np.zeros([0], np.float32)),
    _Known(np.zeros([0], np.float32)),
    on=[0],
    made=5,
    is_training=True,
  ),
  *(
    _case(f"FusedBatchNormGrad{v}", {4}, *_NORM_GRADS, made=3, **_NORMS)
    for v in ("", "V2")
  ),
  _case(
    "FusedBatchNormGradV3",
    {4},
    *_NORM_GRADS,
    _Known(np.float32(0)),
    made=3,
    **_NORMS,
  ),
]


class _Parts:
  """Does what rules say of one op."""

  def __init__(self, op_type, inputs, attributes):
    self._make = functools.partial(self._op, op_type, attributes)
    self._inputs = inputs
    self._flat = tf.nest.flatten(inputs)
    self._plain = self._make(lambda value: value.shape, "plain")
    self._rule = table.TABLE.rules[op_type]
    self._feed = {
      tensor: value
      for tensor, value in zip(self._plain.inputs, self._flat, strict=True)
      if not isinstance(value, _Known)
    }
    self._done: list[tuple[Any, Any]] = []  # Decisions, and what they made.

  def _op(self, op_type, attributes, shape_of, name):
    """Makes the op of tensors whose shapes are known so far."""

    def tensor(value):
      if isinstance(value, _Known):
        return tf.constant(value.value)
      return _v1.placeholder(value.dtype, shape_of(value))

    function = getattr(tf.raw_ops, op_type)
    names = list(function.__signature__.parameters)
    tensors = tf.nest.map_structure(tensor, list(self._inputs))
    made = function(
      **dict(zip(names, tensors, strict=False)), **attributes, name=name
    )
    return tf.nest.flatten(made)[0].op

  def sizes(self):
    """Returns the sizes of dimensions."""
    fed = [x for x in self._flat if not isinstance(x, _Known)]
    return sorted({size for x in fed for size in x.shape if size > 1})

  def speaks_of(self, size, on):
    """Whether the rule says something of the inputs that have a size."""
    knowledge = [
      lambda value: value.shape,
      lambda value: [x if x == size else None for x in value.shape],
      lambda value: None,
    ]
    found = False
    ops = []
    for shape_of in knowledge:
      with contextlib.suppress(ValueError):  # It has to know the rank.
        ops.append(self._make(shape_of, "asked"))
    for sizes in _sizes_of_parts(size):
      places = [
        [
          Split(axis, sizes)
          for axis, own in enumerate(getattr(value, "shape", ()))
          if own == size and (on is None or index in on)
        ]
        for index, value in enumerate(self._flat)
      ]
      for op, splits in itertools.product(ops, _ways(places)):
        decision = self._rule(op, splits)
        found |= decision is not None
        if decision is not None:
          self._do(decision)
    return found

  def _do(self, decision):
    """Makes parts, unless the same was said before."""
    if all(before != decision for before, _ in self._done):
      self._done.append((decision, self._made(decision)))

  def _made(self, decision):
    """Returns for each output a list of parts, or the whole."""
    (count,) = {
      len(part.sizes)
      for part in (*decision.operands, *decision.outputs)
      if isinstance(part, (Split, Resized))
    }
    read = [
      _read(tensor, value, operand, count)
      for tensor, value, operand in zip(
        self._plain.inputs, self._flat, decision.operands, strict=True
      )
    ]
    by_part = [list(tensors) for tensors in zip(*read, strict=True)]
    if isinstance(decision, Composite):
      on_part = lambda i: contextlib.nullcontext()  # noqa: E731
      return decision.build(self._plain, by_part, on_part)
    attributes = decision.attributes or ({},) * count
    made = [
      _copy(self._plain.node_def, tensors, own)
      for tensors, own in zip(by_part, attributes, strict=True)
    ]
    return [list(parts) for parts in zip(*made, strict=True)]

  def check(self, count):
    """Asserts that what was made is what the op makes.

    Args:
      count: Of how many outputs; None for all.
    """
    fetches = [list(self._plain.outputs), [made for _, made in self._done]]
    with _v1.Session() as session:
      expected, found = session.run(fetches, self._feed)
    for (decision, _), made in zip(self._done, found, strict=True):
      compared = zip(decision.outputs, expected, made, strict=True)
      for output, whole, parts in itertools.islice(compared, count):
        _assert_same(_put_together(output, parts), whole, str(decision))


def _sizes_of_parts(size):
  """Returns even and uneven parts; one that is empty, and one of all."""
  uneven = [(size - 1, 1), (0, size)]
  if size > 3:
    uneven.append((1, 2, size - 3))
  if size % 2 == 0:
    uneven.append((size // 2,) * 2)
  return uneven


def _ways(places):
  """Yields how inputs are split: one alone, or all that may be."""
  for index, splits in enumerate(places):
    for split in splits:
      yield [split if i == index else None for i in range(len(places))]
  yield from itertools.product(*(splits or [None] for splits in places))


def _read(tensor, value, operand, count):
  """Returns what each part reads in place of an input."""
  if isinstance(operand, Whole):
    return [tensor] * count
  if isinstance(operand, Split):
    return tf.split(tensor, operand.sizes, operand.axis)
  if isinstance(operand, Shifted):
    return [tensor - x for x in operand.offsets]
  if isinstance(operand, Constants):
    return [tf.constant(x, tensor.dtype) for x in operand.values]
  assert isinstance(operand, Resized), operand
  parts = []
  for size in operand.sizes:
    shape = np.array(value.value)
    shape[operand.index] = size
    parts.append(tf.constant(shape, tensor.dtype))
  return parts


def _copy(node_def, inputs, attributes):
  """Returns the outputs of a copy of an op."""
  definition = _v1.GraphDef()
  node = definition.node.add()
  node.CopyFrom(node_def)
  node.input[:] = [f"input_{i}" for i in range(len(inputs))]
  for name, value in attributes.items():
    node.attr[name].CopyFrom(value)
  read = {f"input_{i}:0": tensor for i, tensor in enumerate(inputs)}
  (op,) = tf.graph_util.import_graph_def(
    definition, read, return_elements=[node.name], name="part"
  )
  return op.outputs


def _put_together(output, parts):
  """Returns the whole of what parts have made."""
  if not isinstance(parts, list):
    return parts
  if isinstance(output, Split):
    assert tuple(x.shape[output.axis] for x in parts) == output.sizes, output
    return np.concatenate(parts, output.axis)
  if output.join is Join.FIRST:
    for part in parts:
      _assert_same(part, parts[0], "parts that make the same")
    return parts[0]
  return functools.reduce(_JOINS[output.join], parts)


def _assert_same(found, expected, message):
  assert np.shape(found) == np.shape(expected), message
  if np.asarray(expected).dtype.kind in "fc":
    np.testing.assert_allclose(found, expected, 2e-5, 2e-5, err_msg=message)
  else:
    np.testing.assert_array_equal(found, expected, message)


class ByPartsTest(parameterized.TestCase):
  @parameterized.named_parameters(*_IMAGES)
  def test_rule(self, op_type, spoken_of, inputs, on, made, attributes):
    with tf.Graph().as_default():
      parts = _Parts(op_type, inputs, attributes)
      found = {size for size in parts.sizes() if parts.speaks_of(size, on)}
      parts.check(made)
    self.assertEqual(found, spoken_of)


if __name__ == "__main__":
  absltest.main()
