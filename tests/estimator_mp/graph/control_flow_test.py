"""Control flow of TensorFlow 1: what may not run in a step."""

from estimator_mp.graph import control_flow

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class ControlFlowTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

  def _in_branches(self, graph):
    found = control_flow.ops_in_branches(graph.get_operations())
    return {op.name for op in found}

  def test_a_branch_ends_where_both_come_together(self):
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [], "x")
      y = v1.cond(
        x > 0.0,
        lambda: tf.negative(x, name="then"),
        lambda: tf.exp(x, name="otherwise"),
      )
      tf.identity(y, name="after")
    found = self._in_branches(graph)
    self.assertContainsSubset({"cond/then", "cond/otherwise"}, found)
    self.assertNoCommonElements(found, ["x", "cond/Merge", "after"])

  def test_the_gradient_of_a_branch_is_in_one(self):
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [], "x")
      y = v1.cond(x > 0.0, lambda: tf.exp(x) * x, lambda: x)
      num_forward = len(graph.get_operations())
      v1.gradients(y, x)
    products = [
      op.name
      for op in graph.get_operations()[num_forward:]
      if op.type == "Mul" and "cond" in op.name
    ]
    self.assertNotEmpty(products)
    self.assertContainsSubset(products, self._in_branches(graph))

  def test_loops_have_both_their_ends(self):
    with tf.Graph().as_default() as graph:
      x = tf.constant(1.0, name="x")
      y = v1.while_loop(lambda y: y < 9.0, lambda y: y * 2.0, [x])
      tf.negative(y, name="after")
    ops = graph.get_operations()
    loop = control_flow.ops_in_loops(ops)
    self.assertContainsSubset(
      {"Enter", "Merge", "Switch", "Mul", "NextIteration", "Exit"},
      {op.type for op in loop},
    )
    self.assertNoCommonElements({op.name for op in loop}, ["x", "after"])
    # What a loop returns is there in each step; what it does may not be.
    inside = control_flow.ops_in_branches(ops)
    self.assertIn("Mul", {op.type for op in inside})
    self.assertNotIn("Exit", {op.type for op in inside})

  def test_a_loop_in_a_branch(self):
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [], "x")

      def then():
        return v1.while_loop(lambda y: y < 9.0, lambda y: y * 2.0, [x])

      tf.negative(v1.cond(x > 0.0, then, lambda: x), name="after")
    exits = [op.name for op in graph.get_operations() if op.type == "Exit"]
    self.assertNotEmpty(exits)
    self.assertContainsSubset(exits, self._in_branches(graph))
    self.assertNotIn("after", self._in_branches(graph))


if __name__ == "__main__":
  absltest.main()
