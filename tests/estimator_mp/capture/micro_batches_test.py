"""The batch is cut into slices, which lose nothing."""

import re

from estimator_mp.capture import batch_size, input_pieces, micro_batches
from estimator_mp.config import sharding_options
from tests.estimator_mp import drawn, graph_case

import hypothesis
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized
from hypothesis import strategies

v1 = tf.compat.v1


def _tensor(shape):
  return v1.placeholder(tf.float32, shape)


def _parts(batch, count, rules=(), **fields):
  """Returns where slices begin, and the inputs that have examples."""
  inputs = micro_batches.inputs_with_examples(batch, rules)
  return micro_batches.parts_of_batch(inputs, count, **fields), inputs


def _difference(usual, size, other, other_size):
  """Returns what is said of inputs of different sizes."""
  return (
    f"{usual} has {size} examples but {other} has {other_size}, so the batch "
    f"cannot be cut; give the axis of the examples of {other}, or None if it "
    f'has none: batch_axis=[("^{other}$", None)]'
  )


class InputsTest(graph_case.GraphCase):
  def test_what_has_examples(self):
    x, time, rate = _tensor([6, 2]), _tensor([3, 6]), _tensor([])
    batch = {
      "features": {"x": (x, None), "time": time, "rate": rate, "name": "a"},
      "labels": [np.arange(6)],
    }
    found = micro_batches.inputs_with_examples(batch, [("time", 1)])
    self.assertEqual(
      [(entry.name, entry.axis) for entry in found],
      [("features/time", 1), ("features/x/0", 0), ("labels/0", 0)],
    )
    self.assertEqual(micro_batches.known_size(found), 6)

  def test_a_tensor_without_examples(self):
    x, table = _tensor([6, 2]), v1.placeholder(tf.float32)
    batch = {"table": table, "x": x}
    (entry,) = micro_batches.inputs_with_examples(batch, [("table", None)])
    self.assertIs(entry.value, x)

  @parameterized.named_parameters(
    (
      "unknown_rank",
      lambda: v1.placeholder(tf.float32),
      (),
      "x has an unknown number of dimensions.* set its shape in input_fn",
    ),
    (
      "too_large",
      lambda: _tensor([4, 3]),
      (("x", 2),),
      r"axis 2 for x, which has the shape \(4, 3\); use an axis that .* None",
    ),
    (
      "sparse",
      lambda: v1.sparse_placeholder(tf.float32, [4, 3]),
      (("x", 1),),
      "axis 1 for x, a SparseTensor; these can be cut on axis 0 only",
    ),
  )
  def test_refused(self, make, rules, message):
    with self.assertRaisesRegex(ValueError, message):
      micro_batches.inputs_with_examples({"x": make()}, rules)

  @parameterized.parameters(["x"], [("x", True)], [("x", 0, 1)])
  def test_malformed_rule(self, rule):
    said = re.escape(f"batch_axis has {rule!r}, which is not a pair of")
    with self.assertRaisesRegex(ValueError, said):
      sharding_options.ShardingOptions(batch_axis=[("y", None), rule])


class SizesTest(graph_case.GraphCase):
  """Sizes that the graph does not know are compared in each step."""

  @parameterized.named_parameters(
    ("labels", {"features": {"a": 8, "x": 24}, "labels": 24}, "labels"),
    ("most", {"features": {"a": 8, "x": 24, "y": 24}}, "features/x"),
  )
  def test_known_sizes_that_differ(self, sizes, usual):
    batch = tf.nest.map_structure(lambda size: _tensor([size, 3]), sizes)
    with self.assertRaisesWithLiteralMatch(
      ValueError, _difference(usual, 24, "features/a", 8)
    ):
      _parts(batch, 2)

  def test_no_examples(self):
    with self.assertRaisesRegex(ValueError, "^the batch has no examples, so"):
      _parts({"x": _tensor([0, 3])}, 2)

  @parameterized.named_parameters(
    ("labels", {"features": {"a": 8, "x": 24}, "labels": 24}, "features/a"),
    ("one_more", {"features": {"x": 25}, "labels": 24}, "features/x"),
    ("middle", {"features": {"a": 4, "x": 1}, "labels": 4}, "features/x"),
  )
  def test_the_one_that_differs_is_named(self, sizes, other):
    batch = tf.nest.map_structure(lambda _: _tensor([None, 3]), sizes)
    parts, inputs = _parts(batch, 2)
    feed = dict(
      zip(
        (entry.value for entry in inputs),
        (np.zeros([size, 3]) for size in tf.nest.flatten(sizes)),
        strict=True,
      )
    )
    slices = parts.cut(inputs[0].value, 0, 1)
    with (
      v1.Session() as session,
      self.assertRaises(tf.errors.InvalidArgumentError) as raised,
    ):
      session.run(slices, feed)
    text = batch_size.message_of_check(raised.exception.message)
    size = sizes["labels"]
    name = other.partition("/")[2]
    self.assertEqual(
      text, _difference("labels", size, other, sizes["features"][name])
    )


class CutTest(parameterized.TestCase):
  @hypothesis.given(
    strategies.integers(1, 9),
    strategies.integers(1, 5),
    strategies.integers(1, 3),
    strategies.booleans(),
    strategies.integers(0, 1),
  )
  @drawn.examples(40)
  def test_slices_make_up_the_batch(self, size, count, rows, is_static, axis):
    """In their order; the last example stands in for those that lack."""
    shape = [2, 2]
    shape[axis] = size if is_static else None
    with tf.Graph().as_default():
      x = _tensor(shape)
      parts, _ = _parts({"x": x}, count, [("x", axis)])
      shape[axis] = size * rows if is_static else None
      tensor = _tensor(shape)
      slices = parts.cut(tensor, axis, rows)
      whole = parts.join(slices, axis, rows, 2)
      value = np.random.RandomState(size).randn(
        *(size * rows if i == axis else 2 for i in range(2))
      )
      feed = {tensor: value, x: np.take(value, range(size), axis)}
      with v1.Session() as session:
        found, joined = session.run([slices, whole], feed)
    self.assertLen(found, count)
    sizes = [x.shape[axis] // rows for x in found]
    self.assertLessEqual(max(sizes) - min(sizes), 1)
    self.assertEqual(sum(sizes), max(size, count))
    np.testing.assert_allclose(joined, value, rtol=1e-6)

  def test_a_replica_with_fewer_examples_than_slices(self):
    with tf.Graph().as_default():
      batch = input_pieces.join([{"x": _tensor([n, 2])} for n in (4, 1)])
      with self.assertRaisesRegex(
        ValueError,
        r"^num_micro_batches=2, but the batch of a replica has 1 example\(s\), "
        r"so it cannot be cut; let input_fn leave out short batches, as ",
      ):
        _parts(batch, 4, num_replicas=2)

  def test_the_model_keeps_its_names(self):
    with tf.Graph().as_default() as graph:
      x = _tensor([None, 5])
      with v1.name_scope("outer"):
        _parts([x, np.arange(6)], 3)
      names = {op.name.partition("/")[0] for op in graph.get_operations()}
    self.assertEqual(names - {"outer"}, {"Placeholder", "estimator_mp"})


if __name__ == "__main__":
  absltest.main()
