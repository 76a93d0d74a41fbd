"""Replicas in Estimators.

That steps are the plain model's, pairs_test says for all models.
"""

import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs, zoo

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _config(mesh, num_micro_batches=1, **fields):
  return estimator_mp.ShardingConfig(
    mesh, num_micro_batches=num_micro_batches, **fields
  )


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
    model = zoo.MODELS["mlp_momentum"]
    folder = self.create_tempdir().full_path
    plain = runs.train(
      model.model_fn, None, model.params, os.path.join(folder, "plain"), 8
    )
    config = _config("data:2", **fields)
    losses = runs.train(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config,
      model.params,
      os.path.join(folder, "run"),
      8,
    )
    np.testing.assert_allclose(losses, plain, rtol=rtol)
    difference = np.abs(np.subtract(losses, plain)).max()
    self.assertEqual(difference > 2e-7, rtol > 1e-6)
    self.assertCountEqual(
      runs.variables_of(os.path.join(folder, "run")),
      runs.variables_of(os.path.join(folder, "plain")),
    )

  @tiers.slow
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("micro_batches", "mlp_adam", "data:2,stage:3", 4, {}),
        ("sharded", "deepfm", "data:2", 1, {"optimizer_state": "sharded"}),
      ]
    )
  )
  def test_training_and_serving(self, name, mesh, num_micro_batches, fields):
    model = zoo.MODELS[name]
    config = _config(mesh, num_micro_batches, **fields)
    plain, run = runs.plain_and_sharded(
      self, model.model_fn, config, model.params, before=2
    )
    self.assertLen(run.devices, config.create_mesh().size)
    # Names and shapes in the checkpoint are the plain model's, too.
    runs.assert_same_training(self, run, plain, rtol=1e-5)
    runs.assert_same_serving(self, run, plain, rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
