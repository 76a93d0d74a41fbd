"""What the log says of a model axis on which nothing is split."""

import estimator_mp
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _model_fn(features, labels, mode):
  net = v1.layers.dense(features, 4, tf.tanh, name="first")
  return parts.spec(mode, parts.mean_loss(labels, parts.logits(net)))


def _build(split):
  config = estimator_mp.ShardingConfig("model:2", split=split)
  with tf.Graph().as_default():
    v1.train.create_global_step()
    features = v1.placeholder(tf.float32, [8, 6])
    labels = v1.placeholder(tf.float32, [8, 1])
    sharded = estimator_mp.shard_model_fn(_model_fn, config)
    sharded(features, labels, tf.estimator.ModeKeys.TRAIN)


class NothingSplitTest(absltest.TestCase):
  def test_a_model_axis_that_splits_nothing(self):
    with self.assertLogs("tensorflow", "WARNING") as logs:
      _build([(".*", None)])
    text = "\n".join(logs.output)
    self.assertIn("mesh='model:2': no variable of the model is split", text)
    self.assertIn("or leave the axis out", text)

  def test_a_model_axis_that_splits_something(self):
    with self.assertLogs("tensorflow", "INFO") as logs:
      _build([("first/kernel", 1)])
    self.assertNotIn("no variable of the model is split", str(logs.output))


if __name__ == "__main__":
  absltest.main()
