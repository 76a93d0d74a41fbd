"""Buckets: the sums, and what each bucket waits for."""

import threading

from estimator_mp.collectives import buckets as buckets_lib
from tests.estimator_mp.collectives import device_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_SHAPES = [(3, 2), (), (0, 4), (5,), (40,), (2, 1, 3), (7,)]
_DTYPES = ["f4", "f4", "f4", "f8", "f4", "f8", "f2"]


def _per_replica(parts, devices, reduces):
  """Returns for every replica its sums."""
  sums = buckets_lib.reduce_in_buckets(parts, devices, reduces)
  return [[*column] for column in zip(*sums.values(), strict=True)]


class SumsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (f"{n}_replicas_{name}", n, bucket_bytes, options)
    for n in (1, 2, 3)
    for name, bucket_bytes, options in (
      ("unfused", 0, {}),
      ("small", 32, {}),
      ("one_per_dtype", 1 << 20, {}),
      ("reversed", 64, {"order": range(7)[::-1]}),
    )
  )
  def test_sums_are_numpys(self, n, bucket_bytes, options):
    random = np.random.RandomState(n)
    arrays = [
      [
        random.randn(*shape).astype(dtype)
        if shape
        else np.array(random.randn(), dtype)
        for shape, dtype in zip(_SHAPES, _DTYPES, strict=True)
      ]
      for _ in range(n)
    ]
    calls = []

    def reduce(tensors, devices):
      calls.append([tensor.device for tensor in tensors])
      return device_steps.add_copies(tensors, devices)

    devices = device_steps.devices_of(n)
    with tf.Graph().as_default():
      fed = [device_steps.placeholders(gradients) for gradients in arrays]
      spread = [device_steps.spread(parts) for parts in zip(*fed, strict=True)]
      plan = buckets_lib.plan_buckets(
        [int(np.prod(shape)) for shape in _SHAPES],
        [tf.as_dtype(np.dtype(dtype)) for dtype in _DTYPES],
        bucket_bytes,
        **{"order": range(7)} | options,
      )
      sums = _per_replica(spread, devices, dict.fromkeys(plan, reduce))
      for totals, device in zip(sums, devices, strict=True):
        self.assertEqual({total.device for total in totals}, {device})
        self.assertEqual([total.shape for total in totals], _SHAPES)
      feed = {
        tensor: array
        for tensors, gradients in zip(fed, arrays, strict=True)
        for tensor, array in zip(tensors, gradients, strict=True)
      }
      values = device_steps.run(sums, feed)
    self.assertEqual(calls, [devices] * len(plan))
    for totals in values:
      for index, total in enumerate(totals):
        expected = sum(gradients[index] for gradients in arrays)
        self.assertEqual(total.dtype, _DTYPES[index])
        epsilon = np.finfo(_DTYPES[index]).eps
        np.testing.assert_allclose(
          total, expected, rtol=4 * epsilon, atol=4 * epsilon
        )

  def test_unknown_sizes(self):
    with tf.Graph().as_default():
      fed = tf.compat.v1.placeholder(tf.float32, [None, 2])
      # One replica knows what the other does not.
      shaped = tf.compat.v1.placeholder_with_default(fed * 10.0, [None, 2])
      small = tf.ensure_shape(fed[0], [2])
      unknown = tf.compat.v1.placeholder_with_default(fed[0], None)
      pairs = [(fed, shaped), (small, unknown), (small, small)]
      columns = [device_steps.spread(parts) for parts in pairs]
      shapes = []

      def reduce(tensors, devices):
        shapes.append(tensors[0].shape.as_list())
        return device_steps.add_copies(tensors, devices)

      plan = buckets_lib.plan_buckets(
        [None, 2, 2], [tf.float32] * 3, 1 << 10, range(3)
      )
      devices = device_steps.devices_of(2)
      sums = _per_replica(columns, devices, dict.fromkeys(plan, reduce))
      value = np.arange(6.0, dtype=np.float32).reshape(3, 2)
      values = device_steps.run(sums, {fed: value})
      self.assertEqual(shapes, [[None, 2], [4]])
      self.assertEqual(sums[0][1].shape, [2])
    for totals in values:
      np.testing.assert_array_equal(totals[0], value * 11.0)
      np.testing.assert_array_equal(totals[1], value[0] * 2.0)
      np.testing.assert_array_equal(totals[2], value[0] * 2.0)


class OverlapTest(absltest.TestCase):
  def test_a_bucket_is_summed_while_the_backward_pass_goes_on(self):
    first_was_summed = threading.Event()

    def late(value):
      # Without overlap this waits in vain, and says so.
      return value if first_was_summed.wait(600.0) else value * np.nan

    def note(value):
      first_was_summed.set()
      return value

    def reduce(tensors, devices):
      sums = device_steps.add_copies(tensors, devices)
      if not calls:
        with tf.device(devices[0]):
          sums[0] = tf.numpy_function(note, [sums[0]], tf.float32)
      calls.append(sums)
      return sums

    calls = []
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [2])
      per_replica = []
      for device in device_steps.devices_of(2):
        with tf.device(device):
          early = [x + 1.0, x + 2.0]
          slow = tf.numpy_function(late, [x], tf.float32)
          slow.set_shape([2])
          per_replica.append([*early, slow, slow * 2.0])
      buckets = buckets_lib.plan_buckets(
        [2] * 4, [tf.float32] * 4, 16, range(4)
      )
      parts = [*zip(*per_replica, strict=True)]
      devices = device_steps.devices_of(2)
      sums = _per_replica(parts, devices, dict.fromkeys(buckets, reduce))
      self.assertLen(calls, 2)
      values = device_steps.run(sums, {x: [1.0, 2.0]})
    for totals in values:
      np.testing.assert_array_equal(
        totals, [[4.0, 6.0], [6.0, 8.0], [2.0, 4.0], [4.0, 8.0]]
      )


if __name__ == "__main__":
  absltest.main()
