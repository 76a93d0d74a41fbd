"""ZeRO shards as data: who updates which variable, and what moves there."""

from estimator_mp.replicas import zero
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_DEVICE_OF = [
  lambda device: device,
  lambda device: device.replace("CPU:0", "CPU:1"),
]
_HERE, _THERE = "/device:CPU:0", "/device:CPU:1"


class _GraphTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self.enter_context(v1.device(_HERE))

  def _variable(self, name, size):
    return self.variable(name, [size])

  def _with_variables(self, *variables, shards=None):
    shards = shards or zero.ZeroShards(2)
    return shards.with_variables([v.op for v in variables], _DEVICE_OF)


class ShardsTest(_GraphTest):
  def test_evenly_by_bytes(self):
    sizes = (8, 3, 3, 4, 1)
    variables = [self._variable(f"v{i}", n) for i, n in enumerate(sizes)]
    shards, devices = self._with_variables(*variables)
    self.assertEqual([shards.of(v.op) for v in variables], [0, 1, 1, 1, 0])
    self.assertEqual(shards.held_bytes, {_HERE: [36, 40]})
    # What is in replica 0 stays there.
    self.assertNotIn(variables[0].op, devices)
    self.assertEqual(devices[variables[1].op], _THERE)

  def test_each_stage_for_itself(self):
    first = self._variable("first", 8)
    with v1.device("/device:CPU:2"):
      second = self._variable("second", 8)
    shards, _ = self._with_variables(first, second)
    self.assertEqual([shards.of(first.op), shards.of(second.op)], [0, 0])

  def test_a_later_request_goes_on(self):
    large, small = self._variable("large", 8), self._variable("small", 2)
    first, _ = self._with_variables(large)
    second, _ = self._with_variables(small, shards=first)
    self.assertEqual(second.of(large.op), 0)
    self.assertEqual(second.of(small.op), 1)
    self.assertNotIn(small.op, first.shards)

  def test_what_is_bound_moves_along(self):
    large, small = self._variable("large", 8), self._variable("small", 2)
    read = small.read_value().op
    with v1.colocate_with(small.op):
      average = self._variable("average", 100)
    shards, devices = self._with_variables(large, small, average)
    self.assertEqual(shards.of(average.op), shards.of(small.op))
    bound = (small.op, small.initializer, average.op, read)
    for op in (op for op in bound if op.type != "Identity"):
      self.assertEqual(devices[op], _THERE, op.name)

  def test_what_functions_read_stays(self):
    large, small = self._variable("large", 8), self._variable("small", 2)

    @tf.function
    def double():
      return small.read_value() * 2

    double()
    shards, devices = self._with_variables(large, small)
    self.assertEqual(shards.of(small.op), 0)
    self.assertEmpty(devices)

  def test_unknown(self):
    self.assertEqual(zero.ZeroShards(2).of(self._variable("v", 1).op), 0)


class UpdatesTest(_GraphTest):
  def test_an_update_moves_to_its_variable(self):
    variables = [self._variable("large", 8), self._variable("small", 2)]
    gradients = [v1.placeholder(tf.float32, v.shape) for v in variables]
    shards, _ = self._with_variables(*variables)
    known = set(v1.get_default_graph().get_operations())
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    halves = [gradient / 2 for gradient in gradients]
    optimizer.apply_gradients(zip(halves, variables, strict=True))
    rest = [
      op for op in v1.get_default_graph().get_operations() if op not in known
    ]
    devices = zero.devices_of_updates(
      [*(v.op for v in variables), *rest],
      shards.shards,
      _DEVICE_OF,
      {gradients[1].op: 1},
    )
    slots = [optimizer.get_slot(v, "momentum") for v in variables]
    self.assertEqual(devices[slots[1].op], _THERE)
    self.assertEqual(devices[slots[1].initializer], _THERE)
    self.assertEqual(devices[halves[1].op], _THERE)
    self.assertEqual(devices.get(slots[0].op, _HERE), _HERE)
    self.assertEqual(devices.get(halves[0].op, _HERE), _HERE)

  def test_what_has_no_device_stays_without(self):
    variable = self._variable("variable", 2)
    with v1.device(None):
      half = variable.read_value() / 2
    devices = zero.devices_of_updates(
      [variable.op, half.op], {variable.op: 1}, _DEVICE_OF
    )
    self.assertNotIn(half.op, devices)


if __name__ == "__main__":
  absltest.main()
