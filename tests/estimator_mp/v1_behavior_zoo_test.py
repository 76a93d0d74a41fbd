"""Models of the zoo, with TensorFlow 2's behaviour switched off.

See v1_behavior_test. Left out is tf_keras' Adam: it fails plain on references.
"""

import dataclasses

import estimator_mp
from tests.estimator_mp import programs, transparency, zoo

import tensorflow.compat.v1 as tf
from absl.testing import absltest, parameterized

tf.disable_v2_behavior()


class V1BehaviorZooTest(transparency.TransparencyTestCase):
  @parameterized.parameters("cnn", "transformer", "lstm", "deepfm", "canned")
  def test_the_zoo(self, name):
    model = zoo.MODELS[name]
    meshes = ("stage:2", "stage:3")
    self.assert_transparent(dataclasses.replace(model, meshes=meshes))

  @parameterized.named_parameters(
    ("lstm", "lstm", "stage:2", 3, "mean"),
    ("canned", "canned", "data:2,stage:2", 1, "sum"),
    ("deepfm", "deepfm", "data:2", 2, "mean"),
  )
  def test_batches_of_any_size(self, name, mesh, num_micro_batches, reduction):
    """The sizes of tensors are no numbers, but `Dimension` objects here."""
    model = zoo.PURE_MODELS[name]
    batch = (zoo.FEATURES, zoo.LABELS)
    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches, loss_reduction=reduction
    )
    plain = programs.Program(model.model_fn, None, batch, model.params)
    program = programs.Program(model.model_fn, config, batch, model.params)
    program.load(plain.variables())
    for size in (25, 22):
      examples = programs.examples(batch, 0, size)
      step, expected = program.step(examples), plain.step(examples)
      self.assertAlmostEqual(step.loss / expected.loss, 1.0, places=5)
      programs.assert_same_variables(
        self, step.variables, expected.variables, 1e-5
      )


if __name__ == "__main__":
  absltest.main()
