"""Optimizers of tf.contrib.opt train sharded as they do plain."""

import compat
import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import registry

import tensorflow as tf
from absl.testing import absltest, parameterized

compat.install(contrib=True)
from compat.contrib import opt  # noqa: E402

v1 = tf.compat.v1


_OPTIMIZERS = {
  "adam_w": lambda: opt.AdamWOptimizer(0.01, 0.02),
  "lazy_adam": lambda: opt.LazyAdamOptimizer(0.02),
  "moving_average": lambda: opt.MovingAverageOptimizer(
    v1.train.AdamOptimizer(0.02), 0.9
  ),
  "lars": lambda: opt.LARSOptimizer(0.1),
}


def _with_rows(features, labels, mode, params):
  """A model with a table, whose gradient is of the rows that a batch has."""
  rows = tf.gather(parts.weight("table", [30, 10]), features["item"][:, 0])
  loss = parts.mean_loss(labels, parts.logits(features["x"] + rows))
  return parts.spec(mode, loss, params["optimizer"]())


class ContribOptimizersTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_OPTIMIZERS.items()))
  def test_on_replicas_of_stages(self, make_optimizer):
    model = registry.Model(_with_rows, params={"optimizer": make_optimizer})
    config = estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=2)
    programs.assert_as_plain(self, model, config, (24, 25, 3))


if __name__ == "__main__":
  absltest.main()
