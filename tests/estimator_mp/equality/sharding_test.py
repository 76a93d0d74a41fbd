"""Models that nobody edited give on stages what they give on one device."""

import gc

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.equality import transparency
from tests.estimator_mp.models import catalogue

import tensorflow as tf
from absl.testing import absltest, parameterized


class NetworksTest(transparency.TransparencyTestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (name, model)
        for name, model in catalogue.tagged("network").items()
        if "slots" not in model.tags
      ]
    )
  )
  def test_is_the_plain_model(self, model):
    self.assert_transparent(model)

  @tiers.slow
  def test_a_stage_may_be_empty(self):
    """One of four, by rules."""
    model = catalogue.MODELS["cnn"]
    stages = (0, 2, 3)
    config = estimator_mp.ShardingConfig(
      "stage:4", placement=[(x, stages[stage]) for x, stage in model.rules]
    )
    plain, run = runs.plain_and_sharded(self, model.model_fn, config, steps=2)
    runs.assert_same_training(self, run, plain)


class GarbageTest(absltest.TestCase):
  def test_nobody_looks_for_it_while_a_graph_is_built(self):
    seen = []

    def model_fn(features, labels, mode):
      seen.append(gc.isenabled())
      raise LookupError

    config = estimator_mp.ShardingConfig("stage:2")
    sharded = estimator_mp.shard_model_fn(model_fn, config)
    with tf.Graph().as_default(), self.assertRaises(LookupError):
      sharded({"x": tf.zeros([4, 2])}, None, tf.estimator.ModeKeys.TRAIN)
    self.assertEqual(seen, [False])
    self.assertTrue(gc.isenabled())


if __name__ == "__main__":
  absltest.main()
