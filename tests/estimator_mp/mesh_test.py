"""Tests of meshes: their text, their devices, and what they place."""

import json
import math
import os
from unittest import mock

import estimator_mp
from compat.private import op_registry
from estimator_mp import devices
from tests.estimator_mp import drawn

import hypothesis
import tensorflow as tf
from absl.testing import absltest, parameterized
from hypothesis import strategies
from tensorflow.core.framework import kernel_def_pb2

CPUS = tuple(f"/device:CPU:{i}" for i in range(6))


class MeshTextTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("one_axis", "stage:3", {"stage": 3}),
    ("two_axes", "data:2,stage:3", {"data": 2, "stage": 3}),
    ("spaces", " data:2 , model:4 ", {"data": 2, "model": 4}),
  )
  def test_text_gives_axes(self, spec, axes):
    mesh = estimator_mp.Mesh.create(spec)
    self.assertEqual(dict(mesh.axes), axes)
    self.assertEqual(mesh.size, math.prod(axes.values()))
    self.assertEqual(str(mesh), spec.replace(" ", ""))

  @parameterized.parameters(
    ("stage=3", "is malformed at 'stage=3'; write axes as NAME:SIZE, such as"),
    ("", "is malformed at ''; write"),
    ("stage:two", "is malformed at 'stage:two'; write"),
    (
      "pipeline:3",
      "has an unknown axis 'pipeline'; the axes are data, stage, model",
    ),
    ("stage:2,stage:3", "names axis 'stage' twice; name each axis once"),
    ("stage:0", "gives axis 'stage' the size 0; a size is at least 1"),
    ("stage:-1", "gives axis 'stage' the size -1; a size is at least 1"),
  )
  def test_bad_text_is_an_error(self, spec, message):
    with self.assertRaises(ValueError) as caught:
      estimator_mp.Mesh.create(spec)
    self.assertStartsWith(str(caught.exception), f"mesh '{spec}' {message}")


class MeshDevicesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("model_last", "data:2,stage:2,model:2", [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ("model_first", "model:2,data:2,stage:2", [[0, 4], [1, 5], [2, 6], [3, 7]]),
    (
      "model_between",
      "stage:2,model:2,data:2",
      [[0, 2], [4, 6], [1, 3], [5, 7]],
    ),
    ("data_last", "model:2,stage:2,data:2", [[0, 4], [2, 6], [1, 5], [3, 7]]),
  )
  def test_devices_of_a_model_axis(self, spec, numbers):
    mesh = estimator_mp.Mesh.create(spec)
    found = [
      mesh.model_devices(data=replica, stage=stage)
      for replica in range(2)
      for stage in range(2)
    ]
    names = [
      tuple(f"/device:CPU:{i}" for i in of_stage) for of_stage in numbers
    ]
    self.assertEqual(found, names)
    self.assertEqual(mesh.devices_by_stage, sum(names, ()))
    leaders = [*mesh.stage_devices(), *mesh.stage_devices(data=1)]
    self.assertEqual(leaders, [of_stage[0] for of_stage in names])

  def test_without_a_model_axis_the_leader_is_alone(self):
    mesh = estimator_mp.Mesh.create("data:2,stage:2")
    self.assertEqual(mesh.model_devices(stage=1, data=1), ("/device:CPU:3",))
    with self.assertRaisesRegex(ValueError, "stage 2 is outside of mesh data"):
      mesh.model_devices(stage=2)

  @parameterized.named_parameters(
    ("model_last", "stage:2,model:2", [[0, 1], [2, 3]]),
    ("model_first", "model:2,stage:2", [[0, 2], [1, 3]]),
    ("no_stage_axis", "model:2", [[0, 1], [0, 1]]),
  )
  def test_virtual_stages_keep_the_model_axis(self, spec, numbers):
    mesh = estimator_mp.Mesh.create(spec)
    places = [*range(mesh.axis_size("stage"))] * 2
    mesh = mesh.with_virtual_stages(places)
    found = [
      mesh.model_devices(stage=k) for k in range(mesh.axis_size("stage"))
    ]
    names = [
      tuple(f"/device:CPU:{i}" for i in of_stage) for of_stage in numbers
    ]
    expected = names if spec == "model:2" else names * 2
    self.assertEqual(found, expected)
    self.assertEqual(
      mesh.devices_by_stage, tuple(dict.fromkeys(sum(found, ())))
    )

  def test_virtual_stages_that_turn_back(self):
    mesh = estimator_mp.Mesh.create("data:2,stage:2").with_virtual_stages(
      [0, 1, 1, 0]
    )
    self.assertEqual(str(mesh), "data:2,stage:4")
    self.assertEqual(
      mesh.devices, tuple(f"/device:CPU:{i}" for i in (0, 1, 1, 0, 2, 3, 3, 2))
    )

  @parameterized.parameters(
    (
      "data:2,stage:2",
      ["/cpu:0", "/cpu:1", "/cpu:2"],
      "mesh 'data:2,stage:2' needs 2 x 2 = 4 devices, but 3 were given "
      "(/device:CPU:0, /device:CPU:1, /device:CPU:2); give 4 devices or ch",
    ),
    (
      "stage:2",
      ["/cpu:1", "/device:CPU:1"],
      "device /device:CPU:1 is given twice; each position of mesh 'stage:2' ",
    ),
    ("stage:1", ["/device:TPU:0"], "device /device:TPU:0 has type TPU; a mesh"),
  )
  def test_bad_devices_are_an_error(self, spec, names, message):
    with self.assertRaises(ValueError) as caught:
      estimator_mp.Mesh.create(spec, names)
    self.assertStartsWith(str(caught.exception), message)

  def test_gpus_are_found_before_cpus(self):
    with absltest.mock.patch.multiple(
      tf.config,
      list_physical_devices=lambda kind: ["gpu0", "gpu1"],
      get_logical_device_configuration=lambda gpu: None,
    ):
      mesh = estimator_mp.Mesh.create("stage:2")
      self.assertEqual(mesh.devices, ("/device:GPU:0", "/device:GPU:1"))

  @hypothesis.given(
    strategies.permutations(["data", "stage", "model"]),
    strategies.lists(strategies.integers(1, 4), min_size=3, max_size=3),
  )
  @drawn.examples(50)
  def test_every_position_has_a_device_of_its_own(self, axes, sizes):
    mesh = estimator_mp.Mesh.create(
      ",".join(f"{a}:{n}" for a, n in zip(axes, sizes, strict=True))
    )
    found = [
      mesh.device(data=i, stage=j, model=k)
      for i in range(mesh.axis_size("data"))
      for j in range(mesh.axis_size("stage"))
      for k in range(mesh.axis_size("model"))
    ]
    self.assertCountEqual(found, mesh.devices)

  def test_last_axis_varies_fastest(self):
    """Of the devices in the given order."""
    mesh = estimator_mp.Mesh.create("data:2,stage:3", CPUS[::-1])
    rows = [[mesh.device(data=i, stage=k) for k in range(3)] for i in range(2)]
    self.assertEqual(rows, [[*CPUS[:2:-1]], [*CPUS[2::-1]]])

  def test_a_position_outside_of_the_mesh_is_an_error(self):
    mesh = estimator_mp.Mesh.create("stage:3")
    with self.assertRaisesRegex(
      ValueError, "^stage 3 is outside .*from 0 to 2"
    ):
      mesh.device(stage=3)


class MeshOfAClusterTest(parameterized.TestCase):
  def _task(self, job):
    jobs = {"chief": ["a:1"], "worker": ["b:1"], "evaluator": ["c:1"]}
    config = {"cluster": jobs, "task": {"type": job, "index": 0}}
    return mock.patch.dict(os.environ, TF_CONFIG=json.dumps(config))

  def test_it_lies_over_the_tasks(self):
    for job in ("chief", "worker"):
      with self._task(job):
        mesh = estimator_mp.Mesh.create("data:2,stage:2")
      self.assertEqual(
        mesh.model_devices(data=1, stage=1),
        ("/job:worker/task:0/device:CPU:1",),
      )
      self.assertEqual(
        mesh.stage_devices(),
        ("/job:chief/task:0/device:CPU:0", "/job:chief/task:0/device:CPU:1"),
      )

  def test_the_evaluators_lies_on_its_machine(self):
    with self._task("evaluator"):
      mesh = estimator_mp.Mesh.create("data:2,stage:2")
    self.assertEqual(mesh.devices, CPUS[:4])
    self.assertIs(mesh.on_this_machine(), mesh)

  @parameterized.parameters((0, "CPU"), (3, "CPU"), (4, "GPU"))
  def test_what_is_beside_it_has_gpus_if_they_suffice(self, gpus, kind):
    with self._task("chief"):
      mesh = estimator_mp.Mesh.create("data:2,stage:2")
    with mock.patch.object(devices, "num_local_gpus", return_value=gpus):
      beside = mesh.with_virtual_stages([0, 1, 0, 1]).on_this_machine()
    expected = tuple(f"/device:{kind}:{i}" for i in (0, 1, 0, 1, 2, 3, 2, 3))
    self.assertEqual(beside.devices, expected)
    self.assertEqual(dict(beside.axes), {"data": 2, "stage": 4})


class MeshPlacementTest(parameterized.TestCase):
  def test_a_stage_places_ops_and_variables(self):
    mesh = estimator_mp.Mesh.create("stage:3")
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [2, 2])
      for k in range(3):
        with mesh.stage(k):
          w = tf.compat.v1.get_variable(f"w{k}", [2, 2])
          y = tf.matmul(x, w)
        self.assertEqual(w.device, f"/device:CPU:{k}")
        self.assertEqual(y.op.device, f"/device:CPU:{k}")
    self.assertEqual(x.op.device, "")

  @parameterized.parameters(
    lambda mesh: tf.device("/cpu:2"), lambda mesh: mesh.stage(2)
  )
  def test_what_is_inside_of_a_stage_wins(self, inside):
    mesh = estimator_mp.Mesh.create("stage:3")
    with tf.Graph().as_default(), mesh.stage(1), inside(mesh):
      self.assertEqual(tf.random.uniform([2]).op.device, "/device:CPU:2")

  def test_an_op_without_a_kernel_stays_on_the_host(self):
    """A build for GPUs has MatMul for floats there, and not for integers."""
    gpu = kernel_def_pb2.KernelDef(op="MatMul", device_type="GPU")
    constraint = gpu.constraint.add(name="T")
    constraint.allowed_values.list.type.append(tf.float32.as_datatype_enum)
    cpu = kernel_def_pb2.KernelDef(op="MatMul", device_type="CPU")
    registered = kernel_def_pb2.KernelList(kernel=[cpu, gpu])
    op_registry._kernels.cache_clear()
    self.addCleanup(op_registry._kernels.cache_clear)
    mesh = estimator_mp.Mesh({"stage": 1}, ("/device:GPU:0",))
    with (
      absltest.mock.patch.object(
        op_registry.kernels,
        "get_registered_kernels_for_op",
        lambda name: registered if name == "MatMul" else no_kernels,
      ),
      tf.Graph().as_default(),
      mesh.stage(0),
    ):
      no_kernels = kernel_def_pb2.KernelList()
      floats = tf.compat.v1.placeholder(tf.float32, [2, 2])
      integers = tf.compat.v1.placeholder(tf.int32, [2, 2])
      self.assertEqual(floats.op.device, "/device:CPU:0")
      self.assertEqual(tf.matmul(floats, floats).op.device, "/device:GPU:0")
      self.assertEqual(tf.matmul(integers, integers).op.device, "/device:CPU:0")

  def test_eager_execution_is_an_error(self):
    mesh = estimator_mp.Mesh.create("stage:2")
    with (
      self.assertRaisesRegex(RuntimeError, "but TensorFlow is executing"),
      mesh.stage(0),
    ):
      tf.ones([1])

  @parameterized.named_parameters(
    ("default", None, 1),
    ("two", tf.compat.v1.ConfigProto(device_count={"CPU": 2}), 2),
  )
  def test_a_session_without_the_devices_is_an_error(self, config, has):
    mesh = estimator_mp.Mesh.create("stage:3", CPUS[:3])
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      f"mesh stage:3 uses /device:CPU:2, but the session has {has} CPU "
      "device(s); pass the Estimator config=estimator_mp.run_config(...), "
      'which sets device_count={"CPU": 3}',
    ):
      mesh.check_session_config(config)
    mesh.check_session_config(tf.compat.v1.ConfigProto(device_count={"CPU": 3}))


if __name__ == "__main__":
  absltest.main()
