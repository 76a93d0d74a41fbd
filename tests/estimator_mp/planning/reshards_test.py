"""The reshards of a finished graph, as data."""

import estimator_mp
from estimator_mp import partitioner
from estimator_mp.planning.reshards import Kind
from estimator_mp.sizes import polynomials
from tests.estimator_mp import graph_case, parts

import tensorflow as tf
from absl.testing import absltest

_v1 = tf.compat.v1
_N = polynomials.symbol("n")


def _reshards(loss_of, size=None):
  """Returns reshards that slices wait for, or cut: kinds and bytes."""
  x = _v1.placeholder(tf.float32, [size, 4], "x")
  kernel = _v1.get_variable("kernel", [4, 6], use_resource=True)
  loss = loss_of(tf.tanh(tf.matmul(x, kernel), name="net"))
  train_op = _v1.train.GradientDescentOptimizer(0.1).minimize(loss)
  config = estimator_mp.ShardingConfig(num_micro_batches=3)
  made = partitioner.Partitioner(
    parts.inputs(x), [loss, train_op], config, config.create_mesh()
  )
  return {(found.tensor, found.kind): found for found in made.reshards}


class ReshardsTest(graph_case.GraphCase):
  def test_inputs_are_cut_and_what_adds_up_is_summed(self):
    found = _reshards(lambda net: tf.reduce_sum(net, name="loss"))
    cut = found.pop(("x:0", Kind.SLICE))
    self.assertTrue(cut.is_of_inputs)
    self.assertEqual(cut.num_bytes, _N * 16)
    loss = found.pop(("loss:0", Kind.REDUCE))
    self.assertEqual((loss.num_bytes, loss.readers), (4, ()))
    ((_, kind), gradient), *others = found.items()
    self.assertEmpty(others)
    self.assertEqual((kind, gradient.num_bytes), (Kind.REDUCE, 4 * 6 * 4))

  def test_what_compares_examples_reads_all(self):
    found = _reshards(
      lambda net: tf.reduce_sum(tf.nn.top_k(tf.transpose(net), 2).values)
    )
    (joined,) = [x for (_, kind), x in found.items() if kind is Kind.CONCAT]
    self.assertEqual(joined.num_bytes, _N * 24)
    self.assertFalse(joined.is_of_inputs)

  def test_a_gradient_of_a_mean_is_added_before_it_is_repeated(self):
    """Else each slice would make the sum of all examples' activations."""
    found = _reshards(
      lambda net: tf.reduce_sum(tf.square(net - tf.reduce_mean(net, 0)))
    )
    reduced = [x for (_, kind), x in found.items() if kind is Kind.REDUCE]
    self.assertEqual({x.num_bytes for x in reduced}, {4, 24, 96})
    self.assertLen([x for _, x in found if x is Kind.SLICE], 1)

  def test_a_size_that_the_graph_knows(self):
    found = _reshards(tf.reduce_sum, size=6)
    self.assertEqual(found["x:0", Kind.SLICE].num_bytes, 6 * 16)


if __name__ == "__main__":
  absltest.main()
