"""Strategies: which one a configuration means, and how one is added."""

from unittest import mock

import estimator_mp
from estimator_mp.config import placement as placement_lib
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest, parameterized

_ROW = placement_lib.Strategy("every other variable", __name__)


def stages_of(unplaced, num_stages, memory_limit, measured_seconds):
  """Puts the first variable on stage 0, the second on stage 1, and so on."""
  del memory_limit, measured_seconds
  names = [v.op.name for v in tf.compat.v1.trainable_variables()]
  return {
    op: names.index(op.name) % num_stages
    for op in unplaced.ops
    if op.name in names
  }


def _model_fn(features, labels, mode):
  del labels
  net = features
  for _ in range(3):
    net = tf.compat.v1.layers.dense(net, 4, use_bias=False)
  return parts.spec(mode, tf.reduce_mean(net))


class StrategiesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("one_device", "stage:2", 1), ("two", "model:2,stage:2", 2)
  )
  def test_the_memory_limit_is_that_of_each_device(self, mesh, parts):
    """Three kernels of 64 bytes, each with a gradient and two slots."""
    needed = 2 * 4 * 64 // parts

    def build(limit):
      with tf.Graph().as_default():
        tf.compat.v1.train.create_global_step()
        x = tf.compat.v1.placeholder(tf.float32, [1, 4])
        estimator_mp.shard_model_fn(
          _model_fn,
          estimator_mp.ShardingConfig(mesh, memory_limit=limit, split=split),
        )(x, None, "train")

    split = [("kernel", 0)] if parts > 1 else "auto"
    build(needed + 200)
    with self.assertRaisesRegex(
      ValueError,
      rf"^memory_limit={parts * (needed - 100)} bytes is too small: .*"
      + (rf"memory_limit={needed - 100}$" if parts > 1 else "use more stages$"),
    ):
      build(needed - 100)

  def test_a_row_adds_a_strategy(self):
    rows = {**placement_lib.STRATEGIES, "every_other": _ROW}
    with mock.patch.object(placement_lib, "STRATEGIES", rows):
      with self.assertRaisesRegex(
        ValueError, '^placement=.* use "auto" or "every_other", rules such as'
      ):
        estimator_mp.ShardingConfig("stage:2", placement="every_second")
      config = estimator_mp.ShardingConfig("stage:2", placement="every_other")
      with tf.Graph().as_default() as graph:
        tf.compat.v1.train.create_global_step()
        features = tf.compat.v1.placeholder(tf.float32, [None, 4])
        sharded = estimator_mp.shard_model_fn(_model_fn, config)
        sharded(features, None, tf.estimator.ModeKeys.TRAIN)
        placed = estimator_mp.get_placement(graph)
        names = [v.op.name for v in tf.compat.v1.trainable_variables()]
    self.assertLen(names, 3)
    self.assertEqual(
      [placed.ops[name] for name in names],
      [index % 2 for index in range(len(names))],
    )


if __name__ == "__main__":
  absltest.main()
