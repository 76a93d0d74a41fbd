"""Sums over replicas: the ops are those that were planned."""

import estimator_mp  # noqa: F401  # It installs compat, before TensorFlow.
from estimator_mp.config import sharding_options
from estimator_mp.lower import replica_sums
from estimator_mp.plan import gradient_sums
from tests.estimator_mp.collectives import device_steps

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

DEVICES = device_steps.devices_of(2)


def parts_of_request():
  """Returns two dense gradients, one of rows, and one that is a constant."""
  per_replica = []
  for replica, device in enumerate(DEVICES, 1):
    with tf.device(device):
      values = tf.compat.v1.placeholder_with_default([[1.0 * replica]], [1, 1])
      rows = tf.IndexedSlices(
        values, tf.constant([replica]), tf.constant([4, 1])
      )
      dense = [
        tf.compat.v1.placeholder_with_default([1.0 * replica] * size, [size])
        for size in (2, 5)
      ]
    per_replica.append([*dense, rows])
  with tf.device(DEVICES[0]):
    constant = tf.constant([3.0])
  return [*zip(*per_replica, strict=True), (constant, constant)]


class SumsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("copy", {}, 0),
    ("ring", {"aggregation": "ring"}, 0),
    ("pieces", {"bucket_bytes": 8, "chunk_bytes": 16}, 0),
    ("float16", {"compression": "float16"}, 0),
    ("as_dense", {"sparse_as_dense": 0.5}, 0),
    ("shared", {"variables": "shared"}, 0),
    ("sharded", {"optimizer_state": "sharded"}, 1),
  )
  def test_sums_are_where_they_are_planned(self, changed, updater):
    options = sharding_options.ShardingOptions(mesh="data:2", **changed)
    with tf.Graph().as_default():
      variable = tf.compat.v1.get_variable("v", [4, 1], use_resource=True)
      parts = parts_of_request()
      sums = gradient_sums.plan_sums(
        [
          gradient_sums.describe(variable.handle.op, of_one, 0, updater)
          for of_one in parts
        ],
        options,
      )
      totals = replica_sums.sum_over_replicas(parts, sums)
      places = {
        index: [found.devices[found.receiver]]
        if found.receiver is not None
        else [*found.devices]
        for found in sums
        for index in found.bucket.gradients
      }
      self.assertEqual(
        [[getattr(x, "values", x).device for x in of_one] for of_one in totals],
        [places[index] for index in range(len(parts))],
      )
      kinds = {found.bucket.gradients: found.kind for found in sums}
      for of_one in totals[2]:
        is_rows = isinstance(of_one, tf.IndexedSlices)
        self.assertEqual(
          is_rows, kinds[(2,)] is gradient_sums.GradientKind.ROWS
        )
      found = device_steps.run(
        tf.nest.map_structure(tf.convert_to_tensor, totals)
      )
    table = np.array([[0.0], [1.0], [2.0], [0.0]], np.float32)
    expected = [np.full([2], 3.0), np.full([5], 3.0), table, [6.0]]
    for of_one, total in zip(found, expected, strict=True):
      for value in of_one:
        np.testing.assert_array_equal(value, total)


if __name__ == "__main__":
  absltest.main()
