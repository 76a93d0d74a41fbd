"""Graph checks: each mistake of a model_fn is one line, without a session."""

from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import graph_checks
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_MESH = mesh_lib.Mesh.create("stage:2")


class GraphChecksTest(graph_case.GraphCase):
  def test_a_spec(self):
    graph_checks.check_spec(
      tf.estimator.EstimatorSpec("infer", predictions=tf.constant(1.0))
    )
    with self.assertRaisesRegex(
      ValueError, "model_fn returned 5, which is not an EstimatorSpec; return"
    ):
      graph_checks.check_spec(5)

  def test_ops_of_tpus(self):
    fine = tf.constant(1.0).op
    graph_checks.check_no_tpu_ops([fine])
    tpu = tf.raw_ops.CrossReplicaSum(
      input=fine.outputs[0], group_assignment=[[0]], name="mine"
    ).op
    with self.assertRaisesRegex(
      ValueError, "^model_fn makes 'mine', an op of CrossShardOptimizer that "
    ):
      graph_checks.check_no_tpu_ops([fine, tpu])

  def test_a_computation_that_is_compiled_for_one_device(self):
    with v1.xla.experimental.jit_scope():
      fine = tf.square(tf.constant(1.0)).op
    graph_checks.check_no_compiled_computation([fine])
    v1.xla.experimental.compile(lambda: tf.constant(1.0))
    with self.assertRaisesRegex(
      ValueError,
      "model_fn makes 'output0', an output of .*experimental.compile",
    ):
      graph_checks.check_no_compiled_computation(self.graph.get_operations())

  def _loop(self):
    """Returns the ops of the body of a loop of TensorFlow 1, and one before."""
    self.use_v1_control_flow()
    x = tf.constant(1.0, name="before")
    tf.while_loop(
      lambda x: x < 9.0,
      lambda x: tf.add(tf.multiply(x, 2.0, name="twice"), 1.0, name="more"),
      [x],
    )
    names = ("before", "while/twice", "while/more")
    return [self.graph.get_operation_by_name(name) for name in names]

  def test_marks_may_be_in_a_loop_and_before_it(self):
    before, twice, more = self._loop()
    ops = self.graph.get_operations()
    graph_checks.check_loops(ops, {before: 0, twice: 1, more: 1})
    graph_checks.check_loops(ops, {before: 0, more: 1})

  def test_marks_may_not_cut_a_loop(self):
    _, twice, more = self._loop()
    with self.assertRaisesRegex(
      ValueError, "a loop: 'while/twice' is on stage 0, 'while/more' on stage 1"
    ):
      graph_checks.check_loops(self.graph.get_operations(), {twice: 0, more: 1})


class DevicesTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("none", ""),
    ("of_the_mesh", "/device:CPU:1"),
    ("of_another_task", "/job:worker/task:3/device:CPU:8"),
    ("of_another_kind", "/device:XLA_CPU:7"),
  )
  def test_that_may_exist(self, device):
    self._check(device)

  @parameterized.parameters("/device:CPU:2", "/device:GPU:99")
  def test_that_no_session_has(self, device):
    with self.assertRaisesRegex(
      ValueError, f"'mine' on {device}, .*stage:2: /device:CPU:0, /device:CPU:1"
    ):
      self._check(device)
    self._check(device, allow_soft_placement=True)

  def test_a_session_of_the_users_is_not_known(self):
    with tf.Graph().as_default() as graph, tf.device("/device:CPU:8"):
      tf.no_op()
    graph_checks.check_devices_exist(graph, _MESH, None)

  def _check(self, device, **fields):
    with tf.Graph().as_default() as graph, tf.device(device):
      tf.no_op("mine")
    config = v1.ConfigProto(device_count={"CPU": 2}, **fields)
    graph_checks.check_devices_exist(graph, _MESH, config)


if __name__ == "__main__":
  absltest.main()
