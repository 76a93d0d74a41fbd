"""Ops that are data first, and added to a graph at once."""

from estimator_mp.graph import definitions
from tests.estimator_mp import session_configs

import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1


class DefinitionsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph()
    self.enter_context(graph.as_default())
    self._made = definitions.Definitions(graph)

  def _run(self, tensor, feed=None):
    with _v1.Session(config=session_configs.config()) as session:
      session.run(_v1.global_variables_initializer())
      return session.run(tensor, feed)

  def test_reads_the_graph_and_each_other(self):
    x = _v1.placeholder(tf.float32, [], name="x")
    two = self._made.constant("two", 2.0, tf.float32)
    double = self._made.add("Mul", "double", [x.name, two], T=tf.float32)
    again = self._made.add("Mul", "double", [double, two], T=tf.float32)
    self.assertEqual((double, again), ("double:0", "double_1:0"))
    self.assertLen(self._made, 3)
    ops = self._made.import_into_graph()
    self.assertEqual(self._run(ops["double_1"].outputs[0], {x: 3.0}), 12)

  def test_names_of_the_graph_are_taken(self):
    """Regression: what is named as an op of the graph was taken for it."""
    x = tf.constant(3.0, name="x")
    made = self._made.add("Neg", "x", [x.name], T=tf.float32)
    self.assertEqual(made, "x_1:0")
    ops = self._made.import_into_graph()
    self.assertEqual(self._run(ops["x_1"].outputs[0]), -3)

  def test_scopes_of_what_was_added_are_taken(self):
    """Regression: TensorFlow gave such an op another name, and it was lost."""
    one = self._made.constant("net/look_up/one", 1.0, tf.float32)
    self._made.import_into_graph()
    again = definitions.Definitions(_v1.get_default_graph())
    made = again.add("Neg", "net/look_up", [one], T=tf.float32)
    name = made.rpartition(":")[0]
    ops = again.import_into_graph()
    self.assertEqual(ops[name].name, name)

  def test_a_copy_waits_for_ops_of_both(self):
    count = tf.Variable(0.0, use_resource=True)
    more = count.assign_add(1.0, read_value=False)
    read = tf.raw_ops.ReadVariableOp(resource=count.handle, dtype=tf.float32)
    one = self._made.constant("one", 1.0, tf.float32)
    self._made.copy(more, "more", [count.handle.name, one])
    waits = [more.name, "more"]
    self._made.copy(read.op, "last", [count.handle.name], waits)
    ops = self._made.import_into_graph()
    self.assertEqual(self._run(ops["last"].outputs[0]), 2)

  def test_only_what_is_needed_is_added(self):
    one = self._made.constant("one", 1.0, tf.float32)
    self._made.constant("unused", 1.0, tf.float32)
    self._made.add("Neg", "minus", [one], ["unused"], T=tf.float32)
    self._made.add("Exp", "power", [one], T=tf.float32)
    self._made.prune(["minus:0"])
    self.assertLen(self._made, 3)
    self.assertNotIn("power", self._made)
    self.assertIn("unused", self._made)

  def test_what_is_no_attribute(self):
    with self.assertRaisesRegex(TypeError, "None is no attribute"):
      self._made.add("Neg", "minus", [], T=None)


if __name__ == "__main__":
  absltest.main()
