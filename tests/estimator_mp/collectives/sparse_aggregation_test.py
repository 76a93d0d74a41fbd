"""Sums of sparse gradients: rows, dtypes, duplicates."""

from estimator_mp.collectives import sparse
from tests.estimator_mp.collectives import device_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_TABLE = (6, 2)


def _slices(count, rows, dtype=np.float32, indices=np.int64, shape=_TABLE):
  """Returns slices on each device, what to feed, and their dense sum.

  Args:
    count: The number of replicas.
    rows: The indices of all replicas.
    dtype: That of the values.
    indices: The dtype of indices, or one for each replica.
    shape: That of the table.
  """
  random = np.random.RandomState(count)
  found, feed, total = [], {}, np.zeros(shape, dtype)
  kinds = indices if isinstance(indices, list) else [indices] * count
  for device, own, kind in zip(
    device_steps.devices_of(count), rows, kinds, strict=True
  ):
    values = random.randint(-8, 9, [len(own), *shape[1:]]).astype(dtype)
    with tf.device(device):
      fed = device_steps.placeholders([values, np.array(own, kind)])
      found.append(
        tf.IndexedSlices(
          tf.identity(fed[0]), tf.identity(fed[1]), tf.constant(shape)
        )
      )
    feed[fed[0]], feed[fed[1]] = values, own
    np.add.at(total, np.array(own, np.int64), values)
  return found, feed, total


def _dense(slices, shape=_TABLE):
  """Returns an array from the value of an IndexedSlices."""
  total = np.zeros(shape, slices.values.dtype)
  np.add.at(total, slices.indices, slices.values)
  return total


class SparseTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("one", 1, [[0, 5, 5]], np.float32),
    ("two", 2, [[0, 1], [1, 5, 1]], np.float32),
    ("three", 3, [[2], [2, 2], [3, 0, 1]], np.float64),
    ("half", 2, [[2], [4]], np.float16),
    ("empty_rows", 3, [[], [1, 4], []], np.float32),
    ("all_empty", 2, [[], []], np.float32),
    ("higher_rank", 2, [[3, 3], [0]], np.float32, (4, 2, 3)),
  )
  def test_rows_of_all_replicas_on_each_device(
    self, count, rows, dtype, shape=_TABLE
  ):
    devices = device_steps.devices_of(count)
    with tf.Graph().as_default():
      slices, feed, expected = _slices(count, rows, dtype, shape=shape)
      sums = sparse.sum_rows(slices, devices)
      for total, device in zip(sums, devices, strict=True):
        self.assertIsInstance(total, tf.IndexedSlices)
        for part in (total.values, total.indices, total.dense_shape):
          self.assertEqual(part.device, device)
        self.assertEqual(total.shape, shape)
      values = device_steps.run(sums, feed)
    for total in values:
      self.assertEqual(total.values.dtype, dtype)
      np.testing.assert_array_equal(total.indices, np.concatenate(rows))
      np.testing.assert_array_equal(_dense(total, shape), expected)

  @parameterized.named_parameters(
    ("int32", [np.int32] * 2, tf.int32),
    ("int64", [np.int64] * 2, tf.int64),
    ("mixed", [np.int32, np.int64], tf.int64),
    ("mixed_the_other_way", [np.int64, np.int32], tf.int64),
  )
  def test_dtype_of_indices(self, kinds, expected_dtype):
    with tf.Graph().as_default():
      slices, feed, expected = _slices(2, [[3, 1], [1]], indices=kinds)
      sums = sparse.sum_rows(slices, device_steps.devices_of(2))
      for total in sums:
        self.assertEqual(total.indices.dtype, expected_dtype)
      for total in device_steps.run(sums, feed):
        np.testing.assert_array_equal(_dense(total), expected)

  def test_the_shape_of_the_table_may_be_unknown(self):
    with tf.Graph().as_default():
      slices, feed, _ = _slices(2, [[3, 1], [1]])
      bare = [tf.IndexedSlices(s.values, s.indices) for s in slices]
      one, two = device_steps.devices_of(2)
      sums = sparse.sum_rows(bare, [one, two])
      self.assertIsNone(sums[0].dense_shape)
      mixed = sparse.sum_rows([bare[0], slices[1]], [one, two])
      self.assertEqual(mixed[0].shape, _TABLE)
      for total in device_steps.run([sums[0].values, mixed[0].values], feed):
        self.assertEqual(total.shape, (3, 2))
      with self.assertRaisesRegex(
        ValueError, f"^{bare[0].values.name} .* without a dense_shape"
      ):
        sparse.dense(bare[0])


class DuplicatesTest(absltest.TestCase):
  def test_the_global_norm_is_that_of_the_listed_rows(self):
    """Clipping in a sharded model equals that of the plain one."""
    with tf.Graph().as_default():
      ids = v1.placeholder(tf.int64, [6])

      def gradient(some):
        table = v1.Variable(tf.ones(_TABLE), use_resource=True)
        loss = tf.reduce_sum(tf.gather(table, some) ** 2)
        return tf.gradients(loss, [table])[0]

      _, plain = tf.clip_by_global_norm([gradient(ids)], 1.0)
      devices = device_steps.devices_of(2)
      parts = []
      for device, some in zip(devices, tf.split(ids, 2), strict=True):
        with tf.device(device):
          parts.append(gradient(some))
      norm = tf.linalg.global_norm(sparse.sum_rows(parts, devices)[:1])
      values = device_steps.run([plain, norm], {ids: [0, 0, 1, 1, 4, 4]})
    # Six rows of (2, 2), and not three of (4, 4).
    np.testing.assert_allclose(values, np.sqrt([6 * 8, 6 * 8]), rtol=1e-6)


if __name__ == "__main__":
  absltest.main()
