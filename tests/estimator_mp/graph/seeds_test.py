"""Seeds of micro-batches, and functions that draw: graphs of a few ops."""

from estimator_mp.graph import draws
from estimator_mp.graph.calls import functions
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class SeedsTest(graph_case.GraphCase):
  @parameterized.named_parameters(
    ("seeded", lambda: tf.random.uniform([2], seed=3), True),
    ("stateless", lambda: tf.random.stateless_uniform([2], [1, 2]), False),
    ("plain", lambda: tf.zeros([2]), False),
    (
      "of_no_seed",
      lambda: tf.raw_ops.RandomUniform(shape=[2], dtype=tf.float32),
      False,
    ),
  )
  def test_what_has_a_seed_of_its_own(self, make, expected):
    made = make()
    drawn = [op for op in self.ops() if "Random" in op.type]
    for op in drawn or [made.op]:
      self.assertEqual(draws.has_seed(op.node_def), expected)

  def _reseeded(self, name, seed, number):
    node = v1.NodeDef(name=name, op="RandomUniform")
    draws.reseed(node, seed, number)
    return node.attr["seed2"].i

  def test_a_seed_follows_from_name_seed_and_micro_batch(self):
    found = [
      self._reseeded(*x)
      for x in (("a", 1, 1), ("b", 1, 1), ("a", 2, 1), ("a", 1, 2))
    ]
    self.assertLen({*found}, 4)
    self.assertEqual(found[0], self._reseeded("a", 1, 1))
    for seed in found:
      self.assertBetween(seed, 1, 2**31 - 1)

  def test_a_seed_that_is_mixed(self):
    seed = tf.constant([3, 4], tf.int64)
    found = [draws.mixed_seed(seed, number) for number in (1, 2)]
    with v1.Session() as session:
      values = session.run(found)
    for value, number in zip(values, (1, 2), strict=True):
      self.assertEqual(
        value.tolist(), [3 ^ draws.mask(number), 4 ^ draws.mask(number)]
      )
    self.assertNotEqual(*map(draws.mask, (1, 2)))

  def test_what_reads_a_seed_that_all_micro_batches_share(self):
    op = tf.raw_ops.StatelessRandomUniform(shape=[2], seed=[1, 2]).op
    self.assertTrue(draws.reads_seed(op, lambda x: False))
    self.assertFalse(draws.reads_seed(op, lambda x: x is op.inputs[1]))
    self.assertFalse(draws.reads_seed(tf.zeros([2]).op, lambda x: False))


class FunctionsTest(graph_case.GraphCase):
  def _call(self, function, *arguments):
    """Returns the op that calls a function."""
    count = len(self.ops())
    tf.function(function)(*arguments)
    (op,) = (op for op in self.ops()[count:] if "Call" in op.type)
    return op

  def _called(self, op, number, differing):
    """Returns which function the clone of a micro-batch calls, and the new."""
    found = functions.Functions(self.graph)
    self.assertTrue(found.are_called_by(op.node_def))
    node = op.node_def
    found.caller(node, differing)(node, number)
    return node.attr["f"].func.name, found.take()

  def test_a_function_that_draws_is_made_once_more(self):
    op = self._call(lambda x: tf.nn.dropout(x, 0.5, seed=1), tf.ones([2]))
    own = op.get_attr("f").name
    names = [self._called(op, number, [True])[0] for number in (1, 2)]
    self.assertLen({own, *names}, 3)
    _, library = self._called(op, 1, [True])
    self.assertEqual([f.signature.name for f in library.function], names[:1])

  def test_one_that_draws_nothing_is_shared(self):
    op = self._call(tf.square, tf.ones([2]))
    name, library = self._called(op, 1, [True])
    self.assertEqual(name, op.get_attr("f").name)
    self.assertEmpty(library.function)

  def test_what_an_op_runs_inside(self):
    op = self._call(lambda x: tf.nn.dropout(x, 0.5, seed=1), tf.ones([2]))
    self.assertTrue(functions.any_op(op, lambda x: x == "RandomUniform"))
    self.assertFalse(functions.any_op(op, lambda x: x == "MatMul"))

  def test_a_function_of_slices_forgets_the_size_of_the_batch(self):
    def loop(x):
      return tf.while_loop(
        lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x]
      )[1]

    op = self._call(loop, tf.ones([7, 5]))
    name, made = functions.without_sizes(self.graph, op.get_attr("f").name, 7)
    self.assertIn(name, made)
    shapes = [
      tf.TensorShape(shape).as_list()
      for node in made[name].node_def
      if node.op.endswith("While")
      for shape in node.attr["output_shapes"].list.shape
    ]
    self.assertIn([None, 5], shapes)
    self.assertNotIn([7, 5], shapes)


if __name__ == "__main__":
  absltest.main()
