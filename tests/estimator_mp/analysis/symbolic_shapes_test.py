"""Sizes follow from those of the inputs, as far as a graph says them."""

from estimator_mp.analysis import symbolic_shapes
from estimator_mp.graph import frames, op_types
from estimator_mp.graph.calls import inlining
from estimator_mp.rules.table import Axes
from estimator_mp.sizes import polynomials
from tests.estimator_mp import parts

import numpy as np
import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1
n = polynomials.symbol("n")


class SymbolicShapesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph()
    self.enter_context(graph.as_default())
    self._graph = graph

  def _shapes(self, *examples):
    ops = self._graph.get_operations()
    loops = frames.Frames(ops)
    shapes = symbolic_shapes.SymbolicShapes(parts.inputs(*examples), loops)
    shapes.add(frames.in_order(ops, loops))
    return shapes

  def _inline(self):
    ops = self._graph.get_operations()
    calls = [op for op in ops if op.type in op_types.FUNCTIONAL]
    return inlining.inline(calls, inlining.INLINED)

  def test_tokens_of_sequences(self):
    tokens = _v1.placeholder(tf.int32, [None, None], "tokens")
    table = tf.Variable(tf.zeros([7, 4]), use_resource=True)
    looked_up = tf.nn.embedding_lookup(table, tokens)
    flat = tf.reshape(looked_up, [-1, 4])
    size, steps = tf.unstack(tf.shape(tokens))
    back = tf.reshape(flat, [size, steps, 4])
    shapes = self._shapes(tokens)
    t = polynomials.symbol("tokens:0[1]")
    self.assertEqual(shapes.shape(looked_up), (n, t, 4))
    self.assertEqual(shapes.shape(flat), (n * t, 4))
    self.assertEqual(shapes.shape(back), (n, t, 4))
    self.assertEqual(shapes.value(size)[()], n)
    self.assertTrue(shapes.has_examples(n * t))
    self.assertFalse(shapes.has_examples(t))
    self.assertFalse(shapes.has_examples(n * n))
    origin = symbolic_shapes.Origin("tokens:0", 1)
    self.assertEqual(shapes.origins["tokens:0[1]"], origin)

  def test_a_number_that_nothing_is_known_of(self):
    x = _v1.placeholder(tf.float32, [None, 3], "x")
    count = _v1.placeholder(tf.int32, [], "count")
    zeros = tf.zeros([count, 3])
    shapes = self._shapes(x)
    self.assertEqual(shapes.shape(zeros), (polynomials.symbol("count:0"), 3))
    self.assertEqual(
      shapes.origins["count:0"], symbolic_shapes.Origin("count:0")
    )

  def test_a_number_may_be_what_is_left(self):
    x = _v1.placeholder(tf.float32, [None, 3], "x")
    count = _v1.placeholder(tf.int32, [], "count")
    rows = [tf.reshape(x, [count, 3]), tf.slice(x, [0, 0], [count, 3])]
    shapes = self._shapes(x)
    for tensor in rows:
      origin = symbolic_shapes.Origin(tensor.name, 0)
      self.assertEqual(shapes.origins[str(shapes.shape(tensor)[0])], origin)

  def test_a_batch_of_a_known_size(self):
    x = _v1.placeholder(tf.float32, [6, 3])
    shapes = self._shapes(x)
    self.assertEqual(shapes.num_examples, 6)
    self.assertTrue(shapes.has_examples(12))
    self.assertFalse(shapes.has_examples(8))

  def test_what_was_repeated(self):
    x = _v1.placeholder(tf.float32, [None, 3], "x")
    bias = _v1.placeholder(tf.float32, [3])
    unknown = _v1.placeholder(tf.float32, [None, 3], "unknown")
    repeated = [
      tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(y))
      for y in (bias, unknown)
    ]
    shapes = self._shapes(x)
    found = [[shapes.axes(y, 2) for y in both] for both in repeated]
    nothing = Axes(frozenset())
    # The second may have one row, which is then repeated; x has examples.
    maybe = Axes(frozenset(), frozenset([0]))
    self.assertEqual(found, [[nothing, Axes(frozenset([0]))], [nothing, maybe]])

  def test_large_tensors_have_no_value(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    ids = tf.range(1000)
    shapes = self._shapes(x)
    self.assertIsNone(shapes.value(ids))
    self.assertEqual(shapes.shape(ids), (1000,))
    np.testing.assert_array_equal(shapes.value(tf.shape(x)), [n, 3])

  def test_sizes_that_stay_in_a_loop_and_one_that_grows(self):
    x = _v1.placeholder(tf.float32, [None, 3], "x")
    _, same, grown = tf.while_loop(
      lambda i, *_: i < 2,
      lambda i, y, z: (i + 1, tf.exp(y), tf.concat([z, y], 1)),
      [tf.constant(0), x, x],
      [tf.TensorShape(shape) for shape in ([], [None, 3], [None, None])],
    )
    self._inline()
    shapes = self._shapes(x)
    self.assertEqual(shapes.shape(same), (n, 3))
    examples, size = shapes.shape(grown)
    self.assertEqual(examples, n)
    # Outside of the loop it has a name of its own: that of the last round.
    self.assertLen(size.symbols, 1)
    self.assertIsNone(shapes.frame_of(*size.symbols))

  def test_lists_have_the_sizes_of_their_elements(self):
    x = _v1.placeholder(tf.float32, [None, 3], "x")
    array = tf.TensorArray(tf.float32, 2, element_shape=[None, 3])
    _, written = tf.while_loop(
      lambda i, _: i < 2,
      lambda i, array: (i + 1, array.write(i, x * 2.0)),
      [tf.constant(0), array],
    )
    stacked = written.stack()
    self._inline()
    self.assertEqual(self._shapes(x).shape(stacked)[1:], (n, 3))

  def test_shapes_that_a_loop_keeps_for_its_gradient(self):
    """They are read in another loop, and say sizes of the whole batch."""
    _v1.disable_control_flow_v2()
    self.addCleanup(_v1.enable_control_flow_v2)
    x = _v1.placeholder(tf.float32, [None, 3], "x")
    _, y = tf.while_loop(
      lambda i, _: i < 2,
      lambda i, y: (i + 1, y * tf.reduce_sum(y)),
      [tf.constant(0), x],
    )
    _v1.gradients(y, x)
    shapes = self._shapes(x)
    values = [
      shapes.value(op.outputs[0])
      for op in self._graph.get_operations()
      if op.type == "StackPopV2" and op.outputs[0].dtype == tf.int32
    ]
    self.assertIn(
      [n, 3], [list(value) for value in values if value is not None]
    )


if __name__ == "__main__":
  absltest.main()
