"""How large rules are told that tensors are."""

from estimator_mp.model_axis.decisions import Replicate, Resized, Shard
from estimator_mp.plan import odd_sizes
from estimator_mp.plan.batch_plan import Cut, Rows, Size
from estimator_mp.plan.batch_sizes import OddBatchSizes, StaticSizes

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _static(size=8):
  return StaticSizes(size, tf.Graph())


class SizesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  @parameterized.parameters((8, (3, 5)), (7, (3, 4)), (2, (1, 1)))
  def test_two_parts_differ_where_they_can(self, size, parts):
    self.assertEqual(_static(size).parts, parts)

  @parameterized.parameters(
    ([8, 3], Rows(0, 1)), ([24], Rows(0, 3)), ([9], None), ([], None)
  )
  def test_where_a_whole_tensor_may_be_cut(self, shape, rows):
    self.assertEqual(_static().rows(v1.placeholder(tf.int32, shape)), rows)

  def test_rows_of_an_odd_batch(self):
    size = odd_sizes.BATCH
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [4, 2 * size])
      both = v1.placeholder(tf.float32, [size, size])
    sizes = OddBatchSizes(graph)
    self.assertEqual(sum(sizes.parts), size)
    self.assertEqual(sizes.rows(x), Rows(1, 2))
    self.assertIsNone(sizes.rows(both))  # Which axis, nobody knows.
    self.assertIsNone(sizes.rows(v1.placeholder(tf.float32, [4], "other")))

  def test_what_is_split_as_the_batch_is(self):
    sizes = _static()
    self.assertTrue(sizes.is_of_batch(Shard(1, (6, 10))))
    self.assertFalse(sizes.is_of_batch(Shard(1, (4, 4))))
    self.assertFalse(sizes.is_of_batch(Replicate()))
    self.assertEqual(sizes.rows_of(Shard(1, (6, 10))), Rows(1, 2))

  def test_what_slices_read(self):
    shape = tf.constant([16, 2])
    sizes = _static()
    self.assertEqual(sizes.reads(shape, Shard(1, (6, 10))), Cut(Rows(1, 2)))
    self.assertEqual(sizes.reads(shape, Resized(0, (6, 10))), Size(0, 2))
    self.assertIsNone(sizes.reads(tf.constant([-1, 2]), Resized(0, (6, 10))))
    self.assertIsNone(sizes.reads(shape, Replicate()))

  def test_an_odd_batch_tells_no_real_size(self):
    sizes = OddBatchSizes(tf.Graph())
    self.assertEqual(sizes.real(Rows(0, 1)), Rows(0, 1))
    self.assertEqual(sizes.real(Rows(0, 3)), Rows(0, None))
    self.assertEqual(_static().real(Rows(0, 3)), Rows(0, 3))


if __name__ == "__main__":
  absltest.main()
