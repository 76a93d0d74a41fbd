"""What rules say, done literally: parts make what the op makes, or none does.

Each case is an op with inputs whose dimensions have sizes of their own. For
each size, and parts of several sizes, the rule is asked what becomes of the op
if one input is split there, or all that have the size, with all that the graph
may know of shapes, some of it and nothing. What it says is done: parts read
what they are to read, and what they make is put together. So a rule is either
right or silent; the case names the dimensions of which it has to speak, however
many rows there are. In a sunk graph the gradients are those of the op, too.
"""

import contextlib
import functools
import itertools
from typing import Any

from estimator_mp.model_axis.decisions import (
  Composite,
  Constants,
  Reduction,
  Replicate,
  Resized,
  Shard,
  Shifted,
)
from estimator_mp.model_axis.rules import table
from tests import tiers
from tests.estimator_mp import session_configs
from tests.estimator_mp.model_axis import sinking
from tests.estimator_mp.rules import cases

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_rng = np.random.RandomState(12)
_REDUCTIONS = {
  Reduction.ALL: np.logical_and,
  Reduction.ANY: np.logical_or,
  Reduction.MAXIMUM: np.maximum,
  Reduction.MINIMUM: np.minimum,
  Reduction.PRODUCT: np.multiply,
  Reduction.SUM: np.add,
}


def _ways_of(case, size):
  """Yields how inputs of a case are split along the dimensions of a size."""
  for sizes in _sizes_of_parts(size):
    places = [
      [
        Shard(axis, sizes)
        for axis, own in enumerate(getattr(value, "shape", ()))
        if own == size and (case.on is None or index in case.on)
      ]
      for index, value in enumerate(case.flat)
    ]
    yield from _ways(places)


class _Parts:
  """Does what rules say of one op."""

  def __init__(self, case):
    self._case = case
    self._plain = case.op(lambda value: value.shape, "plain")
    self._rule = table.TABLE.rules[self._plain.type]
    self._feed = {
      tensor: value
      for tensor, value in zip(self._plain.inputs, case.flat, strict=True)
      if not isinstance(value, cases.Known)
    }
    self._done: list[tuple[Any, Any]] = []  # Decisions, and what they made.

  def sizes(self):
    """Returns the sizes of dimensions."""
    fed = self._feed.values()
    return sorted({size for x in fed for size in x.shape if size > 1})

  def first_way(self, size):
    """Returns a way to split inputs of which the rule says something."""
    ways = _ways_of(self._case, size)
    return next(x for x in ways if self._rule(self._plain, x) is not None)

  def speaks_of(self, size):
    """Whether the rule says something of the inputs that have a size."""
    spoken = [
      self._says(size, lambda value: value.shape),
      self._says(
        size,
        lambda value: [
          x if x == size or axis else None for axis, x in enumerate(value.shape)
        ],
      ),
      self._says(
        size, lambda value: [x if x == size else None for x in value.shape]
      ),
      self._says(size, lambda value: None),
      *(self._says(size, self._of_one(one)) for one in self._case.flat[:2]),
    ]
    if not self._case.asks_rows:
      assert spoken[1] in (spoken[0], None), size
    return any(spoken)

  def _of_one(self, known):
    """Returns what the graph knows if it knows the sizes of one input."""
    return lambda value: [x if value is known else None for x in value.shape]

  def _says(self, size, shape_of):
    """Does what the rule says; None if TensorFlow has to know the shapes."""
    try:
      op = self._case.op(shape_of)
    except ValueError:
      return None
    found = False
    for splits in _ways_of(self._case, size):
      decision = self._rule(op, splits)
      if decision is not None:
        found = True
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
      if isinstance(part, (Shard, Resized))
    }
    read = [
      _read(tensor, value, operand, count)
      for tensor, value, operand in zip(
        self._plain.inputs, self._case.flat, decision.operands, strict=True
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

  def check(self):
    """Asserts that what was made is what the op makes."""
    fetches = [list(self._plain.outputs), [made for _, made in self._done]]
    with _v1.Session(config=session_configs.config()) as session:
      expected, found = session.run(fetches, self._feed)
    for (decision, _), made in zip(self._done, found, strict=True):
      compared = zip(decision.outputs, expected, made, strict=True)
      for output, whole, parts in itertools.islice(compared, self._case.made):
        _assert_same(_put_together(output, parts), whole, str(decision))


def _sizes_of_parts(size):
  """Returns uneven and even parts; one that is empty, and one of all."""
  found = [(1, 2, size - 3)] if size > 3 else []
  found.append((size - 1, 1))
  if size % 2 == 0:
    found.append((size // 2,) * 2)
  return [*found, (0, size)]


def _ways(places):
  """Yields how inputs are split: one alone, or all that may be."""
  for index, splits in enumerate(places):
    for split in splits:
      yield [split if i == index else None for i in range(len(places))]
  yield from itertools.product(*(splits or [None] for splits in places))


def _read(tensor, value, operand, count):
  """Returns what each part reads in place of an input."""
  if isinstance(operand, Replicate):
    return [tensor] * count
  if isinstance(operand, Shard):
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
  # Of an old one, placeholders of scalars have any shape from then on.
  definition.versions.producer = tf.version.GRAPH_DEF_VERSION
  node = definition.node.add()
  node.CopyFrom(node_def)
  node.attr.pop("_class", None)  # Of an op that is not in the definition.
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
  if isinstance(output, Shard):
    assert tuple(x.shape[output.axis] for x in parts) == output.sizes, output
    return np.concatenate(parts, output.axis)
  if isinstance(output, Replicate):
    for part in parts:
      _assert_same(part, parts[0], "parts that make the same")
    return parts[0]
  return functools.reduce(_REDUCTIONS[output.reduction], parts)


def _assert_same(found, expected, message):
  assert np.shape(found) == np.shape(expected), message
  if np.asarray(expected).dtype.kind in "fc":
    np.testing.assert_allclose(found, expected, 2e-5, 2e-5, err_msg=message)
  else:
    np.testing.assert_array_equal(found, expected, message)


class ByPartsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (case.name, case) for case in cases.CASES[:: 4 if tiers.FAST else 1]
  )
  def test_rule(self, case):
    with tf.Graph().as_default():
      parts = _Parts(case)
      found = {size for size in parts.sizes() if parts.speaks_of(size)}
      parts.check()
    self.assertEqual(found, case.sizes)

  @parameterized.named_parameters(
    (case.name, case) for case in cases.CASES[:: 8 if tiers.FAST else 1]
  )
  def test_gradients(self, case):
    feeds = {
      f"x{i}": value
      for i, value in enumerate(case.flat)
      if not isinstance(value, cases.Known)
    }

    def build(**fed):
      tensors = [
        fed[f"x{i}"] if f"x{i}" in fed else tf.constant(x.value)
        for i, x in enumerate(case.flat)
      ]
      return case.outputs(tensors)[: case.made]

    try:
      plain = sinking.run(build, feeds, {})
    except (
      LookupError,
      tf.errors.InvalidArgumentError,
      tf.errors.UnimplementedError,
    ):
      return  # TensorFlow has none.
    if all(x is None for x in plain.gradients.values()):
      return
    for size in tiers.sample(sorted(case.sizes)):
      with tf.Graph().as_default():
        way = _Parts(case).first_way(size)
      splits = {f"x{i}": x for i, x in enumerate(way) if x is not None}
      sunk = sinking.run(build, feeds, splits)
      sinking.assert_same(self, sunk, plain, 2e-5, 2e-5)


class StatesTest(parameterized.TestCase):
  """What parts look up in a variable, or in a table, that is whole."""

  def setUp(self):
    super().setUp()
    self._variable = np.arange(60.0).reshape([5, 3, 4])

  def _check(self, make, inputs, split, feed):
    """Does what a rule says, and returns whether it says anything."""
    op = make(*inputs).op
    index = op.inputs[:].index(inputs[0])
    splits = [split if i == index else None for i in range(len(op.inputs))]
    decision = table.TABLE.rules[op.type](op, splits)
    if decision is None:
      return False
    parts = zip(
      *(
        _read(tensor, None, operand, len(split.sizes))
        for tensor, operand in zip(op.inputs, decision.operands, strict=True)
      ),
      strict=True,
    )
    made = [_copy(op.node_def, tensors, {})[0] for tensors in parts]
    with _v1.Session(config=session_configs.config()) as session:
      session.run([_v1.global_variables_initializer()])
      session.run(_v1.tables_initializer())
      expected, found = session.run([op.outputs[0], made], feed)
    (output,) = decision.outputs
    _assert_same(_put_together(output, found), expected, str(decision))
    return True

  @parameterized.product(axis=[0, 1, 2], batch_dims=[0, 1])
  def test_rows_of_a_variable(self, axis, batch_dims):
    ids = cases.ids(3, 5, 6, 7)
    with tf.Graph().as_default():
      variable = _v1.get_variable(
        "v", initializer=self._variable, use_resource=True
      )
      fed = _v1.placeholder(tf.int32, ids.shape)

      def gather(fed):
        return tf.raw_ops.ResourceGather(
          resource=variable.handle,
          indices=fed,
          dtype=tf.float64,
          batch_dims=batch_dims,
        )

      split = Shard(axis, (1, ids.shape[axis] - 1))
      is_said = self._check(gather, [fed], split, {fed: ids})
      self.assertEqual(is_said, axis >= batch_dims)

  @parameterized.parameters((0, True), (1, True), (2, False))
  def test_vectors_of_a_variable(self, axis, is_said):
    ids = cases.ids(3, 5, 6, 2)
    with tf.Graph().as_default():
      variable = _v1.get_variable(
        "v", initializer=self._variable, use_resource=True
      )
      fed = _v1.placeholder(tf.int32, ids.shape)

      def gather(fed):
        return tf.raw_ops.ResourceGatherNd(
          resource=variable.handle, indices=fed, dtype=tf.float64
        )

      split = Shard(axis, (1, ids.shape[axis] - 1))
      self.assertEqual(self._check(gather, [fed], split, {fed: ids}), is_said)

  @parameterized.parameters(0, 1)
  def test_keys_of_a_table(self, axis):
    with tf.Graph().as_default():
      words = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["oslo", "7"], [3, 4]), -1
      )
      keys = cases.texts(3, 4)
      fed = _v1.placeholder(tf.string, keys.shape)
      split = Shard(axis, (1, keys.shape[axis] - 1))
      self.assertTrue(self._check(words.lookup, [fed], split, {fed: keys}))

  def test_keys_with_defaults_of_their_own(self):
    with tf.Graph().as_default():
      words = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
      fed = _v1.placeholder(tf.string, [4])
      split, defaults = Shard(0, (1, 3)), tf.range(4, dtype=tf.int64)
      lookup = lambda x: words.lookup(x, defaults)  # noqa: E731
      self.assertFalse(self._check(lookup, [fed], split, {}))
      is_said = self._check(words.lookup, [fed], split, {fed: cases.texts(4)})
      self.assertTrue(is_said)

  def test_keys_that_may_be_vectors(self):
    with tf.Graph().as_default():
      words = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.int64, -1, empty_key=[-1, -1], deleted_key=[-2, -2]
      )
      fed = _v1.placeholder(tf.int64, [3, 2])
      self.assertFalse(self._check(words.lookup, [fed], Shard(1, (1, 1)), {}))


if __name__ == "__main__":
  absltest.main()
