"""Models that nobody edited give on stages what they give on one device."""

import gc

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs, zoo
from tests.estimator_mp.equality import transparency

import tensorflow as tf
from absl.testing import absltest, parameterized

# Of the networks that differ by their optimizer one: slots follow their
# variable, wherever that is.
_OF_ONE_NETWORK = ("mlp_sgd", "mlp_momentum", "mlp_adagrad", "mlp_ftrl")


class ZooTest(transparency.TransparencyTestCase):
  @parameterized.named_parameters(
    (name, name)
    for name in tiers.sample(
      [x for x in zoo.MODELS if x not in _OF_ONE_NETWORK]
    )
  )
  def test_the_zoo(self, name):
    self.assert_transparent(zoo.MODELS[name])

  @tiers.slow
  def test_a_stage_may_be_empty(self):
    """One of four, by rules."""
    model = zoo.MODELS["cnn"]
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
