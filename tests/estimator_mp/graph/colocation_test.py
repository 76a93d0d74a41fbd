"""Colocation groups of small graphs."""

from estimator_mp.graph import colocation

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _groups(graph):
  """Returns the sets of names of ops that share a device, if several do."""
  ops = graph.get_operations()
  groups = colocation.ColocationGroups()
  groups.add(ops)
  found = {}
  for op in ops:
    found.setdefault(groups.of(op), set()).add(op.name)
  return [names for names in found.values() if len(names) > 1]


class GroupsTest(parameterized.TestCase):
  def test_ops_are_apart(self):
    with tf.Graph().as_default() as graph:
      tf.negative(tf.constant(1.0))
    self.assertEmpty(_groups(graph))

  @parameterized.named_parameters(("resource", True), ("reference", False))
  def test_a_variable_and_what_works_on_it(self, use_resource):
    with tf.Graph().as_default() as graph:
      v = v1.get_variable("v", [], use_resource=use_resource)
      v.assign_add(1.0, name="update")
      tf.negative(v, name="reader")
    (group,) = _groups(graph)
    self.assertIn("v", group)
    self.assertTrue(any(name.startswith("update") for name in group), group)
    self.assertNotIn("reader", group)

  def test_colocated_by_name(self):
    with tf.Graph().as_default() as graph:
      x = tf.constant(1.0, name="x")
      with v1.colocate_with(x):
        tf.constant(2.0, name="y")
    self.assertEqual(_groups(graph), [{"x", "y"}])

  def test_colocated_with_what_is_made_later(self):
    """An initial value names its variable, which is made after it."""
    with tf.Graph().as_default() as graph:
      initializer = v1.zeros_initializer()
      v1.get_variable("v", [2], initializer=initializer, use_resource=True)
    (group,) = _groups(graph)
    self.assertContainsSubset(["v", "v/Initializer/zeros"], group)

  def test_a_loop_is_a_group(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    with tf.Graph().as_default() as graph:
      x = tf.constant(1.0, name="x")
      y = v1.while_loop(lambda y: y < 9.0, lambda y: y * 2.0, [x])
      tf.negative(y, name="after")
    (group,) = _groups(graph)
    types = {graph.get_operation_by_name(name).type for name in group}
    self.assertContainsSubset({"Enter", "Mul", "Exit"}, types)
    self.assertNoCommonElements(group, ["x", "after"])

  def test_a_saver_joins_no_variables(self):
    with tf.Graph().as_default() as graph:
      v1.get_variable("a", [], use_resource=False)
      v1.get_variable("b", [], use_resource=False)
      v1.train.Saver()
    groups = _groups(graph)
    (of_a,) = [group for group in groups if "a" in group]
    self.assertNotIn("b", of_a)


class ColocatedTest(absltest.TestCase):
  def test_ops_with_variables(self):
    with tf.Graph().as_default():
      a = v1.get_variable("a", [], use_resource=True)
      b = v1.get_variable("b", [], use_resource=True)
      read = a.read_value().op.inputs[0].op
      with v1.colocate_with(b.op):
        slot = tf.constant(2.0, name="slot").op
      found = colocation.ops_colocated_with([a.op, b.op])
    self.assertCountEqual(found, [a.op, b.op])
    self.assertIn(read, found[a.op])
    self.assertIn(slot, found[b.op])
    self.assertNotIn(slot, found[a.op])
    self.assertEmpty(colocation.ops_colocated_with([]))

  def test_ops_with_what_reads_a_variable(self):
    """TensorFlow colocates the shape of a lookup's gradient with the lookup."""
    with tf.Graph().as_default():
      table = v1.get_variable("table", [3, 2], use_resource=True)
      rows = tf.gather(table, [1])
      with v1.colocate_with(rows.op):
        shape = tf.constant([3, 2])
      found = colocation.ops_colocated_with([table.op])
    self.assertIn(shape.op, found[table.op])


if __name__ == "__main__":
  absltest.main()
