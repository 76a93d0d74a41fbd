"""Bridges: what they make of tensors, and that a gradient is a bridge back."""

from estimator_mp.lower.slicing import bridges
from estimator_mp.plan.batch_plan import Rows
from estimator_mp.plan.bridge import Kind

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_EACH = Rows(0, 1)


class BridgesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self._bridges = bridges.Bridges(slice_rows=2)
    self._x = v1.placeholder(tf.float32, [4, 3], "x")

  def _of(self, tensor):
    """Returns the bridge that makes a tensor."""
    return self._bridges.all[tensor.op.name]

  def _shape(self, tensor):
    return tensor.shape.as_list()

  def test_a_cut_has_the_rows_of_a_slice(self):
    part = self._bridges.cut(self._x, _EACH)
    self.assertEqual(self._shape(part), [2, 3])
    two = self._bridges.cut(v1.placeholder(tf.float32, [3, 8]), Rows(1, 2))
    self.assertEqual(self._shape(two), [3, 4])
    self.assertEqual(self._of(two).kind, Kind.CUT)

  def test_a_join_has_the_rows_of_all(self):
    part = self._bridges.cut(self._x, _EACH)
    whole = self._bridges.join(part * 2.0, _EACH, self._x.shape)
    self.assertEqual(self._shape(whole), [4, 3])
    self.assertEqual(self._of(whole).source.op.type, "Mul")

  def test_the_gradient_of_a_cut_is_a_join(self):
    part = self._bridges.cut(self._x, _EACH)
    self._bridges.request = 7
    (found,) = tf.gradients(part**2.0, [self._x])
    bridge = self._of(found)
    self.assertEqual((bridge.kind, bridge.rows), (Kind.JOIN, _EACH))
    self.assertEqual((bridge.request, self._shape(found)), (7, [4, 3]))

  def test_the_gradient_of_a_join_is_a_cut(self):
    part = self._bridges.cut(self._x, _EACH)
    whole = self._bridges.join(part, _EACH, self._x.shape)
    (found,) = tf.gradients(tf.reduce_sum(whole**2.0), [part])
    bridge = self._of(found)
    self.assertEqual((bridge.kind, self._shape(found)), (Kind.CUT, [2, 3]))

  def test_the_gradient_of_what_slices_read_is_a_sum(self):
    weight = v1.placeholder(tf.float32, [3], "w")
    read = self._bridges.read(weight)
    (found,) = tf.gradients(self._bridges.cut(self._x, _EACH) * read, [weight])
    bridge = self._of(found)
    self.assertEqual(bridge.kind, Kind.SUM)
    self.assertIs(bridge.of, weight)

  def test_the_gradient_of_a_sum_is_read_by_all(self):
    share = tf.reduce_sum(self._bridges.cut(self._x, _EACH))
    whole = self._bridges.sum(share)
    (found,) = tf.gradients(whole * 3.0, [share])
    self.assertEqual(self._of(found).kind, Kind.READ)

  def test_a_gradient_of_a_gradient(self):
    part = self._bridges.cut(self._x, _EACH)
    (first,) = tf.gradients(part**3.0, [self._x])
    (second,) = tf.gradients(first, [self._x])
    kinds = [x.kind for x in self._bridges.all.values()]
    self.assertEqual(kinds, [Kind.CUT, Kind.JOIN, Kind.CUT, Kind.JOIN])
    self.assertEqual(self._of(second).kind, Kind.JOIN)

  def test_rows_of_a_table_are_listed_by_all(self):
    table = v1.placeholder(tf.float32, [9, 2], "table")
    read = self._bridges.read(table)
    places = self._bridges.cut(v1.placeholder(tf.int32, [4]), _EACH)
    (found,) = tf.gradients(tf.gather(read, places) ** 2.0, [table])
    self.assertIsInstance(found, tf.IndexedSlices)
    values = self._of(found.values)
    self.assertEqual((values.kind, values.rows), (Kind.JOIN, None))
    self.assertIs(values.together, self._of(found.indices))
    with self.assertRaisesRegex(ValueError, "a part of a sparse gradient"):
      tf.gradients(found.values, [table])

  def test_what_is_the_same_in_all_has_no_gradient(self):
    length = self._bridges.first(
      tf.reduce_sum(self._bridges.cut(self._x, _EACH))
    )
    self.assertEqual(self._of(length).kind, Kind.FIRST)


if __name__ == "__main__":
  absltest.main()
