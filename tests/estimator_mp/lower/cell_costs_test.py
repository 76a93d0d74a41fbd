"""How the graph of a step grows with the number of micro-batches."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, programs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_X = np.random.RandomState(0).randn(16, 4).astype(np.float32)


def _mlp(features, labels, mode):
  net = features
  for layer in range(8):
    net = v1.layers.dense(net, 4, tf.tanh, name=f"layer_{layer}")
  return parts.spec(mode, tf.reduce_mean((net - labels) ** 2))


def _control_edges(schedule, micro_batches):
  config = estimator_mp.ShardingConfig(
    "stage:2", num_micro_batches=micro_batches, schedule=schedule
  )
  program = programs.Program(_mlp, config, (_X, _X))
  return sum(len(op.control_inputs) for op in program.graph.get_operations())


class CellCostsTest(parameterized.TestCase):
  @parameterized.parameters(tiers.sample(["zb1p", "1f1b", "gpipe"]))
  def test_waits_are_added_for_each_and_not_for_each_two(self, schedule):
    few, more, many = (_control_edges(schedule, n) for n in (4, 8, 16))
    self.assertLessEqual(many - more, 2.1 * (more - few))


if __name__ == "__main__":
  absltest.main()
