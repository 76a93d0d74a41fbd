"""What rules say of dimensions, done literally, and what they say of sizes.

Each op is executed on parts of its inputs along each label of its rule, on even
parts, uneven ones, one that is empty and one of all: what parts make, put
together, is what the op makes. And from inputs of unknown sizes the sizes of
outputs follow as polynomials, whose values are those of what the op makes.
"""

import functools

from estimator_mp.analysis import symbolic_shapes
from estimator_mp.rules import all_rules
from estimator_mp.rules.rule import (
  Reduction,
  SizesOf,
  is_repeated,
  may_be_split,
)
from tests import tiers
from tests.estimator_mp import session_configs
from tests.estimator_mp.rules import cases
from tests.estimator_mp.sizes import numbers as numbers_lib

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_REDUCTIONS = {
  Reduction.ALL: np.logical_and,
  Reduction.ANY: np.logical_or,
  Reduction.MAX: np.maximum,
  Reduction.MIN: np.minimum,
  Reduction.PRODUCT: np.multiply,
  Reduction.SUM: np.add,
}

# Over the split dimension their parts exchange results.
_BY_EXCHANGE = (
  "ArgM",
  "Conv2D of groups",
  "EuclideanNorm",
  "Gather",
  "LogSoftmax",
  "Softmax",
  "SparseSoftmax",
  "Split",
)


def _sizes_of_parts(size):
  """Returns uneven and even parts; one that is empty, and one of all."""
  found = [(1, 2, size - 3)] if size > 3 else []
  found.append((size - 1, 1))
  if size % 2 == 0:
    found.append((size // 2,) * 2)
  return [*found, (0, size)]


def _run(fetches, feed):
  with _v1.Session(config=session_configs.config()) as session:
    return session.run(fetches, feed)


class _Literal:
  """Does what the rule of one op says."""

  def __init__(self, case):
    self.op = case.op(lambda value: value.shape, "plain")
    self.shapes = symbolic_shapes.SymbolicShapes()
    self.shapes.add([x.op for x in self.op.inputs] + [self.op])
    self.rule = self.shapes.rule(self.op)
    self._count = case.made
    self._feed = {
      tensor: value
      for tensor, value in zip(self.op.inputs, case.flat, strict=True)
      if not isinstance(value, cases.Known)
    }
    self._made = []

  def labels(self):
    """Returns labels along which parts make the op, with sizes they have."""
    found = {}
    for index, tensor in enumerate(self.op.inputs):
      labels = self.rule.labels(index)
      for label, size in zip(labels, tensor.shape.as_list(), strict=False):
        if label in self.rule.exchanged:
          continue
        if may_be_split(label) and (size > 1 or not is_repeated(label)):
          found.setdefault(label, set()).add(size)
    return {k: x for k, x in found.items() if self._has_parts(k) and min(x)}

  def _has_parts(self, label):
    outputs = zip(self.op.outputs, self.rule.outputs, strict=True)
    for tensor, labels in list(outputs)[: self._count]:
      if labels is None:
        return False
      if label not in labels:
        if self.rule.reduction is None or is_repeated(label):
          return False
        if self.op.type == "Mean" and not tensor.dtype.is_floating:
          return False
    return True

  def split(self, label, sizes):
    """Makes parts along a label, if their sizes fit all dimensions."""
    if self.rule.nonempty and 0 in sizes:
      return False
    read = [self._read(i, label, sizes) for i in range(len(self.op.inputs))]
    if None in read:
      return False
    parts = [
      _copy(self.op.node_def, tensors, self._attributes(label, sizes, i))
      for i, tensors in enumerate(zip(*read, strict=True))
    ]
    made = [list(x) for x in zip(*parts, strict=True)]
    if self.op.type == "Mean" and label not in self.rule.outputs[0]:
      # A part of it is a sum, over the number of entries of all parts.
      shares = [size / sum(sizes) for size in sizes]
      terms = zip(made[0], shares, strict=True)
      made = [[x * share for x, share in terms if share]]
    self._made.append((label, sizes, made))
    return True

  def _attributes(self, label, sizes, number):
    attributes = dict(self.rule.attributes)
    if self.rule.shape_attribute and label in self.rule.outputs[0]:
      shape = self.op.outputs[0].shape.as_list()
      shape[self.rule.outputs[0].index(label)] = sizes[number]
      value = _v1.AttrValue(shape=tf.TensorShape(shape).as_proto())
      attributes[self.rule.shape_attribute] = value
    return attributes

  def _read(self, index, label, sizes):
    """Returns what each part reads in place of an input."""
    tensor, read = self.op.inputs[index], self.rule.inputs[index]
    if isinstance(read, SizesOf):
      labels = self.rule.outputs[read.output]
      entry = read.entry(labels.index(label)) if label in labels else None
      if entry is None:
        return [tensor] * len(sizes)
      shape = self.op.outputs[read.output].shape
      own = _scaled(sizes, shape[labels.index(label)])
      if own is None:
        return None
      vector = list(tf.get_static_value(tensor))
      return [
        tf.constant([*vector[:entry], size, *vector[entry + 1 :]], tensor.dtype)
        for size in own
      ]
    labels = self.rule.labels(index)
    if label not in labels:
      return [tensor] * len(sizes)
    axis = labels.index(label)
    if tensor.shape[axis] == 1 and is_repeated(label):
      return [tensor] * len(sizes)
    own = _scaled(sizes, tensor.shape[axis])
    return None if own is None else tf.split(tensor, own, axis)

  def assert_is_linear(self, group):
    """Asserts that the op may be given what adds up in place of inputs."""
    term = [
      0.3 * tensor + 1 if i in group else tensor
      for i, tensor in enumerate(self.op.inputs)
    ]
    rest = [
      tensor - term[i] if i in group else tensor
      for i, tensor in enumerate(self.op.inputs)
    ]
    parts = [_copy(self.op.node_def, x, {}) for x in (term, rest)]
    expected, found = _run([list(self.op.outputs), parts], self._feed)
    for output, *made in list(zip(expected, *found, strict=True))[
      : self._count
    ]:
      np.testing.assert_allclose(sum(made), output, 2e-4, 2e-4)

  def check(self):
    """Asserts that what parts make is what the op makes."""
    fetches = [list(self.op.outputs), [made for _, _, made in self._made]]
    expected, found = _run(fetches, self._feed)
    for (label, sizes, _), made in zip(self._made, found, strict=True):
      outputs = zip(self.rule.outputs, expected, made, strict=True)
      for labels, whole, parts in list(outputs)[: self._count]:
        message = f"{sizes} along {label} of {self.rule}"
        _assert_same(self._together(label, labels, parts), whole, message)

  def _together(self, label, labels, parts):
    if label in labels:
      return np.concatenate(parts, labels.index(label))
    return functools.reduce(_REDUCTIONS[self.rule.reduction], parts)


def _scaled(sizes, size):
  """Returns sizes of parts of a dimension in proportion; None if not whole."""
  total = sum(sizes)
  if any(x * size % total for x in sizes):
    return None
  return [x * size // total for x in sizes]


def _copy(node_def, inputs, attributes):
  """Returns the outputs of a copy of an op."""
  definition = _v1.GraphDef()
  definition.versions.producer = tf.version.GRAPH_DEF_VERSION
  node = definition.node.add()
  node.CopyFrom(node_def)
  node.attr.pop("_class", None)
  for name, value in attributes.items():
    node.attr[name].CopyFrom(value)
  node.input[:] = [f"input_{i}" for i in range(len(inputs))]
  read = {f"input_{i}:0": tensor for i, tensor in enumerate(inputs)}
  (op,) = tf.graph_util.import_graph_def(
    definition, read, return_elements=[node.name], name="part"
  )
  return op.outputs


def _assert_same(found, expected, message):
  assert np.shape(found) == np.shape(expected), message
  if np.asarray(expected).dtype.kind in "fc":
    np.testing.assert_allclose(found, expected, 2e-5, 2e-5, err_msg=message)
  else:
    np.testing.assert_array_equal(found, expected, message)


class RulesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (case.name, case) for case in cases.CASES[:: 2 if tiers.FAST else 1]
  )
  def test_parts(self, case):
    with tf.Graph().as_default():
      literal = _Literal(case)
      if literal.rule is None:
        self.assertEmpty(case.sizes)
        return
      if literal.rule.is_tuple:
        return
      found = set()
      for label, sizes in literal.labels().items():
        size = min(sizes)
        if any([literal.split(label, x) for x in _sizes_of_parts(size)]):
          found |= sizes
      literal.check()
    if not case.name.startswith(_BY_EXCHANGE):
      self.assertContainsSubset(case.sizes, found)

  @parameterized.named_parameters(
    (case.name, case) for case in cases.CASES[:: 4 if tiers.FAST else 1]
  )
  def test_sums(self, case):
    with tf.Graph().as_default():
      literal = _Literal(case)
      rule, inputs = literal.rule, literal.op.inputs
      for group in () if rule is None else rule.linear:
        self.assertNotEmpty(group)
        self.assertLessEqual(max(group), len(inputs) - 1)
        if all(inputs[i].dtype in (tf.float32, tf.float64) for i in group):
          literal.assert_is_linear(group)

  @parameterized.named_parameters(
    (case.name, case) for case in cases.CASES[:: 4 if tiers.FAST else 1]
  )
  def test_sizes(self, case):
    with tf.Graph().as_default():
      try:
        op = case.op(lambda value: [None] * value.ndim)
      except ValueError:
        return  # TensorFlow has to know the sizes.
      shapes = symbolic_shapes.SymbolicShapes()
      shapes.add([x.op for x in op.inputs] + [op])
      feed = {
        tensor: value
        for tensor, value in zip(op.inputs, case.flat, strict=True)
        if not isinstance(value, cases.Known)
      }
      made = _run(list(op.outputs), feed)
    numbers = {
      f"{tensor.name}[{axis}]": size
      for tensor, value in feed.items()
      for axis, size in enumerate(value.shape)
    }
    for tensor, value in list(zip(op.outputs, made, strict=True))[: case.made]:
      shape = shapes.shape(tensor)
      if shape is None or not tensor.shape.is_compatible_with(value.shape):
        continue  # TensorFlow itself is wrong of some diagonals.
      for size, actual in zip(shape, np.shape(value), strict=True):
        found = numbers_lib.value_of(size, numbers)
        if found is not None:
          self.assertEqual(found, actual, str(shape))

  def test_every_case_has_a_rule(self):
    types = {case.name.split()[0] for case in cases.CASES}
    self.assertContainsSubset(types, all_rules.TABLE.types)


if __name__ == "__main__":
  absltest.main()
