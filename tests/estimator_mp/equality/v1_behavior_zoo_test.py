"""Models of the zoo, with TensorFlow 2's behaviour switched off.

See v1_behavior_test. Left out is tf_keras' Adam: it fails plain on references.
"""

import dataclasses
import os

import estimator_mp
from tests.estimator_mp import runs, transparency, versions, zoo

import tensorflow.compat.v1 as tf
from absl.testing import absltest, parameterized

tf.disable_v2_behavior()


class V1BehaviorZooTest(transparency.TransparencyTestCase):
  @parameterized.parameters(
    *versions.some(
      ("cnn", "transformer", "lstm", "deepfm", "canned"),
      "cnn",
      "lstm",
      "canned",
    )
  )
  def test_the_zoo(self, name):
    model = zoo.MODELS[name]
    self.assert_transparent(dataclasses.replace(model, meshes=("stage:3",)))

  @parameterized.parameters("data:2", "stage:2")
  def test_batches_of_any_size(self, mesh):
    """The sizes of tensors are no numbers, but `Dimension` objects here."""
    model = zoo.PURE_MODELS["canned"]
    config = estimator_mp.ShardingConfig(
      mesh,
      num_micro_batches=2 if mesh == "stage:2" else 1,
      loss_reduction="sum",
    )
    folder = self.create_tempdir().full_path
    start = os.path.join(folder, "start")
    runs.train(model.model_fn, None, model.params, start, 1)
    plain = runs.go_on(
      model.model_fn, None, None, start, os.path.join(folder, "plain")
    )
    run = runs.go_on(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config,
      None,
      start,
      os.path.join(folder, "run"),
    )
    runs.assert_same_training(self, run, plain, rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
