"""Models of the zoo, with TensorFlow 2's behaviour switched off.

See v1_behavior_test. Left out is tf_keras' Adam: it fails plain on references.
"""

import dataclasses

from tests.estimator_mp import transparency, zoo

import tensorflow.compat.v1 as tf
from absl.testing import absltest, parameterized

tf.disable_v2_behavior()


class V1BehaviorZooTest(transparency.TransparencyTestCase):
  @parameterized.parameters("cnn", "transformer", "lstm", "deepfm", "canned")
  def test_the_zoo(self, name):
    model = zoo.MODELS[name]
    meshes = ("stage:2", "stage:3")
    self.assert_transparent(dataclasses.replace(model, meshes=meshes))


if __name__ == "__main__":
  absltest.main()
