"""Parameter servers: which ops of a worker's graph are on another task."""

from estimator_mp.lower import parameter_servers
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_WORKER, _SERVER = "/job:worker/task:1", "/job:ps/task:0"
_ON_SERVER = "/job:ps/task:0/device:CPU:0"


class ParameterServersTest(graph_case.GraphCase):
  """A device function that puts variables on a server, by the type of ops."""

  def setUp(self):
    super().setUp()
    self._asked = []

    def device_of(op):
      self._asked.append(op.name)
      return _SERVER if op.type == "VarHandleOp" else _WORKER

    self._servers = parameter_servers.ParameterServers(_WORKER, device_of)

  def _hold(self):
    self._servers.hold(self.ops())

  def test_variables_and_what_works_on_them(self):
    with tf.device("/device:CPU:1"):  # They are marked for a stage.
      variable = self.variable("v")
      read = variable.read_value()
      y = tf.square(read, "y")
    write = variable.assign_add(tf.ones([4, 2]), read_value=False)
    self._hold()
    reads = [op for op in self.ops() if op.type == "ReadVariableOp"]
    for op in (variable.op, write, *reads):
      self.assertEqual(op.device, _ON_SERVER)
    self.assertEqual(y.op.device, "/device:CPU:1")
    self.assertNotIn(write.name, self._asked)  # It follows the variable.

  def test_local_variables_stay(self):
    variable = v1.get_variable(
      "v",
      [2],
      use_resource=True,
      collections=[v1.GraphKeys.LOCAL_VARIABLES],
    )
    self._hold()
    self.assertEqual(variable.op.device, "")
    self.assertNotIn("v", self._asked)

  def test_a_device_of_the_program_s_counts_first(self):
    with tf.device("/job:ps/task:3"):
      variable = self.variable("v")
    self._hold()
    self.assertEqual(variable.op.device, "/job:ps/task:3/device:CPU:0")

  def test_what_is_colocated_with_a_variable(self):
    variable = self.variable("v")
    with v1.colocate_with(variable.op):
      slot = tf.no_op("slot")
    self._hold()
    self.assertEqual(slot.device, _ON_SERVER)

  def test_names_without_a_task_are_this_one_s(self):
    with tf.device("/device:CPU:1"):
      placed = tf.no_op("placed")
    free = tf.no_op("free")
    self._servers.complete(self.ops())
    self.assertEqual(placed.device, f"{_WORKER}/device:CPU:1")
    self.assertEqual(free.device, "")
    self._servers.finish(self.ops())
    self.assertEqual(free.device, _WORKER)

  def test_model_fn_s_devices_are_asked_for_later(self):
    with (
      v1.device(lambda op: _SERVER),
      self._servers.building(),
      tf.device("/device:CPU:1"),
    ):
      made = tf.no_op()
    self.assertEqual(made.device, "/device:CPU:1")

  def test_without_servers_nothing_is_moved(self):
    servers = parameter_servers.NoServers()
    with servers.building(), tf.device("/device:CPU:1"):
      variable = self.variable("v")
    before = {op: op.device for op in self.ops()}
    for edit in (servers.complete, servers.hold, servers.finish):
      edit(self.ops())
    self.assertEqual({op: op.device for op in self.ops()}, before)
    self.assertFalse(servers.exist)
    self.assertEqual(variable.op.device, "/device:CPU:1")


if __name__ == "__main__":
  absltest.main()
