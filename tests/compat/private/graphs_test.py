"""The private names of graphs and types of ops that compat uses."""

from compat.private import autograph, graph_edits, op_registry

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class GraphEditsTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = tf.Graph()
    self.enter_context(self.graph.as_default())

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


class OpRegistryTest(absltest.TestCase):
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
