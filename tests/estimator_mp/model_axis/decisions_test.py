"""Decisions as data: splits, and tables of rules."""

from estimator_mp.model_axis.decisions import Shard, Table, joined

from absl.testing import absltest


class SplitTest(absltest.TestCase):
  def test_parts_follow_each_other(self):
    split = Shard(1, (3, 1, 2))
    self.assertEqual(split.offsets, (0, 3, 4))
    self.assertEqual(split.size, 6)

  def test_other_dimensions_and_sizes(self):
    split = Shard(0, (4, 2))
    self.assertEqual(split.at(2), Shard(2, (4, 2)))
    self.assertEqual(split.times(3), Shard(0, (12, 6)))
    self.assertEqual(split.over(2), Shard(0, (2, 1)))
    self.assertIsNone(split.over(4))


class TableTest(absltest.TestCase):
  def test_tables_are_joined(self):
    one, two = Table(), Table()
    one.rule("Relu", "Tanh")(lambda op, splits: None)
    two.rule("MatMul")(lambda op, splits: None)
    two.source("Fill")(lambda op, split: None)
    total = joined([one, two])
    self.assertSameElements(total.rules, ["Relu", "Tanh", "MatMul"])
    self.assertSameElements(total.sources, ["Fill"])

  def test_two_rules_for_a_type(self):
    one, two = Table(), Table()
    one.rule("Relu")(lambda op, splits: None)
    two.rule("Relu")(lambda op, splits: None)
    with self.assertRaisesRegex(ValueError, "ops of type Relu have two rules"):
      joined([one, two])
    one.source("Fill")(lambda op, split: None)
    with self.assertRaisesRegex(ValueError, "type Fill have two sources"):
      joined([one, one.__class__(sources=dict(one.sources))])


if __name__ == "__main__":
  absltest.main()
