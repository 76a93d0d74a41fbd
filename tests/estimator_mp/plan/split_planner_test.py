"""Tests of which variables rules split."""

from estimator_mp.config import sharding_options, split_rules
from estimator_mp.plan import split_planner

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _planned(*rules):
  """Plans the variables of the default graph, and returns the planner."""
  options = sharding_options.ShardingOptions(mesh="model:2", split=rules)
  planner = split_planner.SplitPlanner(options, 2)
  planner.plan(v1.get_default_graph().get_operations())
  planner.leave_the_rest()
  planner.check()
  return planner


class RulesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph().as_default()
    graph.__enter__()
    self.addCleanup(graph.__exit__, None, None, None)
    # A variable may have the name of a scope of others.
    x = v1.get_variable("net", [10, 4], use_resource=True)
    y = v1.get_variable("net/out", [4, 6], use_resource=True)
    v1.get_variable("net/out/slot", [4, 6], trainable=False, use_resource=True)
    v1.get_variable("scale", [], use_resource=True)
    tf.matmul(x, y)

  def test_a_variable_below_another_is_split(self):
    self.assertCountEqual(_planned(("net/out", 1)).splits, ["net/out"])

  def test_a_scalar_is_no_table(self):
    with self.assertRaisesRegex(
      split_rules.SplitError, r"scale has the shape \(\); use None"
    ):
      _planned(("scale", "whole"))


if __name__ == "__main__":
  absltest.main()
