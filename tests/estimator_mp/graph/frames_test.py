"""Which loops ops are in."""

from estimator_mp.graph import frames, op_types
from estimator_mp.graph.calls import inlining

import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1


def _nested():
  """Returns the ops of a loop in a loop."""

  def body(i, x):
    _, y = tf.while_loop(
      lambda j, _: j < 2,
      lambda j, y: (j + 1, tf.exp(y, name="inner")),
      [0, x],
      name="rounds",
    )
    return i + 1, tf.negative(y, name="outer")

  x = _v1.placeholder(tf.float32, [], "x")
  _, found = tf.while_loop(lambda i, _: i < 3, body, [0, x], name="loop")
  tf.sqrt(found, name="after")
  graph = _v1.get_default_graph()
  inlining.inline(
    [op for op in graph.get_operations() if op.type in op_types.FUNCTIONAL],
    inlining.INLINED,
  )
  return graph.get_operations()


class FramesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def _find(self, is_v2):
    if not is_v2:
      _v1.disable_control_flow_v2()
      self.addCleanup(_v1.enable_control_flow_v2)
    ops = _nested()
    return ops, frames.Frames(ops)

  @parameterized.parameters(True, False)
  def test_a_loop_in_a_loop(self, is_v2):
    ops, found = self._find(is_v2)
    (exp,) = [op for op in ops if op.type == "Exp"]
    (neg,) = [op for op in ops if op.type == "Neg"]
    (sqrt,) = [op for op in ops if op.type == "Sqrt"]
    inner, outer = found.output_frame(exp), found.output_frame(neg)
    self.assertEqual(inner.parent, outer)
    self.assertIsNone(outer.parent)
    self.assertTrue(inner.is_in(outer))
    self.assertFalse(outer.is_in(inner))
    self.assertEqual(found.loop(exp), outer)
    self.assertIsNone(found.output_frame(sqrt))
    self.assertIsNone(found.loop(sqrt))

  @parameterized.parameters(True, False)
  def test_what_enters_is_read_outside(self, is_v2):
    ops, found = self._find(is_v2)
    for op in ops:
      made, read = found.output_frame(op), found.input_frame(op)
      if op.type == "Enter":
        self.assertEqual(made.parent, read)
      elif op.type == "Exit":
        self.assertEqual(read.parent, made)
      else:
        self.assertEqual(made, read)

  @parameterized.parameters(True, False)
  def test_loops_are_together_in_order(self, is_v2):
    ops, found = self._find(is_v2)
    in_order = frames.in_order(ops, found)
    self.assertCountEqual(in_order, ops)
    place = {op: index for index, op in enumerate(in_order)}
    inside = [place[op] for op in ops if found.loop(op) is not None]
    self.assertLen(inside, max(inside) - min(inside) + 1)
    for op in ops:
      for source in frames.sources_before(op):
        self.assertLess(place[source], place[op])


if __name__ == "__main__":
  absltest.main()
