"""Sums of sparse gradients: rows, dtypes."""

from estimator_mp.collectives import sparse
from tests.estimator_mp.collectives import device_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_TABLE = (6, 2)


def _slices(rows, kinds=(np.int64, np.int64)):
  """Returns slices of devices, what to feed, and their dense sum.

  Args:
    rows: The indices of all devices.
    kinds: The dtypes of indices.
  """
  random = np.random.RandomState(2)
  found, feed, total = [], {}, np.zeros(_TABLE, np.float32)
  for own, kind in zip(rows, kinds, strict=True):
    values = random.randint(-8, 9, [len(own), 2]).astype(np.float32)
    fed = device_steps.placeholders([values, np.array(own, kind)])
    found.append(
      tf.IndexedSlices(
        tf.identity(fed[0]), tf.identity(fed[1]), tf.constant(_TABLE)
      )
    )
    feed[fed[0]], feed[fed[1]] = values, own
    np.add.at(total, np.array(own, np.int64), values)
  return found, feed, total


def _dense(slices):
  """Returns an array from the value of an IndexedSlices."""
  total = np.zeros(_TABLE, slices.values.dtype)
  np.add.at(total, slices.indices, slices.values)
  return total


class SparseTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("int32", [np.int32] * 2, tf.int32),
    ("int64", [np.int64] * 2, tf.int64),
    ("mixed", [np.int32, np.int64], tf.int64),
    ("mixed_the_other_way", [np.int64, np.int32], tf.int64),
  )
  def test_dtype_of_indices(self, kinds, expected_dtype):
    with tf.Graph().as_default():
      slices, feed, expected = _slices([[3, 1], [1]], kinds)
      total = sparse.concatenate(slices)
      self.assertEqual(total.indices.dtype, expected_dtype)
      found = device_steps.run(total, feed)
    np.testing.assert_array_equal(_dense(found), expected)

  def test_the_shape_of_the_table_may_be_unknown(self):
    with tf.Graph().as_default():
      slices, feed, _ = _slices([[3, 1], [1]])
      bare = [tf.IndexedSlices(s.values, s.indices) for s in slices]
      total = sparse.concatenate(bare)
      self.assertIsNone(total.dense_shape)
      mixed = sparse.concatenate([bare[0], slices[1]])
      self.assertEqual(mixed.shape, _TABLE)
      for found in device_steps.run([total.values, mixed.values], feed):
        self.assertEqual(found.shape, (3, 2))
      with self.assertRaisesRegex(
        ValueError, f"^{bare[0].values.name} .* without a dense_shape"
      ):
        sparse.dense(bare[0])


if __name__ == "__main__":
  absltest.main()
