"""What the devices of a mesh hold, where stages have several of them."""

import estimator_mp
from estimator_mp.config import placement as placement_lib
from estimator_mp.placement import contents
from estimator_mp.plan import sharding_plan

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_MODEL_2 = ("/device:CPU:0", "/device:CPU:1")


def _on_parts(devices):
  """Returns a device function: what belongs to a shard is on its device."""

  def device_of(op):
    _, is_shard, rest = op.name.partition("/part_")
    return devices[int(rest[0])] if is_shard else devices[0]

  return device_of


def _build(devices):
  """Makes a table in two shards beside a bias: the trained variables."""
  with v1.variable_scope("layer", use_resource=True):
    with v1.device(_on_parts(devices)):
      v1.get_variable(
        "table", [5, 4], partitioner=tf.compat.v1.fixed_size_partitioner(2)
      )
    with tf.device(devices[0]):
      v1.get_variable("bias", [4])
  # What the shards stand for; there are reads of it, which nobody runs.
  with tf.device(devices[0]):
    phantom = tf.raw_ops.VarHandleOp(
      dtype=tf.float32, shape=[5, 4], name="layer/table"
    )
    tf.raw_ops.ReadVariableOp(resource=phantom, dtype=tf.float32)
  return {v.op: 0 for v in v1.global_variables()} | {phantom.op: 0}


class ModelAxisTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def test_each_device_has_its_shards(self):
    mesh = estimator_mp.Mesh.create("model:2", _MODEL_2)
    _build(_MODEL_2)
    found = contents.contents_of_devices(mesh, 1, {})
    self.assertEqual(
      found,
      (
        placement_lib.ReplicaDevice(0, (0,), _MODEL_2[0], 16, 64, part=0),
        placement_lib.ReplicaDevice(0, (0,), _MODEL_2[1], 8, 32, part=1),
      ),
    )

  def test_a_stage_has_all_its_shards_under_the_plain_names(self):
    mesh = estimator_mp.Mesh.create("model:2", _MODEL_2)
    stages = _build(_MODEL_2)
    found = contents.placement_of_stages(mesh, stages)
    (stage,) = found.stages
    self.assertEqual(stage.layers, ("layer",))
    self.assertEqual(stage.device, _MODEL_2[0])
    self.assertEqual((stage.parameters, stage.variable_bytes), (24, 96))
    self.assertEqual(found.ops["layer/table"], 0)
    self.assertEqual(found.ops["layer/table/part_1"], 0)

  @parameterized.named_parameters(
    ("model_last", "data:2,stage:2,model:2", [0, 1, 2, 3, 4, 5, 6, 7]),
    ("model_first", "model:2,data:2,stage:2", [0, 4, 1, 5, 2, 6, 3, 7]),
  )
  def test_devices_are_in_the_order_of_replicas_stages_parts(self, spec, order):
    mesh = estimator_mp.Mesh.create(spec)
    _build(_MODEL_2)
    found = contents.contents_of_devices(mesh, 2, {})
    self.assertEqual(
      [x.device for x in found], [f"/device:CPU:{i}" for i in order]
    )
    self.assertEqual([x.replica for x in found], [0] * 4 + [1] * 4)
    self.assertEqual([x.stages for x in found], [(0,), (0,), (1,), (1,)] * 2)
    self.assertEqual([x.part for x in found], [0, 1] * 4)
    one = contents.contents_of_devices(mesh, 1, {})
    self.assertEqual(one, found[:4])

  def test_virtual_stages(self):
    mesh = estimator_mp.Mesh.create("stage:2,model:2").with_virtual_stages(
      [0, 1, 0, 1]
    )
    _build(_MODEL_2)
    found = contents.contents_of_devices(mesh, 1, {})
    self.assertEqual(
      [(x.stages, x.part) for x in found],
      [((0, 2), 0), ((0, 2), 1), ((1, 3), 0), ((1, 3), 1)],
    )

  def test_one_device_for_each_stage_is_said_by_stages(self):
    mesh = estimator_mp.Mesh.create("data:2,stage:2")
    self.assertEmpty(contents.contents_of_devices(mesh, 1, {}))
    self.assertLen(contents.contents_of_devices(mesh, 2, {}), 4)

  def test_the_table_has_a_row_for_each_device(self):
    mesh = estimator_mp.Mesh.create("model:2", _MODEL_2)
    stages = _build(_MODEL_2)
    held = contents.contents_of_devices(mesh, 1, {})
    found = contents.placement_of_stages(mesh, stages, held)
    self.assertEqual(
      found.table(),
      "stage  part  device         layers  parameters  variables\n"
      "0      0     /device:CPU:0  layer           16       64 B\n"
      "0      1     /device:CPU:1  layer            8       32 B\n"
      "all                                         24       96 B\n"
      "model                                       24       96 B",
    )
    again = placement_lib.Placement.from_dict(found.to_dict())
    self.assertEqual(again.replicas, held)

  def test_positions_of_replicas(self):
    mesh = estimator_mp.Mesh.create("data:2,model:2")
    found = placement_lib.positions(contents.contents_of_devices(mesh, 2, {}))
    self.assertEqual(
      found,
      [["replica", "stage", "part"]]
      + [[str(r), "0", str(p)] for r in range(2) for p in range(2)],
    )

  def test_what_nothing_runs_any_more_sends_nothing(self):
    mesh = estimator_mp.Mesh.create("model:2", _MODEL_2)
    with tf.device(_MODEL_2[0]):
      x = v1.placeholder(tf.float32, [3], name="x")
      y = tf.identity(x, name="y")
    with tf.device(_MODEL_2[1]):
      tf.negative(y, name="dead")
      train_op = tf.nn.relu(x, name="train").op
    held = contents.contents_of_devices(mesh, 1, {})
    placement = contents.placement_of_stages(mesh, {train_op: 0}, held)
    graph = v1.get_default_graph()
    sharding_plan.record_plan(
      graph, sharding_plan.ShardingPlan(placement, train_op="train")
    )
    (sent,) = sharding_plan.get_placement(graph).transfers
    self.assertEqual((sent.tensor, sent.num_bytes), ("x:0", 12))


if __name__ == "__main__":
  absltest.main()
