"""The costs of phases: estimates of small graphs, and what was measured."""

from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.pipeline.cells import Pass
from estimator_mp.placement import costs as costs_lib
from estimator_mp.plan import phase_costs

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
    self._first = first.op.name

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

  def test_what_was_measured_is_shared_out_as_estimates_are(self):
    measured = {self._first: 6.0}
    found = phase_costs.phase_costs(self._passes, 2, measured)
    self.assertAlmostEqual(found.forward[0], 2)
    self.assertAlmostEqual(found.backward[0], 2)
    self.assertAlmostEqual(found.weight[0], 2)


if __name__ == "__main__":
  absltest.main()
