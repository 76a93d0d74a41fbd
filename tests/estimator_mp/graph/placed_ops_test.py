"""Placed ops: on the device that is said, whatever the caller's blocks say."""

from estimator_mp.graph import placed_ops

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_DEVICES = ("/device:CPU:1", "/device:CPU:2")


class PlacedOpsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self.tensors = []
    for device in _DEVICES:
      with tf.device(device):
        self.tensors.append(v1.placeholder(tf.float32, [None, 3]))

  def test_apart_from_the_callers_blocks(self):
    first = tf.no_op("first")
    with (
      tf.device("/device:CPU:7"),
      v1.name_scope("mine"),
      tf.control_dependencies([first]),
      v1.colocate_with(first),
    ):
      with placed_ops.apart_from_caller("ring"):
        op = tf.no_op("step")
      after = tf.no_op("after")
    self.assertEqual(op.name, "estimator_mp/ring/step")
    self.assertEqual(op.device, "")
    self.assertEmpty(op.control_inputs)
    self.assertNotIn(b"loc:@first", op.colocation_groups())
    self.assertEqual(after.name, "mine/after")

  def test_a_sum_is_added_one_by_one(self):
    third = v1.placeholder(tf.float32, [None, 3])
    total = placed_ops.add([*self.tensors, third], _DEVICES[1])
    self.assertEqual(total.device, _DEVICES[1])
    inner, last = total.op.inputs
    self.assertIs(last, third)
    self.assertEqual([*inner.op.inputs], self.tensors)
    self.assertIs(placed_ops.add([third], _DEVICES[0]), third)

  def test_a_copy_is_where_it_goes(self):
    copy = placed_ops.copy_to(self.tensors[0], _DEVICES[1])
    self.assertEqual(copy.device, _DEVICES[1])
    self.assertIs(copy.op.inputs[0], self.tensors[0])

  def test_none_of_those_that_pass_together_can_be_had_alone(self):
    passed = placed_ops.pass_together(self.tensors, _DEVICES)
    self.assertEqual([x.device for x in passed], [*_DEVICES])
    for tensor in passed:
      (gate,) = tensor.op.control_inputs
      self.assertCountEqual(gate.control_inputs, [x.op for x in self.tensors])

  def test_flat_and_in_shape_again(self):
    known = tf.zeros([2, 3])
    for tensor in (self.tensors[0], known):
      flat = placed_ops.flatten(tensor, _DEVICES[0])
      self.assertEqual(flat.shape.rank, 1)
      again = placed_ops.reshape_like(flat, tensor, _DEVICES[1])
      self.assertEqual(again.shape.as_list(), tensor.shape.as_list())
      self.assertEqual(again.device, _DEVICES[1])


if __name__ == "__main__":
  absltest.main()
