"""Optimizers of tf.contrib.opt train sharded as they do plain."""

import compat
import estimator_mp
from tests import tiers
from tests.estimator_mp import shapes, zoo

import tensorflow as tf
from absl.testing import absltest, parameterized

compat.install(contrib=True)
from compat.contrib import opt  # noqa: E402

v1 = tf.compat.v1


def _adam_w():
  return opt.AdamWOptimizer(0.01, 0.02)


def _lazy_adam():
  return opt.LazyAdamOptimizer(0.02)


def _moving_average():
  return opt.MovingAverageOptimizer(v1.train.AdamOptimizer(0.02), 0.9)


def _lars():
  return opt.LARSOptimizer(0.1)


_OPTIMIZERS = (
  ("adam_w", _adam_w),
  ("lazy_adam", _lazy_adam),
  ("moving_average", _moving_average),
  ("lars", _lars),
)


def _with_rows(make_optimizer):
  """A model with a table, whose gradient is of the rows that a batch has."""

  def model_fn(features, labels, mode):
    table = v1.get_variable("net/a/table", [30, 10])
    rows = tf.nn.embedding_lookup(table, features["item"][:, 0])
    logits = zoo.net(features["x"] + rows)

    def train(loss):
      step = v1.train.get_global_step()
      return make_optimizer().minimize(loss, step)

    return zoo.spec(mode, logits, labels, train)

  return model_fn


class ContribOptimizersTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_OPTIMIZERS))
  def test_on_replicas_of_stages(self, make_optimizer):
    config = estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=2)
    shapes.assert_equals_the_full_batch(
      self, _with_rows(make_optimizer), (zoo.FEATURES, zoo.LABELS), config
    )


if __name__ == "__main__":
  absltest.main()
