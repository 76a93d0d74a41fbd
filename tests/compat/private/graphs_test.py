"""The private names of graphs and types of ops that compat uses."""

from compat.private import autograph, graph_edits, graph_reads, op_registry

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class GraphEditsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = tf.Graph()
    self.enter_context(self.graph.as_default())

  def test_a_made_op_gets_a_device(self):
    op = tf.no_op()
    graph_edits.set_device(op, "/device:CPU:1")
    self.assertEqual(op.device, "/device:CPU:1")
    graph_edits.set_device(op, "")
    self.assertEqual(op.device, "")

  def test_a_made_op_reads_something_else(self):
    x, y = tf.constant([1.0]), tf.constant([2.0])
    total = tf.add(x, x)
    graph_edits.replace_input(total.op, 1, y)
    self.assertEqual([t.name for t in total.op.inputs], [x.name, y.name])
    with v1.Session() as session:
      self.assertEqual(session.run(total), [3.0])

  def test_a_made_op_waits_for_others(self):
    a, b, c, op = tf.no_op(), tf.no_op(), tf.no_op(), tf.no_op()
    graph_edits.add_control_inputs(op, [a])
    graph_edits.add_control_inputs(op, [b])
    self.assertEqual(set(op.control_inputs), {a, b})
    graph_edits.set_control_inputs(op, [c])
    self.assertEqual(op.control_inputs, [c])

  def test_ops_are_added_by_their_definitions(self):
    x = v1.placeholder(tf.float32, [None], "x")
    y = tf.square(x, name="y")
    with tf.device("/device:CPU:0"):
      z = tf.negative(y, name="z")
    definition = v1.GraphDef(versions=self.graph.graph_def_versions)
    definition.node.extend([z.op.node_def, y.op.node_def])
    for number in range(2):
      made = graph_edits.import_ops(definition, {"x:0": x}, "again")
      self.assertCountEqual(made, ["y", "z"])
      scope = f"again_{number}" if number else "again"
      self.assertEqual(made["z"].name, f"{scope}/z")
      self.assertIs(made["z"], self.graph.get_operation_by_name(f"{scope}/z"))
      self.assertIs(made["y"].inputs[0], x)
      self.assertEqual(made["y"].outputs[0].shape.as_list(), [None])
      self.assertIs(made["z"].inputs[0].op, made["y"])
      self.assertEqual(made["z"].device, "/device:CPU:0")
    self.assertEqual(tf.negative(x, "again/z").op.name, "again/z_1")
    with v1.Session() as session:
      self.assertEqual(session.run(made["z"].outputs[0], {x: [3.0]}), [-9.0])

  def test_a_switch_of_a_branch_has_the_gradient_of_a_branch(self):
    """Outside of branches, one of a handle has none that can be made."""
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    x = v1.placeholder(tf.float32, [])
    variable = v1.get_variable("v", initializer=2.0, use_resource=True)
    made = v1.cond(x < 0.0, lambda: variable * x, lambda: x)
    switch = next(
      op for op in variable.handle.consumers() if op.type == "Switch"
    )
    copy = tf.raw_ops.Switch(data=variable.handle, pred=switch.inputs[1])[0].op
    graph_edits.set_branch(copy, switch)
    (read,) = switch.outputs[1].consumers()
    graph_edits.replace_input(read, 0, copy.outputs[1])
    (gradient,) = tf.gradients(made, [variable])
    with v1.Session() as session:
      session.run(variable.initializer)
      self.assertEqual(session.run(gradient, {x: -3.0}), -3.0)
      self.assertEqual(session.run(gradient, {x: 3.0}), 0.0)

  def test_a_call_before_finalization(self):
    seen = []
    for name in ("outer", "inner"):
      graph_edits.before_finalization(
        self.graph,
        lambda name=name: seen.append((name, self.graph.finalized)),
      )
    self.graph.finalize()
    self.graph.finalize()
    self.assertEqual(seen, [("inner", False), ("outer", False)])
    self.assertTrue(self.graph.finalized)


class GraphReadsTest(absltest.TestCase):
  def test_outermost_loop(self):
    with tf.Graph().as_default() as graph:
      v1.disable_control_flow_v2()
      self.addCleanup(v1.enable_control_flow_v2)

      def outer(i):
        return v1.while_loop(lambda j: j < 3, lambda j: j + 1, [i])

      found = v1.while_loop(lambda i: i < 9, outer, [tf.constant(0)])
      loops = {
        op.type: graph_reads.outermost_loop(op) for op in graph.get_operations()
      }
      after = tf.identity(found)
    self.assertIsNotNone(loops["Less"])
    inside = {x for kind, x in loops.items() if kind != "Const"} - {None}
    self.assertLen(inside, 1)
    self.assertIsNone(graph_reads.outermost_loop(after.op))

  def test_functions_of_a_graph(self):
    @tf.function
    def doubled(x):
      return x + x

    with tf.Graph().as_default() as graph:
      doubled(tf.ones([2, 3]))
      (call,) = (
        op for op in graph.get_operations() if "PartitionedCall" in op.type
      )
      name = call.get_attr("f").name
      definition = graph_reads.function_definition(graph, name)
      self.assertEqual(definition.signature.name, name)


class OpRegistryTest(absltest.TestCase):
  def test_definitions_of_all_types(self):
    names = {definition.name for definition in op_registry.registered_ops()}
    self.assertContainsSubset(["MatMul", "While", "VarHandleOp"], names)
    self.assertGreater(len(names), 1000)

  def test_flops(self):
    with tf.Graph().as_default() as graph:
      product = tf.matmul(tf.ones([2, 3]), tf.ones([3, 4]))
      found = op_registry.registered_flops(graph, product.op.node_def)
      self.assertEqual(found, 2 * 2 * 3 * 4)
      unknown = op_registry.registered_flops(graph, tf.no_op().node_def)
      self.assertIsNone(unknown)

  def test_kernels(self):
    with tf.Graph().as_default():
      words = tf.strings.join([tf.constant("a"), tf.constant("b")])
      self.assertTrue(op_registry.has_kernel(words.op.node_def, "CPU"))
      # Nothing is known of a type of device that this TensorFlow is not for.
      self.assertTrue(op_registry.has_kernel(words.op.node_def, "NONE_SUCH"))


class AutoGraphTest(absltest.TestCase):
  def test_an_error_keeps_its_message(self):
    @tf.function
    def fails():
      raise autograph.without_frames(ValueError("one line"))

    with self.assertRaises(ValueError) as caught:
      fails()
    self.assertEqual(str(caught.exception), "one line")


if __name__ == "__main__":
  absltest.main()
