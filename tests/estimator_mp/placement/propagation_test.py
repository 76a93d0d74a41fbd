"""Propagation, rules and known placements on small graphs; no session runs."""

import types

from estimator_mp.config import placement as placement_lib
from estimator_mp.graph import colocation
from estimator_mp.placement import known, propagation, rules

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _read(build):
  """Returns the ops that a function builds, and their colocation groups."""
  groups = colocation.ColocationGroups()
  with tf.Graph().as_default() as graph:
    build()
    ops = graph.get_operations()
    groups.add(ops)
  return ops, groups


def _two_layers():
  x = v1.placeholder(tf.float32, [None, 4], name="x")
  for name in ("a", "b"):
    with v1.variable_scope(name):
      kernel = v1.get_variable("kernel", [4, 4])
    x = tf.matmul(x, kernel, name=f"{name}/product")


def _by_name(stages):
  return {op.name: stage for op, stage in stages.items()}


class PropagationTest(absltest.TestCase):
  def _propagate(self, build, known_stages, follows):
    ops, groups = _read(build)
    stages = {
      op: known_stages[op.name] for op in ops if op.name in known_stages
    }
    rest = [op for op in ops if op not in stages]
    return _by_name(propagation.propagate(rest, groups, stages, follows))

  def test_a_forward_op_follows_the_latest_input(self):
    def build():
      early = tf.zeros([8, 8], name="early")
      late = tf.zeros([8], name="late")
      tf.tanh(tf.add(early, late, name="sum"), name="end")

    found = self._propagate(
      build, {"early": 0, "late": 1}, propagation.Follows.LATEST_INPUT
    )
    self.assertEqual((found["sum"], found["end"]), (1, 1))

  def test_an_update_follows_the_largest_input(self):
    def build():
      large = tf.zeros([8, 8], name="large")
      scale = tf.zeros([], name="scale")
      tf.multiply(large, scale, name="scaled")

    found = self._propagate(
      build, {"large": 0, "scale": 1}, propagation.Follows.LARGEST_INPUT
    )
    self.assertEqual(found["scaled"], 0)

  def test_what_reads_nothing_follows_its_earliest_reader(self):
    def build():
      one = tf.zeros([], name="one")
      for name in ("late", "early"):
        tf.add(v1.placeholder(tf.float32, [], f"of_{name}"), one, name=name)

    found = self._propagate(
      build, {"late": 2, "early": 1}, propagation.Follows.LATEST_INPUT
    )
    self.assertEqual(found["one"], 1)

  def test_what_is_connected_to_nothing_has_no_stage(self):
    def build():
      tf.zeros([], name="alone")
      tf.zeros([], name="placed")

    found = self._propagate(
      build, {"placed": 0}, propagation.Follows.LATEST_INPUT
    )
    self.assertNotIn("alone", found)


class RulesTest(absltest.TestCase):
  def test_the_first_rule_that_matches_counts(self):
    ops, groups = _read(_two_layers)
    strategy = rules.Rules([("^a/", 1), (".", 0)])
    found = _by_name(strategy.stages_of(ops, [], groups))
    self.assertEqual((found["a/kernel"], found["a/product"]), (1, 1))
    self.assertEqual((found["b/kernel"], found["b/product"]), (0, 0))

  def test_a_variable_takes_its_ops_along(self):
    ops, groups = _read(_two_layers)
    strategy = rules.Rules([("kernel$", 1), ("Read", 0)])
    found = _by_name(strategy.stages_of(ops, [], groups))
    self.assertEqual({found[name] for name in found if "kernel" in name}, {1})

  def test_only_training_needs_something_for_each_rule(self):
    """Prediction may do without a part, such as one of two towers."""
    ops, _ = _read(_two_layers)
    given = [("^a/", 1), ("^c/", 0), (".", 0)]
    rules.Rules(given, tf.estimator.ModeKeys.PREDICT).check(ops)
    with self.assertRaisesRegex(ValueError, "'\\^c/', 0. matches no variable"):
      rules.Rules(given).check(ops)


class KnownTest(absltest.TestCase):
  def _placement(self, **stages):
    names = {f"{name}/kernel": stage for name, stage in stages.items()}
    return placement_lib.Placement((), types.MappingProxyType(names))

  def test_ops_go_by_their_names(self):
    ops, groups = _read(_two_layers)
    strategy = known.Given(self._placement(a=0, b=1))
    found = _by_name(strategy.stages_of(ops, [], groups))
    self.assertEqual(found, {"a/kernel": 0, "b/kernel": 1})

  def test_variables_that_share_a_device_are_of_one_stage(self):
    def build():
      _two_layers()
      first, second = v1.get_default_graph().get_collection("variables")
      with v1.colocate_with(first.op), v1.colocate_with(second.op):
        tf.zeros([], name="joined")

    ops, groups = _read(build)
    placement = self._placement(a=0, b=1)
    with self.assertRaisesRegex(
      ValueError, "'a/kernel' on stage 0 and 'b/kernel' on stage 1, but an op"
    ):
      known.Given(placement).stages_of(ops, [], groups)
    with self.assertLogs("tensorflow", "WARNING") as logs:
      found = _by_name(
        known.Saved(placement, "eval").stages_of(ops, [], groups)
      )
    self.assertIn("To eval, variables move: the placement has", logs.output[0])
    self.assertEqual(found["a/kernel"], found["b/kernel"])


if __name__ == "__main__":
  absltest.main()
