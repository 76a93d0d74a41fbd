"""What replicas sum, where and by what: decided as data, without a graph."""

import estimator_mp  # noqa: F401  # It installs compat, before TensorFlow.
from estimator_mp.collectives.buckets import Bucket
from estimator_mp.config import sharding_options
from estimator_mp.plan import gradient_sums
from estimator_mp.plan.gradient_sums import GradientKind, GradientParts

import tensorflow as tf
from absl.testing import absltest, parameterized

CPUS = ("/device:CPU:0", "/device:CPU:1")
OTHER_STAGE = ("/device:CPU:2", "/device:CPU:3")
TASKS = ("/job:a/task:0/device:CPU:0", "/job:a/task:1/device:CPU:0")
GPUS = ("/device:GPU:0", "/device:GPU:1")


def options(**changed):
  return sharding_options.ShardingOptions(mesh="data:2", **changed)


def dense(name, num_elements, made=0, devices=CPUS, dtype=tf.float32, **more):
  """Returns the parts of a dense gradient."""
  num_bytes = None if num_elements is None else num_elements * dtype.size
  return GradientParts(
    name, devices, dtype, num_elements, made, (f"{name}:0",), num_bytes, **more
  )


def rows(name, num_bytes=None, **more):
  """Returns the parts of a sparse gradient of a table of 10 x 4 elements."""
  return GradientParts(
    name,
    CPUS,
    tf.float32,
    40,
    tensors=(f"{name}:0", f"{name}_indices:0"),
    num_bytes=num_bytes,
    is_sparse=True,
    **more,
  )


def both(num_bytes, devices=CPUS):
  """Returns the links of two devices that send each other the same."""
  return {devices: num_bytes, devices[::-1]: num_bytes}


class PlacesTest(parameterized.TestCase):
  """What is summed with what, and where the sum is."""

  def test_gradients_of_a_stage_are_summed_in_the_order_they_are_made(self):
    found = gradient_sums.plan_sums(
      [
        dense("a", 2, made=3),
        dense("b", 3, made=2, devices=OTHER_STAGE),
        dense("c", 4, made=1),
      ],
      options(),
    )
    first, second = found
    self.assertEqual(first.variables, ("c", "a"))
    self.assertEqual(first.bucket, Bucket((2, 0), tf.float32))
    self.assertEqual((first.devices, first.num_bytes), (CPUS, 24))
    self.assertEqual(second.variables, ("b",))
    self.assertEqual(second.bucket, Bucket((1,), tf.float32))
    self.assertEqual((second.devices, second.num_bytes), (OTHER_STAGE, 12))
    for one in found:
      self.assertIsNone(one.receiver)
      self.assertEqual((one.kind, one.algorithm), (GradientKind.DENSE, "copy"))

  @parameterized.named_parameters(
    ("shared", {"variables": "shared"}, 0),
    ("sharded", {"optimizer_state": "sharded"}, 1),
  )
  def test_one_replica_gets_what_it_updates(self, changed, updater):
    found = gradient_sums.plan_sums(
      [dense("a", 2, updater=updater), rows("t", 80, updater=updater)],
      options(**changed),
    )
    self.assertEqual(
      [x.kind for x in found], [GradientKind.DENSE, GradientKind.ROWS]
    )
    for one, num_bytes in zip(found, (8, 80), strict=True):
      self.assertEqual((one.receiver, one.algorithm), (updater, "to_owner"))
      link = CPUS[1 - updater], CPUS[updater]
      self.assertEqual(one.links, {link: num_bytes})

  def test_a_constant_is_there_once(self):
    """Its parts are all on one device, so nothing is sent."""
    (found,) = gradient_sums.plan_sums(
      [dense("a", 2, devices=CPUS[:1] * 2)], options(aggregation="ring")
    )
    self.assertEqual((found.receiver, found.links), (0, {}))

  def test_buckets_and_pieces(self):
    found = gradient_sums.plan_sums(
      [dense("a", 2), dense("large", 40), dense("b", 2), dense("c", 2)],
      options(bucket_bytes=16, chunk_bytes=60, aggregation="tree"),
    )
    self.assertEqual(
      [(x.variables, x.bucket.start, x.num_bytes) for x in found],
      [
        (("large",), 0, 52),
        (("large",), 13, 52),
        (("large",), 26, 56),
        (("a", "b"), None, 16),
        (("c",), None, 8),
      ],
    )
    for one in found:
      self.assertEqual(one.links, both(one.num_bytes))

  def test_dtypes_are_not_mixed(self):
    found = gradient_sums.plan_sums(
      [dense("a", 2), dense("b", 2, dtype=tf.float64), dense("c", 2)],
      options(),
    )
    self.assertEqual([x.variables for x in found], [("b",), ("a", "c")])


class SparseTest(parameterized.TestCase):
  def test_rows_that_the_graph_does_not_count(self):
    (found,) = gradient_sums.plan_sums([rows("t")], options())
    self.assertEqual(found.kind, GradientKind.ROWS)
    self.assertEqual(found.tensors, ("t:0", "t_indices:0"))
    self.assertIsNone(found.num_bytes)
    self.assertIsNone(found.links)
    nominal = found.of_size(96)
    self.assertEqual((nominal.num_bytes, nominal.links), (96, both(96)))


class AlgorithmTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("cpus", CPUS, 10**6, tf.float32, "copy"),
    ("tasks", TASKS, 10**6, tf.float32, "ring"),
    ("small_tasks", TASKS, 10, tf.float32, "copy"),
    ("tasks_unknown", TASKS, None, tf.float32, "ring"),
    ("gpus", GPUS, 10**6, tf.float32, "nccl"),
    ("gpus_bfloat16", GPUS, 10**6, tf.bfloat16, "ring"),
  )
  def test_auto_goes_by_devices_sizes_and_dtypes(
    self, devices, num_elements, dtype, algorithm
  ):
    (found,) = gradient_sums.plan_sums(
      [dense("a", num_elements, devices=devices, dtype=dtype)], options()
    )
    self.assertEqual(found.algorithm, algorithm)
    is_known = num_elements is not None and algorithm != "nccl"
    self.assertEqual(found.links is not None, is_known)

  @parameterized.named_parameters(
    ("none", "none", "ring", tf.float32, "ring", 40),
    ("half", "float16", "ring", tf.float32, "ring", 20),
    ("half_double", "bfloat16", "ring", tf.float64, "ring", 20),
    # One device that adds would send sums that are rounded once more.
    ("half_auto", "bfloat16", "auto", tf.float32, "to_each", 20),
    ("half_copy", "float16", "copy", tf.float32, "to_each", 20),
    # A tenth of 10 entries, and its index.
    ("top_k", "top_k", "ring", tf.float32, "to_each", 8),
    ("top_k_of_integers", "top_k", "auto", tf.int32, "to_each", 40),
  )
  def test_compression(self, mode, aggregation, dtype, algorithm, sent):
    config = options(
      compression=mode, aggregation=aggregation, top_k_fraction=0.1
    )
    (found,) = gradient_sums.plan_sums([dense("a", 10, dtype=dtype)], config)
    self.assertEqual((found.compression, found.algorithm), (mode, algorithm))
    self.assertEqual(found.num_bytes, 10 * dtype.size)
    self.assertEqual(found.links, both(sent))

  def test_for_json(self):
    (found,) = gradient_sums.plan_sums([dense("a", 2)], options())
    self.assertEqual(
      found.to_dict(),
      {
        "variables": ["a"],
        "devices": [*CPUS],
        "num_bytes": 8,
        "algorithm": "copy",
        "sent": [[CPUS[1], CPUS[0], 8], [CPUS[0], CPUS[1], 8]],
      },
    )


if __name__ == "__main__":
  absltest.main()
