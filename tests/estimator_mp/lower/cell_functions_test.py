"""Micro-batches as calls of functions: few ops, and no dead branch.

That steps are the plain model's, equality/pairs_test says.
"""

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import catalogue, data, registry

import tensorflow as tf
from absl.testing import absltest, parameterized

_BATCH = (data.FEATURES, data.LABELS)


def _program(name, cells, num_micro_batches, **arguments):
  model = catalogue.PURE_NETWORKS[name]
  config = estimator_mp.ShardingConfig(
    num_micro_batches=num_micro_batches,
    cells=cells,
    **{"mesh": "stage:2", **arguments},
  )
  example = programs.examples(_BATCH, 0, 24)
  return programs.Program(model.model_fn, config, example, model.params)


def _branches(features, labels, mode):
  """A layer that the steps of even numbers leave out."""
  layer = tf.compat.v1.layers.dense
  net = layer(features["x"], 8, tf.tanh)
  step = tf.compat.v1.train.get_global_step()
  kernel = tf.compat.v1.get_variable("kernel", [8, 8])
  net = tf.cond(
    tf.equal(step % 2, 0),
    lambda: net * 2.0,
    lambda: tf.tanh(tf.matmul(net, kernel)),
  )
  logits = layer(layer(net, 8, tf.tanh), 1)
  loss = parts.mean_loss(labels, logits)
  optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
  train_op = optimizer.minimize(loss, step)
  return parts.spec(mode, loss, train_op)


class CellFunctionsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample([("zb1p", "zb1p"), ("1f1b", "1f1b")])
  )
  def test_the_branch_that_is_not_taken_stays_out(self, schedule):
    """A call that read of a dead branch would return nothing."""
    tf.compat.v1.disable_control_flow_v2()
    self.addCleanup(tf.compat.v1.enable_control_flow_v2)
    config = estimator_mp.ShardingConfig(
      "stage:2", num_micro_batches=3, cells="functions", schedule=schedule
    )
    model = registry.Model.of_batch(_branches, *data.BATCH)
    programs.assert_as_plain(self, model, config, (24, 25, 3))
    programs.assert_as_plain(self, model, config, (24, 24), is_static=True)

  def test_few_ops_for_a_micro_batch(self):
    """Counted, as times say little: the graph may not grow as it did."""
    sizes = [
      len(_program("mlp_adam", "functions", count).graph.get_operations())
      for count in (2, 10)
    ]
    self.assertLess((sizes[1] - sizes[0]) / 8, 40)


if __name__ == "__main__":
  absltest.main()
