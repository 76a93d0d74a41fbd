"""The costs of phases: estimates of small graphs, and what was measured."""

from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.pipeline.cells import Pass
from estimator_mp.placement import costs as costs_lib
from estimator_mp.planning import phase_costs

import tensorflow as tf
from absl.testing import absltest

_WIDTH = 1024


class PhaseCostsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enterContext(tf.Graph().as_default())
    x = tf.compat.v1.placeholder(tf.float32, [64, _WIDTH])
    w = tf.compat.v1.placeholder(tf.float32, [_WIDTH, _WIDTH])
    self._passes = {}
    first = self._product(x, w, 0, Phase.FORWARD)
    second = self._product(first, w, 1, Phase.FORWARD)
    self._product(tf.matmul(second, w), w, 1, Phase.FORWARD)
    back = self._product(second, w, 1, Phase.BACKWARD)
    self._product(back, w, 0, Phase.BACKWARD)
    self._product(back, w, 0, Phase.WEIGHT)

  def _product(self, x, w, stage, phase):
    product = tf.matmul(x, w)
    self._passes[product.op] = Pass(stage, phase)
    return product

  def test_passes_have_the_sum_of_their_ops(self):
    found = phase_costs.phase_costs(self._passes, 2)
    one = found.forward[0]
    self.assertGreater(one, 2 * 64 * _WIDTH**2 / 10e12)
    for costs, times in (
      (found.forward, [1, 2]),
      (found.backward, [1, 1]),
      (found.weight, [1, 0]),
    ):
      for cost, number in zip(costs, times, strict=True):
        self.assertAlmostEqual(cost, number * one)

  def test_what_is_sent_is_what_later_stages_read(self):
    found = phase_costs.phase_costs(self._passes, 2)
    expected = costs_lib.transfer_seconds(64 * _WIDTH * 4)
    self.assertEqual(found.sends, (expected,))

  def test_passes_have_what_was_measured_of_their_ops(self):
    first, *_, weight = (op.name for op in self._passes)
    measured = {first: 6.0, weight: 2.0, "an op of no pass": 9.0}
    found = phase_costs.phase_costs(self._passes, 2, measured)
    self.assertEqual(found.forward, (6.0, 0.0))
    self.assertEqual(found.backward, (0.0, 0.0))
    self.assertEqual(found.weight, (2.0, 0.0))

  def test_parts_that_were_not_measured_are_estimated(self):
    estimated = phase_costs.phase_costs(self._passes, 2)
    found = phase_costs.phase_costs(self._passes, 2, {"another": 1.0})
    self.assertEqual(found, estimated)


if __name__ == "__main__":
  absltest.main()
