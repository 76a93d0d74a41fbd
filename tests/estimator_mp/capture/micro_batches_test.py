"""Which inputs have examples, and that all have as many."""

import re

from estimator_mp.capture import (
  batch_size,
  input_pieces,
  micro_batches,
  replica_batches,
)
from estimator_mp.config import sharding_options
from tests.estimator_mp import graph_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _tensor(shape):
  return v1.placeholder(tf.float32, shape)


def _size(batch):
  """Returns the size of a batch, and the inputs that have examples."""
  inputs = micro_batches.inputs_with_examples(batch)
  return batch_size.batch_size(inputs), inputs


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
    self.assertEqual(batch_size.batch_size(found).known, 6)

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
      _size(batch)

  def test_no_examples(self):
    with self.assertRaisesRegex(ValueError, "^the batch has no examples, so"):
      _size({"x": _tensor([0, 3])})

  @parameterized.named_parameters(
    ("labels", {"features": {"a": 8, "x": 24}, "labels": 24}, "features/a"),
    ("one_more", {"features": {"x": 25}, "labels": 24}, "features/x"),
    ("middle", {"features": {"a": 4, "x": 1}, "labels": 4}, "features/x"),
  )
  def test_the_one_that_differs_is_named(self, sizes, other):
    batch = tf.nest.map_structure(lambda _: _tensor([None, 3]), sizes)
    found, inputs = _size(batch)
    feed = dict(
      zip(
        (entry.value for entry in inputs),
        (np.zeros([size, 3]) for size in tf.nest.flatten(sizes)),
        strict=True,
      )
    )
    with (
      v1.Session() as session,
      self.assertRaises(tf.errors.InvalidArgumentError) as raised,
    ):
      session.run(found.checked, feed)
    text = batch_size.message_of_check(raised.exception.message)
    size = sizes["labels"]
    name = other.partition("/")[2]
    self.assertEqual(
      text, _difference("labels", size, other, sizes["features"][name])
    )

  def test_a_replica_with_fewer_examples_than_slices(self):
    batch = input_pieces.join([{"x": _tensor([n, 2])} for n in (4, 1)])
    inputs = micro_batches.inputs_with_examples(batch)
    batches = replica_batches.find(inputs, 2)
    with self.assertRaisesRegex(
      ValueError,
      r"^num_micro_batches=2, but the batch of a replica has 1 example\(s\), "
      r"so it cannot be cut; let input_fn leave out short batches, as ",
    ):
      replica_batches.checked_sizes(batches, 2)


if __name__ == "__main__":
  absltest.main()
