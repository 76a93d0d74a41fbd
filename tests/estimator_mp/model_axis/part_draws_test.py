"""Random numbers on a model axis: each part draws its own, or none does."""

import estimator_mp
from estimator_mp.graph import traversal
from tests.estimator_mp import parts, session_configs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_SPLIT = [("^up$", 1), ("^down$", 0)]


def _model_fn(features, labels, mode):
  """A mask of what is split, and one of what is whole."""
  net = tf.matmul(features, parts.weight("up", [16, 32]))
  net = tf.nn.dropout(tf.tanh(net), rate=0.5, seed=3)
  net = tf.matmul(net, parts.weight("down", [32, 8]))
  net = tf.nn.dropout(net, rate=0.5, seed=4)
  return parts.spec(mode, tf.reduce_mean(tf.square(net)))


class PartDrawsTest(parameterized.TestCase):
  @parameterized.parameters(1, 2)
  def test_numbers_of_parts_differ(self, num_micro_batches):
    numbers = self._numbers(num_micro_batches)
    self.assertLen(numbers, 3 * num_micro_batches)
    split = [x for x in numbers if x.shape[1] == 16]
    self.assertLen(split, 2 * num_micro_batches)
    for i, one in enumerate(split):
      for other in split[:i]:
        self.assertFalse(np.any(one == other))

  def test_they_are_drawn_once_if_they_are_to_be(self):
    numbers = self._numbers(1, draws="whole")
    self.assertCountEqual([x.shape for x in numbers], [(8, 32), (8, 8)])

  def _numbers(self, num_micro_batches, **options):
    """Returns what the random ops of a step draw."""
    config = estimator_mp.ShardingConfig(
      "model:2", split=_SPLIT, num_micro_batches=num_micro_batches, **options
    )
    with tf.Graph().as_default():
      v1.train.create_global_step()
      features = v1.placeholder(tf.float32, [8, 16])
      sharded = estimator_mp.shard_model_fn(_model_fn, config)
      spec = sharded(features, None, tf.estimator.ModeKeys.TRAIN)
      drawn = [
        op.outputs[0]
        for op in traversal.ops_run_with(spec.train_op)
        if op.type == "RandomUniform"
      ]
      initialize = v1.global_variables_initializer()
      session_config = session_configs.config(device_count={"CPU": 2})
      with v1.Session(config=session_config) as session:
        session.run(initialize)
        return session.run(drawn, {features: np.ones([8, 16], np.float32)})


if __name__ == "__main__":
  absltest.main()
