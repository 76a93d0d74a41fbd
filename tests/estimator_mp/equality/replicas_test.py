"""Replicas in Estimators.

That steps are the plain model's, pairs_test says for all models.
"""

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.models import catalogue

import numpy as np
from absl.testing import absltest, parameterized


class EstimatorTest(parameterized.TestCase):
  """Several steps, with checkpoints; evaluation and prediction."""

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("float16", {"compression": "float16"}, 1e-3),
        ("bfloat16", {"compression": "bfloat16", "aggregation": "ring"}, 1e-2),
        ("top_k", {"compression": "top_k", "top_k_fraction": 0.5}, 1e-1),
        ("all_of_top_k", {"compression": "top_k", "top_k_fraction": 1.0}, 1e-6),
      ]
    ),
  )
  def test_compression(self, fields, rtol):
    """Losses are near the plain model's; what is kept back is in no checkpoint.

    Without compression they are within 1e-7, so these are really compressed.
    """
    model = catalogue.MODELS["mlp_momentum"]
    plain, run = runs.plain_and_sharded(
      self,
      model.model_fn,
      estimator_mp.ShardingConfig("data:2", **fields),
      model.params,
      steps=7,
    )
    np.testing.assert_allclose(run.losses, plain.losses, rtol=rtol)
    difference = np.abs(np.subtract(run.losses, plain.losses)).max()
    self.assertEqual(difference > 2e-7, rtol > 1e-6)
    self.assertCountEqual(run.variables, plain.variables)

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        (
          "micro_batches",
          "mlp_adam",
          {"mesh": "data:2,stage:3", "num_micro_batches": 4},
        ),
        (
          "sharded",
          "deepfm",
          {"mesh": "data:2", "optimizer_state": "sharded"},
        ),
      ]
    )
  )
  def test_training_and_serving(self, name, fields):
    model = catalogue.MODELS[name]
    config = estimator_mp.ShardingConfig(**fields)
    plain, run = runs.plain_and_sharded(
      self, model.model_fn, config, model.params
    )
    self.assertLen(run.devices, config.create_mesh().size)
    # Names and shapes in the checkpoint are the plain model's, too.
    runs.assert_same_training(self, run, plain, rtol=1e-5)
    runs.assert_same_serving(self, run, plain, rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
