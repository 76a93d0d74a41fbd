"""Gradients of one variable: their shape, and where and how they add up."""

from estimator_mp.graph import gradient

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _dense(shape=(None, 3), device="", name="dense", dtype=tf.float32):
  with tf.device(device):
    return v1.placeholder(dtype, shape, name)


def _sparse(rows=None, device="", name="sparse"):
  with tf.device(device):
    return tf.IndexedSlices(
      v1.placeholder(tf.float32, [rows, 3], name),
      v1.placeholder(tf.int64, [rows]),
      tf.constant([7, 3], tf.int64),
    )


class GradientTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def test_common_shape_is_what_any_of_them_knows(self):
    shape = gradient.common_shape(0, [_dense([None, 3]), _dense([7, None])])
    self.assertEqual(shape.as_list(), [7, 3])
    shape = gradient.common_shape(0, [_sparse(), _dense([None, 3])])
    self.assertEqual(shape.as_list(), [7, 3])

  def test_what_cannot_be_added_is_an_error(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "the gradients at index 2 have shapes (7, 3) and (7, 4); gradients of "
      "one variable need one shape",
    ):
      gradient.common_shape(2, [_dense([7, 3]), _dense([7, 4])])
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "the gradients at index 0 have dtypes float16, float32; gradients of one "
      "variable need one dtype",
    ):
      gradient.common_shape(0, [_dense(), _dense(dtype=tf.float16)])


class SumTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def test_nothing_is_added_to_none(self):
    one = _dense()
    self.assertIs(gradient.add(one, None), one)
    self.assertIs(gradient.add(None, one), one)
    self.assertIsNone(gradient.add(None, None))

  def test_the_sum_is_where_the_first_one_is(self):
    one, other = _dense(device="/cpu:1"), _dense(device="/cpu:2")
    self.assertEqual(gradient.add(one, other).device, one.device)
    self.assertEqual(gradient.add(_sparse(), other).op.type, "AddV2")

  def test_rows_stay_rows(self):
    one, other = _sparse(2, "/cpu:1"), _sparse(5, "/cpu:2")
    total = gradient.add(one, other)
    self.assertIsInstance(total, tf.IndexedSlices)
    self.assertEqual(total.values.shape.as_list(), [7, 3])
    self.assertEqual(total.values.device, one.values.device)

  def test_terms_at_once_are_where_the_first_name_is(self):
    terms = [
      _dense(device="/cpu:2", name="b"),
      _dense(device="/cpu:1", name="a"),
      _dense(device="/cpu:2", name="c"),
    ]
    total = gradient.add_at_once(terms)
    self.assertEqual([x.op.name for x in total.op.inputs], ["b", "a", "c"])
    self.assertEqual(total.op.colocation_groups(), [b"loc:@a"])

  def test_terms_by_device_are_sent_once_from_each(self):
    terms = [
      _dense(device=f"/cpu:{device}", name=name)
      for name, device in (("a", 1), ("b", 2), ("c", 1), ("d", 1))
    ]
    first, second = gradient.add_by_device(terms).op.inputs
    self.assertEqual([x.op.name for x in first.op.inputs], ["a", "c", "d"])
    self.assertEqual(first.op.colocation_groups(), [b"loc:@a"])
    self.assertIs(second, terms[1])


if __name__ == "__main__":
  absltest.main()
