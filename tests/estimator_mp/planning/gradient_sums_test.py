"""What replicas sum, where and by what: decided as data, without a graph."""

import estimator_mp  # noqa: F401  # It installs compat, before TensorFlow.
from estimator_mp.collectives.buckets import Bucket
from estimator_mp.config import sharding_options
from estimator_mp.planning import gradient_sums
from estimator_mp.planning.gradient_sums import GradientParts

import tensorflow as tf
from absl.testing import absltest, parameterized

CPUS = ("/device:CPU:0", "/device:CPU:1")
OTHER_STAGE = ("/device:CPU:2", "/device:CPU:3")
TASKS = ("/job:a/task:0/device:CPU:0", "/job:a/task:1/device:CPU:0")
GPUS = ("/device:GPU:0", "/device:GPU:1")


def options(**changed):
  return sharding_options.ShardingOptions(mesh="data:2", **changed)


def part(name, num_elements, devices=CPUS, dtype=tf.float32, **more):
  """Returns the parts of a gradient."""
  return GradientParts(name, devices, dtype, num_elements, f"{name}:0", **more)


def rows_of(num_rows, receiver):
  """Returns the plan for rows that two devices have."""
  with tf.Graph().as_default():
    parts = []
    for device in CPUS:
      with tf.device(device):
        parts.append(tf.compat.v1.placeholder(tf.float32, [num_rows, 4], "t"))
    variable = tf.compat.v1.Variable(0.0, name="table", use_resource=True)
    return gradient_sums.plan_rows(variable.handle.op, parts, receiver)


def both(num_bytes, devices=CPUS):
  """Returns the links of two devices that send each other the same."""
  return {devices: num_bytes, devices[::-1]: num_bytes}


class PlacesTest(parameterized.TestCase):
  """What is summed with what, and where the sum is."""

  def test_gradients_of_a_stage_are_summed_in_the_order_they_are_made(self):
    found = gradient_sums.plan_sums(
      [
        part("a", 2),
        part("b", 3, devices=OTHER_STAGE),
        part("c", 4),
      ],
      options(),
    )
    first, second = found
    self.assertEqual(first.variables, ("a", "c"))
    self.assertEqual(first.bucket, Bucket((0, 2), tf.float32))
    self.assertEqual((first.devices, first.num_bytes), (CPUS, 24))
    self.assertEqual(second.variables, ("b",))
    self.assertEqual(second.bucket, Bucket((1,), tf.float32))
    self.assertEqual((second.devices, second.num_bytes), (OTHER_STAGE, 12))
    for one in found:
      self.assertIsNone(one.receiver)
      self.assertEqual(one.algorithm, "copy")

  @parameterized.parameters(0, 1)
  def test_one_replica_gets_what_it_updates(self, receiver):
    (found,) = gradient_sums.plan_sums(
      [part("a", 2, receiver=receiver)], options()
    )
    for one, num_bytes in (found, 8), (rows_of(5, receiver), 80):
      self.assertEqual((one.receiver, one.algorithm), (receiver, "to_owner"))
      link = CPUS[1 - receiver], CPUS[receiver]
      self.assertEqual(one.links, {link: num_bytes})

  def test_a_constant_is_there_once(self):
    """Its parts are all on one device, so nothing is sent."""
    (found,) = gradient_sums.plan_sums(
      [part("a", 2, devices=CPUS[:1] * 2)], options(aggregation="ring")
    )
    self.assertEqual((found.receiver, found.links), (0, {}))

  def test_buckets(self):
    found = gradient_sums.plan_sums(
      [part("a", 2), part("large", 40), part("b", 2), part("c", 2)],
      options(bucket_bytes=16, aggregation="tree"),
    )
    self.assertEqual(
      [(x.variables, x.num_bytes) for x in found],
      [(("large",), 160), (("a", "b"), 16), (("c",), 8)],
    )
    for one in found:
      self.assertEqual(one.links, both(one.num_bytes))

  def test_dtypes_are_not_mixed(self):
    found = gradient_sums.plan_sums(
      [part("a", 2), part("b", 2, dtype=tf.float64), part("c", 2)],
      options(),
    )
    self.assertEqual([x.variables for x in found], [("b",), ("a", "c")])


class SparseTest(parameterized.TestCase):
  def test_rows_that_the_graph_does_not_count(self):
    found = rows_of(None, None)
    self.assertEqual((found.variables, found.tensors), (("table",), ("t:0",)))
    self.assertEqual(found.algorithm, "to_each")
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
      [part("a", num_elements, devices=devices, dtype=dtype)], options()
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
    (found,) = gradient_sums.plan_sums([part("a", 10, dtype=dtype)], config)
    self.assertEqual((found.compression, found.algorithm), (mode, algorithm))
    self.assertEqual(found.num_bytes, 10 * dtype.size)
    self.assertEqual(found.links, both(sent))

  def test_for_json(self):
    (found,) = gradient_sums.plan_sums([part("a", 2)], options())
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
