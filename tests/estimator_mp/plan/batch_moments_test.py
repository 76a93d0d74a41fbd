"""Moments of a batch normalization, and what slices do of these."""

from estimator_mp.plan import batch_moments
from estimator_mp.plan.batch_plan import Cut, PartedOp, Rows
from estimator_mp.plan.batch_sizes import StaticSizes
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_EACH = Rows(0, 1)


class MomentsTest(graph_case.GraphCase):
  """Images x [8, 2, 2, 3]; an op depends on the batch if it is in parts."""

  def setUp(self):
    super().setUp()
    self._x = v1.placeholder(tf.float32, [8, 2, 2, 3], "x")
    self._rows = {self._x.name: _EACH}
    self._depends = {self._x.name}
    self._sizes = StaticSizes(8, tf.Graph())

  def _moments(self, are_own):
    return batch_moments.Moments(lambda x: x.name in self._depends, are_own)

  def _fused(self, is_training=True):
    ones, zeros = tf.ones([3]), tf.zeros([3])
    found = v1.nn.fused_batch_norm(
      self._x, ones, zeros, zeros, ones, is_training=is_training
    )
    return found[0].op

  def test_slices_exchange_moments(self):
    op = self._fused()
    moments = self._moments(are_own=False)
    self.assertTrue(moments.normalizes(op, self._rows))
    found = moments.normalization(op, self._rows, self._sizes)
    reads = (Cut(_EACH), *[None] * 4)
    no = (False,) * len(op.outputs)
    self.assertEqual(found, PartedOp(op, reads, no, is_composite=True))
    self.assertEqual(self._rows[op.outputs[0].name], _EACH)

  def test_each_slice_has_moments_of_its_own(self):
    op = self._fused()
    moments = self._moments(are_own=True)
    found = moments.normalization(op, self._rows, self._sizes)
    self.assertFalse(found.is_composite)
    self.assertEqual(found.own, (False, *[True] * (len(op.outputs) - 1)))
    # What is made of these alone is each slice's own, too.
    self._depends |= {x.name for x in op.outputs}
    average = tf.multiply(op.outputs[1], 0.9).op
    self.assertTrue(moments.is_own(average, self._rows))
    of_images = tf.multiply(op.outputs[0], 0.9).op
    self.assertFalse(moments.is_own(of_images, self._rows))

  def test_what_is_no_normalization_by_the_batch_s_moments(self):
    moments = self._moments(are_own=False)
    self.assertFalse(moments.normalizes(self._fused(False), self._rows))
    self.assertFalse(moments.normalizes(tf.square(self._x).op, self._rows))
    op = self._fused()
    self.assertFalse(moments.normalizes(op, {}))  # It is not in parts.
    self._rows[self._x.name] = Rows(1, 1)
    self.assertFalse(moments.normalizes(op, self._rows))

  def test_a_scale_that_depends_on_the_batch(self):
    op = self._fused()
    self._depends.add(op.inputs[1].name)
    moments = self._moments(are_own=False)
    self.assertFalse(moments.normalizes(op, self._rows))

  def test_moments_by_hand(self):
    """As `tf.nn.moments` computes them."""
    tf.nn.moments(self._x, [0, 1, 2])
    mean, variance = (op for op in self.ops() if op.type == "Mean")
    (squares,) = (op for op in self.ops() if op.type == "SquaredDifference")
    moments = self._moments(are_own=True)
    self.assertTrue(moments.is_own(mean, self._rows))
    self.assertEqual(
      moments.statistic(mean, self._rows, self._sizes),
      PartedOp(mean, (Cut(_EACH), None), (False,), (True,)),
    )
    stopped = next(op for op in self.ops() if op.type == "StopGradient")
    moments.statistic(stopped, self._rows, self._sizes)
    self._rows[squares.outputs[0].name] = _EACH
    self.assertTrue(moments.is_own(variance, self._rows))

  def test_other_means_are_the_batch_s(self):
    loss = tf.reduce_mean(self._x).op
    over_pixels = tf.reduce_mean(self._x, [1, 2]).op
    for op in (loss, over_pixels):
      self.assertFalse(self._moments(are_own=True).is_own(op, self._rows))

  def test_no_slice_has_its_own_where_they_are_exchanged(self):
    tf.nn.moments(self._x, [0, 1, 2])
    moments = self._moments(are_own=False)
    for op in self.ops():
      self.assertFalse(moments.is_own(op, self._rows))


if __name__ == "__main__":
  absltest.main()
