"""Tests of which variables rules split."""

from estimator_mp.config import sharding_options, split_rules
from estimator_mp.graph import op_types
from estimator_mp.planning import split_options
from estimator_mp.planning.split_plan import Gather
from estimator_mp.propagate.splits import CyclicSplit, VariableSplit
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class RulesTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    # A variable may have the name of a scope of others.
    self.variable("net", [10, 4])
    self.variable("net/out", [4, 6])
    v1.get_variable("net/out/slot", [4, 6], trainable=False, use_resource=True)
    self.variable("scale", [])

  def _splits(self, *rules):
    """Returns how rules split variables, by their names."""
    trained = [x.op for x in v1.trainable_variables()]
    every = op_types.variables_of(self.ops())
    found = split_options.splits_of_rules(rules, every, trained, 2)
    return {x.name: split for x, split in found.items()}

  def test_a_variable_below_another_is_split(self):
    found = self._splits(("net/out", 1))
    self.assertEqual(found, {"net/out": VariableSplit(1, (3, 3))})

  def test_the_first_rule_counts(self):
    found = self._splits(("net/out", None), ("net", "mod"))
    slot = {"net/out/slot": None}
    self.assertEqual(
      found, {"net": CyclicSplit(0, (5, 5)), "net/out": None, **slot}
    )

  def test_words_name_axes(self):
    found = self._splits(("^net$", "columns"), ("^net/out$", "div"))
    self.assertEqual(
      found,
      {"net": VariableSplit(1, (2, 2)), "net/out": VariableSplit(0, (2, 2))},
    )

  def test_whole_tables_are_on_the_device_with_the_fewest_bytes(self):
    found = self._splits(("net", "whole"))
    self.assertEqual(
      found,
      {"net": VariableSplit(0, (10, 0)), "net/out": VariableSplit(0, (0, 4))},
    )

  def test_a_scalar_is_no_table(self):
    with self.assertRaisesRegex(
      split_rules.SplitError, r"scale has the shape \(\); use None"
    ):
      self._splits(("scale", "whole"))

  def test_an_axis_has_to_be_there_and_have_an_entry_for_each_part(self):
    self.variable("row", [1, 4])
    for axis, message in ((2, "names axis 2, but row"), (0, "makes 2 shards")):
      with self.assertRaisesRegex(split_rules.SplitError, message):
        self._splits(("row", axis))

  def test_a_rule_for_no_variable_names_the_nearest_one(self):
    with self.assertRaisesRegex(
      split_rules.SplitError, "matches no variable .* nearest to it is 'scale'"
    ):
      self._splits(("scales", 0))

  def test_gathers_may_be_forbidden(self):
    made = tf.zeros([4, 2], name="made")
    gathers = [Gather(made.name, "reader", "Foo")]
    for options in ({"gathers": "error"}, {"memory_limit": 16}):
      config = sharding_options.ShardingOptions(mesh="model:2", **options)
      with self.assertRaisesRegex(
        split_rules.SplitError, r"^reader \(Foo\) has no rule .* made:0"
      ):
        split_options.check_gathers(gathers, config, self.graph)


if __name__ == "__main__":
  absltest.main()
