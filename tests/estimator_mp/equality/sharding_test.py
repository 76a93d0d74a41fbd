"""Models that nobody edited give on stages what they give on one device."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs, zoo
from tests.estimator_mp.equality import transparency

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
  @tiers.newest_only
  def test_a_stage_may_be_empty(self):
    """One of four, by rules."""
    model = zoo.MODELS["cnn"]
    stages = (0, 2, 3)
    config = estimator_mp.ShardingConfig(
      "stage:4", placement=[(x, stages[stage]) for x, stage in model.rules]
    )
    plain, run = runs.plain_and_sharded(self, model.model_fn, config, steps=2)
    runs.assert_same_training(self, run, plain)


if __name__ == "__main__":
  absltest.main()
