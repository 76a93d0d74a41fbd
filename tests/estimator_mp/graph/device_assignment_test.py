"""Device assignment: which device an op of a stage gets, and back."""

from estimator_mp.graph import colocation, device_assignment

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_CPU_0 = "/device:CPU:0"
_CPU_1 = "/device:CPU:1"
_GPU_1 = "/device:GPU:1"


class DeviceAssignmentTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())

  def test_ops_go_to_the_device_of_their_stage(self):
    a, b = tf.constant(1.0).op, tf.constant(2.0).op
    device_assignment.assign({a: 0, b: 1}, [_CPU_0, _CPU_1])
    self.assertEqual([a.device, b.device], [_CPU_0, _CPU_1])

  def test_a_device_that_is_said_stays(self):
    with v1.device(_CPU_1):
      op = tf.constant(1.0).op
    device_assignment.assign({op: 0}, [_CPU_0])
    self.assertEqual(op.device, _CPU_1)

  def test_what_lives_on_the_host(self):
    table = tf.raw_ops.MutableHashTableV2(
      key_dtype=tf.int64, value_dtype=tf.int64
    )
    text = tf.strings.as_string(tf.constant(1))
    summary = v1.summary.scalar("loss", tf.constant(1.0))
    for tensor in (table, text, summary):
      self.assertTrue(device_assignment.lives_on_host(tensor.op, "GPU"))
      self.assertTrue(device_assignment.lives_on_host(tensor.op, "CPU"))
    product = tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]))
    self.assertFalse(device_assignment.lives_on_host(product.op, "GPU"))
    with v1.device(device_assignment.device_function(_GPU_1)):
      text = tf.strings.as_string(tf.constant(1))
    self.assertEqual(text.device, _CPU_0)

  def test_python_functions_are_on_any_cpu_but_no_gpu(self):
    op = tf.numpy_function(lambda: 1.0, [], tf.float32).op
    self.assertTrue(device_assignment.lives_on_host(op, "GPU"))
    self.assertFalse(device_assignment.lives_on_host(op, "CPU"))

  def test_what_works_on_a_resource_is_where_that_is(self):
    with v1.device(_CPU_1):
      v = v1.get_variable("v", [], use_resource=True)
    with v1.device(device_assignment.device_function(_CPU_0)):
      update = tf.raw_ops.AssignVariableOp(resource=v.handle, value=1.0)
    self.assertEqual(update.device, _CPU_1)

  def test_no_op_is_colocated_with_one_of_another_device(self):
    with v1.device(_CPU_0):
      far = tf.constant(1.0, name="far").op
    with v1.device(_CPU_1):
      near = tf.constant(1.0, name="near").op
    placeless = tf.constant(1.0, name="placeless").op
    with v1.colocate_with(near), v1.colocate_with(far):
      both = tf.constant(1.0).op
    with v1.colocate_with(far), v1.colocate_with(placeless):
      one = tf.constant(1.0).op
    ops = [far, near, placeless, both, one]
    device_assignment.leave_other_devices(ops)
    groups = [sorted(colocation.colocated_with(op)) for op in ops[3:]]
    self.assertEqual(both.device, _CPU_0)
    self.assertEqual(groups, [["far"], ["far", "placeless"]])


if __name__ == "__main__":
  absltest.main()
