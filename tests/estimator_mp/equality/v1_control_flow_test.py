"""Loops and conds of TensorFlow 1, whose ops are in the graph themselves."""

import itertools

import estimator_mp
from tests import tiers
from tests.estimator_mp import shapes

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_MESHES = {"data:2,stage:2": 2, "stage:2": 4, "data:2": 1}
_CASES = [
  (f"{model_fn.__name__}_{mesh}", model_fn, mesh)
  for model_fn, mesh in itertools.product((shapes.loops, shapes.conds), _MESHES)
]


class V1ControlFlowTest(parameterized.TestCase):
  @parameterized.named_parameters(tiers.sample(_CASES))
  def test_equals_the_full_batch(self, model_fn, mesh):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    config = estimator_mp.ShardingConfig(mesh, num_micro_batches=_MESHES[mesh])
    shapes.assert_equals_the_full_batch(self, model_fn, shapes.BATCH, config)


if __name__ == "__main__":
  absltest.main()
