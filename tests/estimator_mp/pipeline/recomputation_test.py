"""Recomputation: what small graphs compute again, as data."""

from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.graph import clones
from estimator_mp.lower import recompute
from estimator_mp.pipeline import recomputation
from estimator_mp.pipeline.cells import Pass
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_FORWARD = Phase.FORWARD
_BACKWARD = Phase.BACKWARD


class PolicyTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("never", "never", "1f1b", set(), set()),
    ("always", "always", "1f1b", {0, 1, 2}, set()),
    ("last_stage_of_1f1b", "except_last", "1f1b", {0, 1}, set()),
    ("last_of_each_round_of_gpipe", "except_last", "gpipe", {0, 1, 2}, {3, 7}),
  )
  def test_policy(self, mode, name, stages, kept):
    schedule = orders.make_schedule(name, 3, 4)
    policy = recomputation.make_policy(mode, orders.repeat(schedule, 2))
    self.assertEqual((policy.stages, policy.kept), (stages, kept))


class RecomputationTest(graph_case.GraphCase):
  """A layer on stage 0 and one on stage 1, with their backward passes."""

  def setUp(self):
    super().setUp()
    self._x = v1.placeholder(tf.float32, [2], "x")
    self._passes: dict[tf.Operation, Pass] = {}

  def _add(self, stage, phase, tensor):
    self._passes[tensor.op] = Pass(stage, phase)
    return tensor

  def _plan(self, stages=(0, 1)):
    return recomputation.plan_recomputation(
      [*self._passes], self._passes, stages, lambda _: True
    )

  def _layers(self):
    add = self._add
    a = add(0, _FORWARD, tf.exp(self._x, name="a"))
    b = add(0, _FORWARD, tf.tanh(a, name="b"))
    c = add(1, _FORWARD, tf.tanh(b, name="c"))
    dc = add(1, _BACKWARD, tf.multiply(c, b, name="dc"))
    db = add(0, _BACKWARD, tf.multiply(dc, b, name="db"))
    return add(0, _BACKWARD, tf.multiply(db, a, name="da"))

  def _told(self, plan):
    again = {
      stage: [op.name for op in ops] for stage, ops in plan.again.items()
    }
    reads = {(x.op.name, x.index): (x.tensor.name, x.stage) for x in plan.reads}
    return again, reads

  def test_each_stage_computes_its_own_again(self):
    """What it reads of another stage, such as `b` on stage 1, is kept."""
    self._layers()
    again, reads = self._told(self._plan())
    self.assertEqual(again, {0: ["a", "b"], 1: ["c"]})
    self.assertEqual(
      reads,
      {("dc", 0): ("c:0", 1), ("db", 1): ("b:0", 0), ("da", 1): ("a:0", 0)},
    )

  def test_other_stages_keep_theirs(self):
    self._layers()
    again, reads = self._told(self._plan(stages=[1]))
    self.assertEqual((again, list(reads)), ({1: ["c"]}, [("dc", 0)]))

  def test_random_numbers_are_kept_as_a_mask(self):
    add = self._add
    draw = add(0, _FORWARD, tf.random.uniform([2], seed=1, name="draw"))
    mask = add(0, _FORWARD, tf.greater(draw, draw, name="mask"))
    scale = add(0, _FORWARD, tf.cast(mask, tf.float32, name="scale"))
    add(0, _BACKWARD, tf.multiply(scale, self._x, name="dx"))
    again, _ = self._told(self._plan())
    self.assertEqual(again, {0: ["scale"]})

  def test_lowering_copies_and_redirects_and_takes_it_back(self):
    da = self._layers()
    plan = self._plan(stages=[0])
    made = recompute.compute_again(plan)
    names = {op.name: stage for op, stage in made.items()}
    self.assertEqual(names, {"recompute/a": 0, "recompute/b": 0})
    self.assertIn(da.op.inputs[1].op, made)
    recompute.keep(plan, clones.Clones([]), [0])
    self.assertEqual(da.op.inputs[1].name, "a:0")


if __name__ == "__main__":
  absltest.main()
