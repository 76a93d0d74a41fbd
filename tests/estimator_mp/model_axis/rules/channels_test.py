"""Tests of the rules for ops that do not mix channels of images.

What parts make of each op, and gradients, by_parts_test compares.
"""

from estimator_mp.model_axis.decisions import Replicate, Shard
from estimator_mp.model_axis.rules import table

import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1
_CHANNELS = Shard(3, (4, 1, 2))


def _decide(op, *splits):
  return table.TABLE.rules[op.type](op, splits)


class PoolTest(absltest.TestCase):
  def test_channels_that_are_pooled_are_not_split(self):
    with tf.Graph().as_default():
      images, sizes = _v1.placeholder(tf.float32, [3, 6, 5, 7]), [1, 1, 1, 7]
      pooled = tf.raw_ops.MaxPool(
        input=images, ksize=sizes, strides=sizes, padding="VALID"
      )
      self.assertIsNone(_decide(pooled.op, _CHANNELS))

  def test_channels_first(self):
    with tf.Graph().as_default():
      images = _v1.placeholder(tf.float32, [None, 7, 8, 8])
      op = tf.nn.avg_pool2d(images, 2, 2, "VALID", "NCHW").op
      split = _CHANNELS.at(1)
      self.assertEqual(_decide(op, split).outputs, (split,))
      self.assertIsNone(_decide(op, _CHANNELS))


class BatchNormTest(absltest.TestCase):
  def _op(self, shape, **attributes):
    vector = _v1.placeholder(tf.float32, [7])
    return tf.raw_ops.FusedBatchNormV3(
      x=_v1.placeholder(tf.float32, shape),
      scale=vector,
      offset=vector,
      mean=vector,
      variance=vector,
      **attributes,
    ).y.op

  def test_channels_first(self):
    with tf.Graph().as_default():
      op = self._op([None, 7, 8, 8], data_format="NCHW")
      split = _CHANNELS.at(1)
      decision = _decide(op, split, None, None, None, None)
      self.assertEqual(decision.operands, (split, *[split.at(0)] * 4))
      self.assertEqual(
        decision.outputs, (split, *[split.at(0)] * 4, Replicate())
      )

  def test_the_batch_and_vectors_alone_are_not_split(self):
    with tf.Graph().as_default():
      op = self._op([4, 8, 8, 7])
      vector = _CHANNELS.at(0)
      for splits in (
        [Shard(0, (2, 2)), None, None, None, None],
        [None, vector, vector, None, None],
      ):
        self.assertIsNone(_decide(op, *splits))

  def test_what_the_kernel_reserved_for_its_gradient_is_not_split(self):
    with tf.Graph().as_default():
      op = self._op([4, 8, 8, 7])
      _v1.gradients(op.outputs[0], op.inputs[0])
      self.assertIsNone(_decide(op, _CHANNELS, None, None, None, None))


if __name__ == "__main__":
  absltest.main()
