"""Layouts of finished graphs, as plain data: no op is made."""

from estimator_mp.analysis import symbolic_shapes
from estimator_mp.graph import frames, op_types
from estimator_mp.graph.calls import inlining
from estimator_mp.propagate import propagation
from estimator_mp.propagate.layouts import (
  MIRRORED,
  ONCE,
  Partial,
  Partition,
  Repeated,
  Shard,
  Sizes,
)
from estimator_mp.rules.rule import Reduction
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
n, m = polynomials.symbol("n"), polynomials.symbol("m")


def _propagate(*examples, fetched=()):
  """Returns layouts over slices of inputs' first dimensions."""
  graph = examples[0].graph
  loops = frames.Frames(graph.get_operations())
  shapes = symbolic_shapes.SymbolicShapes(parts.inputs(*examples), loops)
  ops = frames.in_order(graph.get_operations(), loops)
  shapes.add(ops)
  batch = Partition(shapes.num_examples, (m,))

  def starts(size):
    is_open = isinstance(size, Polynomial) and shapes.has_examples(size)
    return batch.of(size) if is_open else None

  found = propagation.Propagation(
    shapes,
    {tensor.name: Shard(0, batch) for tensor in examples},
    {op for op in ops if propagation.is_without_state(op)},
    starts,
    fetched={tensor.name for tensor in fetched},
    frames=loops,
  )
  found.run(ops)
  return found


def _of_slices(axis, size=n, part=m):
  return Shard(axis, Partition(size, (part,)))


class UnevenTest(parameterized.TestCase):
  @parameterized.parameters(
    (1, (4, 2, 2), (3, 3, 2), False),  # Columns by heads, and even ones.
    (0, (3, 3, 2), (3, 3, 2), True),  # Rows by turns, and consecutive ones.
  )
  def test_operands_with_other_entries_are_split_anew(
    self, axis, one, other, is_cyclic
  ):
    with tf.Graph().as_default() as graph:
      shape = [8, 8] if is_cyclic else [None, 8]
      x, y = (_v1.placeholder(tf.float32, shape) for _ in range(2))
      total = x + y
    shapes = symbolic_shapes.SymbolicShapes()
    shapes.add(graph.get_operations())
    layouts = {
      x.name: Shard(axis, Partition(8, one, is_cyclic)),
      y.name: Shard(axis, Partition(8, other)),
    }
    found = propagation.Propagation(shapes, layouts, graph.get_operations())
    found.run(graph.get_operations())
    how = found.parts[total.op]
    self.assertEqual(how.outputs, (how.reads[0],))
    self.assertEqual(how.reads[0], how.reads[1])


class PropagationTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  @parameterized.parameters(None, 8)
  def test_a_layer_forward_and_backward(self, size):
    x = _v1.placeholder(tf.float32, [size, 3])
    kernel = _v1.get_variable("kernel", [3, 4])
    y = tf.matmul(x, kernel)
    (gradient,) = _v1.gradients(tf.nn.l2_loss(y), [kernel])
    found = _propagate(x, fetched=[gradient])
    split = _of_slices(0, size or n)
    self.assertEqual(found.layout(y), split)
    self.assertEqual(found.parts[y.op].reads, (split, ONCE))
    self.assertEqual(found.layout(gradient), Partial(Reduction.SUM))
    self.assertEqual(found.parts[gradient.op].reads, (split, split))

  def test_sums_go_through_what_is_linear_and_no_further(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    total = tf.reduce_sum(x, 0)
    scaled = tf.constant([1.0, 2.0, 3.0]) * tf.reshape(-total, [3])
    squared = tf.square(scaled)
    found = _propagate(x, fetched=[squared])
    self.assertEqual(found.layout(scaled), Partial(Reduction.SUM))
    self.assertEqual(found.layout(squared), ONCE)
    self.assertNotIn(squared.op, found.parts)

  def test_a_sum_that_is_read_twice_is_added_first(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    total = tf.reduce_sum(x, 0)
    ends = [-total, tf.square(total)]
    found = _propagate(x, fetched=ends)
    self.assertEqual(found.layout(total), Partial(Reduction.SUM))
    self.assertEqual(found.layout(ends[0]), ONCE)

  def test_one_of_two_terms_that_are_added_is_no_sum_of_parts(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    bias = _v1.placeholder(tf.float32, [3])
    y = tf.reduce_sum(x, 0) + bias
    self.assertEqual(_propagate(x, fetched=[y]).layout(y), ONCE)

  def test_examples_stay_where_a_reshape_puts_them(self):
    x = _v1.placeholder(tf.float32, [None, 6])
    rows = tf.reshape(x, [-1, 2, 3])
    flat = tf.reshape(rows, [tf.shape(x)[0] * 2, 3])
    back = tf.reshape(flat, tf.shape(x))
    mixed = tf.reshape(tf.transpose(x), [-1, 3])
    found = _propagate(x, fetched=[back, mixed])
    self.assertEqual(found.layout(rows), _of_slices(0))
    self.assertEqual(found.layout(flat), _of_slices(0, 2 * n, 2 * m))
    self.assertEqual(found.layout(back), _of_slices(0))
    sizes = found.parts[back.op].reads[1]
    self.assertEqual(sizes, Sizes(0, Partition(n, (m,))))
    self.assertEqual(found.layout(mixed), ONCE)

  def test_what_has_the_size_of_the_batch_is_made_in_parts(self):
    x = _v1.placeholder(tf.float32, [None, 6])
    ones = tf.fill([tf.shape(x)[0], 6], 1.0)
    found = _propagate(x, fetched=[ones])
    self.assertEqual(found.layout(ones), _of_slices(0))

  def test_what_may_be_repeated_is_so_before_it_is_split(self):
    x = _v1.placeholder(tf.float32, [None, 6])
    unknown = _v1.placeholder(tf.float32, [None, 6])
    one = _v1.placeholder(tf.float32, [1, 6])
    sums = [x + unknown, x + one]
    found = _propagate(x, fetched=sums)
    reads = [found.parts[y.op].reads[1] for y in sums]
    self.assertEqual(reads, [Repeated(_of_slices(0)), ONCE])

  def test_examples_that_are_compared_are_joined(self):
    x = _v1.placeholder(tf.float32, [None, 6])
    ranks = tf.cumsum(x, 0)
    best = tf.reduce_max(x, 0)
    found = _propagate(x, fetched=[ranks, best])
    self.assertEqual(found.layout(ranks), ONCE)
    self.assertEqual(found.layout(best), Partial(Reduction.MAX))

  def test_a_tuple_is_what_goes_in(self):
    x = _v1.placeholder(tf.float32, [None, 6])
    weight = _v1.placeholder(tf.float32, [6, 6])
    total = tf.reduce_sum(x, 0)
    made = tf.identity_n([x, weight, total])
    found = _propagate(x, fetched=made)
    self.assertEqual(
      [found.layout(y) for y in made],
      [_of_slices(0), ONCE, Partial(Reduction.SUM)],
    )

  def test_uneven_parts_of_a_variable(self):
    kernel = Partition(8, (6, 2))
    self.assertEqual(kernel.of(4), Partition(4, (3, 1)))
    self.assertIsNone(kernel.of(6))
    self.assertFalse(kernel.has_empty)
    self.assertTrue(Partition(8, (8, 0)).has_empty)


class LoopsTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph()
    self.enter_context(graph.as_default())
    self._graph = graph
    self._x = _v1.placeholder(tf.float32, [None, 3])

  def _propagate(self, count, body, *state):
    """Returns layouts, and what stands for the state after some rounds."""
    found = tf.while_loop(
      lambda i, *_: i < count,
      lambda i, *state: (i + 1, *body(*state)),
      [tf.constant(0), *state],
    )
    ops = self._graph.get_operations()
    calls = [op for op in ops if op.type in op_types.FUNCTIONAL]
    stand_ins = inlining.inline(calls, inlining.INLINED)
    (loop,) = calls
    layouts = _propagate(self._x)
    found = [stand_ins[x.name] for x in loop.outputs[2 : 3 + len(state)]]
    return layouts, [layouts.layout(tensor) for tensor in found]

  def test_state_begins_with_the_layout_that_comes_back(self):
    x = self._x
    found, layouts = self._propagate(
      4,
      lambda y, total: (tf.tanh(y + x), total + tf.reduce_sum(y, 0)),
      tf.sort(x, 0),
      tf.zeros([3]),
    )
    self.assertEmpty(found.refused)
    self.assertEqual(layouts, [MIRRORED, _of_slices(0), Partial()])

  def test_whether_there_is_another_round_is_known_to_all_slices(self):
    x = self._x
    found, layouts = self._propagate(
      tf.cast(tf.reduce_max(x), tf.int32), lambda y: [tf.tanh(y)], x
    )
    self.assertEmpty(found.refused)
    self.assertEqual(layouts, [MIRRORED, _of_slices(0)])

  @parameterized.named_parameters(
    ("a_sum_that_is_read", lambda y: [y * tf.reduce_sum(y)]),
    ("a_maximum", lambda y: [y + tf.reduce_max(y)]),
    ("examples_in_another_order", lambda y: [tf.sort(y, 0)]),
  )
  def test_what_slices_would_need_of_each_other(self, body):
    found, layouts = self._propagate(4, body, self._x)
    self.assertLen(found.refused, 1)
    self.assertEqual(layouts, [ONCE, ONCE])

  def test_a_loop_that_has_nothing_to_do_with_the_batch(self):
    found, layouts = self._propagate(4, lambda y: [y * 2], tf.zeros([3]))
    self.assertEmpty(found.refused)
    self.assertEqual(layouts, [ONCE, ONCE])
    self.assertEmpty(found.parts)


if __name__ == "__main__":
  absltest.main()
