"""Collectives: their order on each device, and sessions that run many."""

import random
import time

import estimator_mp  # noqa: F401
from estimator_mp.collectives import all_reduce as all_reduce_lib
from estimator_mp.lower import ordering
from estimator_mp.planning import collective_order
from tests import tiers
from tests.estimator_mp.collectives import all_reduce_cases as cases
from tests.estimator_mp.distributed import clusters

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
all_reduce = cases.all_reduce


def placed(values, make):
  """Returns what a function makes of each value, on CPU devices in turn."""
  found = []
  for index, device in enumerate(cases.cpus(len(values))):
    with tf.device(device):
      found.append(make(values[index]))
  return found


def after(value, call):
  """Returns a tensor that passes on a value after a call, on its device."""

  def passed(array):
    call()
    return array

  with tf.device(value.device):
    tensor = v1.py_func(passed, [value], value.dtype)
  tensor.set_shape(value.shape)
  return tensor


def order_all(graph):
  """Orders the collectives of a graph, and returns them."""
  found = collective_order.collectives_of(graph)
  ordering.order_collectives(found)
  return found


class ManyRunsTest(absltest.TestCase):
  @tiers.slow
  def test_40_collectives_with_random_delays(self):
    count, num_devices = 40, 4
    delays = random.Random(0)
    parts = cases.random_parts(num_devices, [count, 50], tf.float32, 0)
    with tf.Graph().as_default() as graph:
      fed = v1.placeholder(tf.float32, parts.shape)
      sums = []
      for index in range(count):
        inputs = placed(
          [fed[rank, index] for rank in range(num_devices)],
          lambda x: after(x, lambda: time.sleep(delays.uniform(0, 0.002))),
        )
        sums.append(all_reduce(inputs, "collective"))
      self.assertLen(order_all(graph), count)
      first = None
      with v1.Session(config=cases.session_config(num_devices)) as session:
        run = session.make_callable(sums, [fed], accept_options=True)
        for _ in range(40):
          found = np.stack(run(parts, options=cases.TIMEOUT))
          first = found if first is None else first
          self.assertEqual(found.tobytes(), first.tobytes())
    for index, results in enumerate(first):
      cases.assert_is_sum(parts[:, index], list(results))


class OrderTest(absltest.TestCase):
  def test_a_device_waits_for_its_part_of_the_collective_before(self):
    parts = cases.random_parts(3, [5], tf.float32, 0)
    with tf.Graph().as_default() as graph:
      fed = v1.placeholder(tf.float32, parts.shape)
      inputs = placed([fed[rank] for rank in range(3)], tf.identity)
      sums = [all_reduce(inputs, "collective") for _ in range(2)]
      first, second = order_all(graph)
      self.assertEqual(
        [list(op.control_inputs) for op in second], [[op] for op in first]
      )
      with v1.Session(config=cases.session_config(3)) as session:
        for found in session.run(sums, {fed: parts}, options=cases.TIMEOUT):
          cases.assert_is_sum(parts, found)

  def test_collectives_of_some_devices_and_of_unknown_shapes(self):
    """A device that takes no part in a collective does not wait for it."""
    with tf.Graph().as_default() as graph:
      fed = v1.placeholder(tf.float32, [None])
      known = tf.ensure_shape(fed, [2])
      a = all_reduce(placed([fed] * 3, tf.identity), "collective")
      b = all_reduce(placed([known] * 2, tf.identity), "collective")
      devices = cases.cpus(3)[1:]
      c = all_reduce_lib.all_reduce([3 * a[1], a[2]], "collective", devices)
      all_reduce([a[0], b[1]], "ring")
      collectives = order_all(graph)
      self.assertEqual([len(x) for x in collectives], [3, 2, 2])
      (a0, a1, _), (b0, b1), (c1, c2) = collectives
      self.assertEqual(list(b0.control_inputs), [a0])
      self.assertEqual(list(b1.control_inputs), [a1])
      self.assertEqual(list(c1.control_inputs), [b1])
      self.assertEqual(list(c2.control_inputs), [collectives[0][2]])
      order_all(graph)
      self.assertEqual(list(b0.control_inputs), [a0])
      with v1.Session(config=cases.session_config(3)) as session:
        for numbers in ([1.0, 2.0], [3.0, 4.0]):
          found = session.run(c + b, {fed: numbers}, options=cases.TIMEOUT)
          scales = np.divide(found, numbers)
          np.testing.assert_array_equal(scales, [[12] * 2] * 2 + [[2] * 2] * 2)

  def test_nccl(self):
    with tf.Graph().as_default() as graph:
      fed = v1.placeholder(tf.float32, [4])
      gpus = ["/device:GPU:0", "/device:GPU:1"]
      for _ in range(3):
        all_reduce_lib.all_reduce([fed, fed], "nccl", gpus)
      first, second, third = order_all(graph)
    for before, after in ((first, second), (second, third)):
      for earlier, later in zip(before, after, strict=True):
        self.assertEqual(list(later.control_inputs), [earlier])


class ErrorsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())

  def test_an_order_that_closes_a_circle(self):
    fed = v1.placeholder(tf.float32, [2])
    first = all_reduce(placed([fed, fed], tf.identity), "collective")
    all_reduce(first, "collective")
    collectives = collective_order.collectives_of(self.graph)
    with self.assertRaisesRegex(
      ValueError, "collective 0 .*_1/member.* reads the result of .* 1 "
    ):
      ordering.order_collectives(collectives[::-1])

  def test_a_collective_needs_one_op_per_device(self):
    nowhere = tf.no_op("nowhere")
    with tf.device("/cpu:1"):
      one, two = tf.no_op("one"), tf.no_op("two")
    with self.assertRaisesRegex(ValueError, "nowhere has no device"):
      ordering.order_collectives([[one, nowhere]])
    with self.assertRaisesRegex(ValueError, "one and two .* on /device:CPU:1"):
      ordering.order_collectives([[one, two]])

  def test_a_group_key_that_only_the_session_knows(self):
    key = v1.placeholder(tf.int32, [], name="key")
    tf.raw_ops.CollectiveReduceV2(
      input=tf.constant([1.0]),
      group_size=tf.constant(2),
      group_key=key,
      instance_key=key,
      ordering_token=[],
      merge_op="Add",
      final_op="Id",
      name="theirs",
    )
    with self.assertRaisesRegex(
      ValueError, "theirs gets its group key from key:0 only when the session"
    ):
      collective_order.collectives_of(self.graph)


class TasksTest(parameterized.TestCase):
  """Two servers with two CPU devices each, in this process."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.devices = [
      f"/job:worker/task:{task}/device:CPU:{cpu}"
      for task in (0, 1)
      for cpu in (0, 1)
    ]
    cluster = {"worker": clusters.free_addresses(2)}
    # Servers have no thread pool per session.
    config = v1.ConfigProto(device_count={"CPU": 2})
    leader = "/job:worker/replica:0/task:0"
    config.experimental.collective_group_leader = leader
    cls.servers = [
      v1.train.Server(cluster, "worker", task, config=config) for task in (0, 1)
    ]

  @parameterized.named_parameters(
    (name, name)
    for name in ("copy", "ring", "tree", "hierarchical", "collective")
  )
  def test_sums(self, algorithm):
    """Servers go on, so the keys of a graph are not those of another one."""
    for shape, dtype in (([5], tf.float32), ([7], tf.float64), ([2, 3], None)):
      kind = dtype or tf.float32
      parts = cases.random_parts(4, shape, kind, 0)
      with tf.Graph().as_default() as graph:
        fed = []
        for device in self.devices:
          with tf.device(device):
            fed.append(v1.placeholder(kind, shape if dtype else None))
        sums = [all_reduce(fed, algorithm) for _ in range(2)]
        order_all(graph)
        feeds = dict(zip(fed, parts, strict=True))
        with v1.Session(self.servers[0].target) as session:
          for _ in range(2):
            for found in session.run(sums, feeds, options=cases.TIMEOUT):
              cases.assert_is_sum(parts, found)


if __name__ == "__main__":
  absltest.main()
