"""Devices: one spelling of each name, and which of them there are."""

from unittest import mock

from estimator_mp import devices

import tensorflow as tf
from absl.testing import absltest, parameterized

_WORKER = "/job:worker/task:1/device:GPU:2"


def _with_gpus(count):
  return mock.patch.object(devices, "num_local_gpus", lambda: count)


class NamesTest(parameterized.TestCase):
  @parameterized.parameters(
    ("cpu:1", "/device:CPU:1"),
    (" /gpu:0 ", "/device:GPU:0"),
    ("/CPU:1", "/device:CPU:1"),
    ("/device:CPU:1", "/device:CPU:1"),
    ("/job:worker/task:1/gpu:2", _WORKER),
    ("/job:localhost/replica:0/task:0/device:CPU:3", "/device:CPU:3"),
  )
  def test_canonical(self, name, expected):
    self.assertEqual(devices.canonical_device(name), expected)
    self.assertEqual(devices.canonical_device(expected), expected)

  @parameterized.parameters(
    "", "cpu", "/cpu", "/job:worker", "/task:0/gpu", "a:b:c"
  )
  def test_what_is_no_device_is_an_error(self, name):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      f"{name!r} is not a device; give its type and index, such as /cpu:1, "
      "/gpu:0 or /job:worker/task:1/gpu:0",
    ):
      devices.canonical_device(name)

  def test_parts_of_a_name(self):
    self.assertEqual(devices.device_type(_WORKER), "GPU")
    self.assertEqual(devices.host_of("/device:GPU:3"), "/device:CPU:0")
    self.assertEqual(
      devices.host_of(_WORKER), "/job:worker/task:1/device:CPU:0"
    )
    self.assertTrue(devices.is_local("/device:CPU:7"))
    self.assertFalse(devices.is_local(_WORKER))


class MachineTest(parameterized.TestCase):
  def test_without_gpus_it_has_as_many_cpus_as_are_wanted(self):
    with _with_gpus(0):
      self.assertEqual(
        devices.discover_devices({"stage": 3}),
        ("/device:CPU:0", "/device:CPU:1", "/device:CPU:2"),
      )

  def test_gpus_come_first_and_have_to_be_enough(self):
    with _with_gpus(2):
      self.assertEqual(
        devices.discover_devices({"data": 2}),
        ("/device:GPU:0", "/device:GPU:1"),
      )
      with self.assertRaisesRegex(
        ValueError,
        r"needs 3 devices, but this machine has 2 GPU\(s\); use a smaller mesh"
        r", or make several of a GPU by tf\.config\.\w+, or name the devices "
        r"yourself: devices=/cpu:0,/cpu:1,/cpu:2$",
      ):
        devices.discover_devices({"stage": 3})
      with self.assertRaisesRegex(
        ValueError, r"devices=/cpu:0,/cpu:1,\.\.\.,/cpu:99$"
      ):
        devices.discover_devices({"data": 50, "stage": 2})

  def test_logical_gpus_are_what_tensorflow_was_told(self):
    limit = tf.config.LogicalDeviceConfiguration(1024)
    told = {"first": [limit, limit], "second": None}
    with mock.patch.multiple(
      tf.config,
      list_physical_devices=lambda kind: [*told],
      get_logical_device_configuration=told.get,
    ):
      self.assertEqual(devices.logical_gpus(), [[1024, 1024], []])
      self.assertEqual(devices.num_local_gpus(), 3)

  @parameterized.parameters(
    ("/device:TPU:0", "device /device:TPU:0 has type TPU; a mesh is made of "),
    (
      "/device:GPU:1",
      r"device /device:GPU:1 does not exist: this machine has 1 GPU\(s\); name "
      "devices that exist, such as /cpu:1, or leave devices out",
    ),
  )
  def test_a_local_device_that_can_never_be_is_an_error(self, name, message):
    with _with_gpus(1), self.assertRaisesRegex(ValueError, message):
      devices.check_local_devices_exist(["/device:CPU:9", name])

  def test_others_may_be(self):
    with _with_gpus(1):
      devices.check_local_devices_exist(
        ["/device:CPU:99", "/device:GPU:0", _WORKER]
      )

  @parameterized.parameters(
    ((), 1),
    (("/device:GPU:3", "/job:worker/task:1/device:CPU:8"), 1),
    (("/device:CPU:1", "/device:CPU:4", "/device:CPU:0"), 5),
  )
  def test_cpus_that_a_session_needs(self, names, expected):
    self.assertEqual(devices.num_virtual_cpus(names), expected)


if __name__ == "__main__":
  absltest.main()
