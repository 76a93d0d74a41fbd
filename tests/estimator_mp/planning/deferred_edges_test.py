"""What slices do not wait for, and who waits in their place."""

from estimator_mp.graph import traversal
from estimator_mp.planning import deferred_edges
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1


class DeferredEdgesTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self.x = _v1.placeholder(tf.float32, [None, 3])
    self.in_slices = [tf.square(self.x).op]
    total = tf.reduce_sum(self.in_slices[0].outputs[0])
    seen = _v1.get_variable("seen", [], use_resource=True)
    self.update = seen.assign_add(total, read_value=False)
    self.seen = seen

  def _plan(self, *fetches):
    live = traversal.ops_run_with(*fetches)
    ops = [op for op in self.x.graph.get_operations() if op in live]
    return deferred_edges.plan_waits(ops, self.in_slices, bound=())

  def test_an_op_without_state_does_not_wait(self):
    with tf.control_dependencies([self.update]):
      doubled = self.x * 2
    self.in_slices.append(doubled.op)
    total = tf.reduce_sum(doubled)
    found = self._plan(total)
    self.assertEmpty(found.waits.of(doubled.op))
    # Who reads what slices have made waits instead.
    self.assertEqual(found.waits.of(total.op), [self.update])
    self.assertEqual([*found.late[doubled.op]], [self.update])

  def test_a_constant_that_slices_read_does_not_wait(self):
    with tf.control_dependencies([self.update]):
      two = tf.constant(2.0)
    doubled = self.x * two
    self.in_slices.append(doubled.op)
    found = self._plan(tf.reduce_sum(doubled))
    self.assertEmpty(found.waits.of(two.op))

  def test_what_all_slices_read_waits_for_none(self):
    """Constants of gradients wait for a gradient: each slice for all others."""
    with tf.control_dependencies([self.in_slices[0]]):
      two = tf.constant(2.0)
    doubled = self.x * two
    self.in_slices.append(doubled.op)
    total = tf.reduce_sum(doubled)
    found = self._plan(total)
    self.assertEmpty(found.waits.of(two.op))
    # Nobody sees whether a square has been computed.
    self.assertEmpty(found.waits.of(total.op))

  def test_what_reads_a_variable_waits(self):
    with tf.control_dependencies([self.update]):
      doubled = self.x * 2
      with tf.control_dependencies([doubled]):
        value = self.seen.read_value()
    added = doubled + value
    self.in_slices += [doubled.op, added.op]
    found = self._plan(tf.reduce_sum(added))
    read = next(
      op
      for op in traversal.ops_run_with(added)
      if op.type == "ReadVariableOp" and doubled.op in op.control_inputs
    )
    self.assertIn(self.update, found.waits.of(read))

  def test_what_waits_for_its_own_slice_still_does(self):
    with tf.control_dependencies([self.in_slices[0]]):
      doubled = tf.negative(self.x)
    self.in_slices.append(doubled.op)
    found = self._plan(tf.reduce_sum(doubled))
    self.assertEqual(found.waits.of(doubled.op), [self.in_slices[0]])

  def test_a_loop_waits_where_it_begins(self):
    self.use_v1_control_flow()
    with tf.control_dependencies([self.update]):
      doubled = self.x * 2
    self.in_slices.append(doubled.op)
    made = tf.while_loop(
      lambda i, net: i < 3, lambda i, net: (i + 1, net * 2), (0, doubled)
    )
    found = self._plan(made[1])
    (enter,) = [op for op in doubled.consumers() if op.type == "Enter"]
    self.assertEqual(found.waits.of(enter), [self.update])


if __name__ == "__main__":
  absltest.main()
