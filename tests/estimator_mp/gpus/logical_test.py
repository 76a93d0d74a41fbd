"""Several GPUs of one: which sessions get, and what is refused before them.

No GPU is needed for it, and none computes here; tests/gpu does that.
"""

import ctypes
import json
from unittest import mock

import estimator_mp
from estimator_mp import devices
from estimator_mp.capture import graph_checks
from estimator_mp.gpus import logical, memory

import tensorflow as tf
from absl.testing import absltest, parameterized

_GIB = 2**30
_TASKS = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}


def _machine(*sizes):
  """A machine with GPUs of these bytes."""
  return (
    mock.patch.object(devices, "num_local_gpus", lambda: len(sizes)),
    mock.patch.object(memory, "bytes_of_gpus", lambda: sizes or None),
  )


class _Case(parameterized.TestCase):
  def machine(self, *sizes):
    for patched in _machine(*sizes):
      self.enter_context(patched)


class SharesTest(_Case):
  @parameterized.parameters(
    (4, 1, (4,)), (4, 2, (2, 2)), (5, 2, (3, 2)), (8, 3, (3, 3, 2))
  )
  def test_gpus_have_equally_many(self, needed, gpus, expected):
    for sizes in ([8 * _GIB] * gpus, None):
      self.assertEqual(logical.shares(needed, gpus, _GIB, sizes), expected)

  def test_memory_has_to_suffice(self):
    self.assertEqual(logical.shares(3, 1, _GIB, [3 * _GIB]), (3,))
    with self.assertRaisesRegex(
      ValueError, "=2147483648 is .* GPU 1, which has 1073741824 bytes; use at"
    ):
      logical.shares(3, 2, 2 * _GIB, [4 * _GIB, _GIB])


class ConfigTest(_Case):
  def test_sessions_make_them_in_the_mesh_s_order(self):
    self.machine(8 * _GIB, 8 * _GIB)
    config = estimator_mp.ShardingConfig("stage:5", logical_gpu_bytes=_GIB)
    mesh = config.create_mesh()
    self.assertEqual(
      mesh.devices, tuple(f"/device:GPU:{index}" for index in range(5))
    )
    session = estimator_mp.run_config(config).session_config
    made = session.gpu_options.experimental.virtual_devices
    self.assertEqual(
      [list(x.memory_limit_mb) for x in made], [[1024] * 3, [1024] * 2]
    )
    self.assertFalse(session.allow_soft_placement)
    again = estimator_mp.run_config(config, session_config=session)
    self.assertEqual(again.session_config, session)

  def test_the_eager_runtime_makes_the_same(self):
    self.machine(8 * _GIB, 8 * _GIB)
    gpus = [mock.Mock(), mock.Mock()]
    gpus[0].name, gpus[1].name = "GPU:0", "GPU:1"
    set_to = self.enter_context(
      mock.patch.object(tf.config, "set_logical_device_configuration")
    )
    self.enter_context(
      mock.patch.object(tf.config, "list_physical_devices", lambda _: gpus)
    )
    config = estimator_mp.ShardingConfig("stage:3", logical_gpu_bytes=_GIB)
    estimator_mp.run_config(config)
    limits = {
      gpu.name: [x.memory_limit for x in made]
      for gpu, made in (call.args for call in set_to.call_args_list)
    }
    self.assertEqual(limits, {"GPU:0": [1024, 1024], "GPU:1": [1024]})
    set_to.side_effect = RuntimeError("cannot be modified")
    with self.assertRaisesRegex(ValueError, "1073741824 makes 2 of GPU:0"):
      estimator_mp.run_config(config)

  def test_named_devices_are_counted_by_the_last_one(self):
    self.machine(8 * _GIB)
    config = estimator_mp.ShardingConfig(
      "stage:2", ("gpu:0", "gpu:2"), logical_gpu_bytes=_GIB
    )
    options = estimator_mp.run_config(config).session_config.gpu_options
    self.assertEqual(logical.count(options), 3)

  @parameterized.parameters("stage:2", "stage:3")
  def test_where_there_are_enough_a_gpu_is_one(self, mesh):
    self.machine(*[8 * _GIB] * 3)
    config = estimator_mp.ShardingConfig(mesh, logical_gpu_bytes=_GIB)
    options = estimator_mp.run_config(config).session_config.gpu_options
    self.assertEmpty(options.experimental.virtual_devices)
    self.assertIsNone(logical.count(options))

  def test_without_being_told_too_few_are_an_error(self):
    self.machine(8 * _GIB)
    with self.assertRaisesRegex(
      ValueError, r"needs 2 devices, but this machine has 1 GPU\(s\); use a "
    ):
      estimator_mp.ShardingConfig("stage:2")
    with self.assertRaisesRegex(ValueError, "device /device:GPU:1 does not "):
      estimator_mp.ShardingConfig("stage:1", ("gpu:1",))

  def test_more_than_the_memory_is_an_error(self):
    self.machine(8 * _GIB)
    with self.assertRaisesRegex(
      ValueError,
      "=3221225472 .* 4 .* GPU 0, .* 8589934592 bytes; use at most 2147483648",
    ):
      estimator_mp.ShardingConfig("data:2,stage:2", logical_gpu_bytes=3 * _GIB)

  @parameterized.parameters((), ("cpu:0", "cpu:1"))
  def test_without_a_gpu_it_is_an_error(self, *names):
    self.machine()
    with self.assertRaisesRegex(
      ValueError, "^logical_gpu_bytes=1073741824 .* machine has none; leave it"
    ):
      estimator_mp.ShardingConfig("stage:2", names, logical_gpu_bytes=_GIB)

  def test_of_a_cluster_it_is_an_error(self):
    self.machine(8 * _GIB)
    task = _TASKS | {"task": {"type": "chief", "index": 0}}
    with (
      mock.patch.dict("os.environ", TF_CONFIG=json.dumps(task)),
      self.assertRaisesRegex(
        ValueError, "GPUs of one process, but /job:chief/task:0/device:GPU:0 "
      ),
    ):
      estimator_mp.ShardingConfig("stage:2", logical_gpu_bytes=_GIB)

  @parameterized.parameters(
    ({"per_process_gpu_memory_fraction": 0.5}, "memory_fraction=0.5"),
    ({"visible_device_list": "0"}, "visible_device_list='0'"),
    (
      {"experimental": {"virtual_devices": [{"memory_limit_mb": [1.0]}]}},
      r"virtual_devices=\[\[1.0\]\]",
    ),
  )
  def test_a_session_that_divides_gpus_itself_is_an_error(self, given, text):
    self.machine(8 * _GIB)
    config = estimator_mp.ShardingConfig("stage:2", logical_gpu_bytes=_GIB)
    options = tf.compat.v1.GPUOptions(**given)
    session = tf.compat.v1.ConfigProto(gpu_options=options)
    with self.assertRaisesRegex(
      ValueError, f"{text}, and logical_gpu_bytes=1073741824 divides the GPUs"
    ):
      estimator_mp.run_config(config, session_config=session)

  def test_what_model_fn_places_on_one_exists(self):
    self.machine(8 * _GIB)
    config = estimator_mp.ShardingConfig("stage:2", logical_gpu_bytes=_GIB)
    session = estimator_mp.run_config(config).session_config
    mesh = config.create_mesh()
    for index, is_there in ((1, True), (2, False)):
      with tf.Graph().as_default() as graph, tf.device(f"/gpu:{index}"):
        tf.no_op()
        if is_there:
          graph_checks.check_devices_exist(graph, mesh, session)
        else:
          with self.assertRaisesRegex(ValueError, "which the session does not"):
            graph_checks.check_devices_exist(graph, mesh, session)


class MemoryTest(absltest.TestCase):
  def test_without_a_driver_it_is_not_known(self):
    with mock.patch.object(ctypes, "CDLL", side_effect=OSError):
      self.assertIsNone(memory.bytes_of_gpus())

  def test_is_what_the_driver_says(self):
    driver = mock.Mock()
    driver.cuInit.return_value = 0
    sizes = [80 * _GIB, 24 * _GIB]

    def count(pointer):
      pointer.contents.value = len(sizes)
      return 0

    def get(pointer, index):
      pointer.contents.value = index
      return 0

    def total(pointer, device):
      pointer.contents.value = sizes[device.value]
      return 0

    driver.cuDeviceGetCount.side_effect = count
    driver.cuDeviceGet.side_effect = get
    driver.cuDeviceTotalMem_v2.side_effect = total
    with mock.patch.object(ctypes, "CDLL", return_value=driver):
      self.assertEqual(memory.bytes_of_gpus(), tuple(sizes))
      driver.cuDeviceTotalMem_v2.side_effect = lambda *_: 100
      self.assertIsNone(memory.bytes_of_gpus())
      driver.cuInit.return_value = 100
      self.assertIsNone(memory.bytes_of_gpus())


if __name__ == "__main__":
  absltest.main()
