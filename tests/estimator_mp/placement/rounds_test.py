"""Rounds of loops, functional ones and those in frames."""

from estimator_mp.graph import op_types
from estimator_mp.placement import rounds

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_LENGTH = 7


def _loop(length):
  """Makes a graph with a loop over sequences of an open batch; returns it."""
  with tf.Graph().as_default() as graph:
    cell = v1.nn.rnn_cell.BasicRNNCell(4)
    v1.nn.dynamic_rnn(
      cell, v1.placeholder(tf.float32, [None, length, 3]), dtype=tf.float32
    )
  return graph


class RoundsTest(parameterized.TestCase):
  @parameterized.parameters((_LENGTH, _LENGTH), (None, rounds.NOMINAL))
  def test_a_functional_loop(self, length, expected):
    graph = _loop(length)
    (loop,) = (
      x for x in graph.get_operations() if x.type in op_types.FUNCTIONAL_LOOPS
    )
    self.assertEqual(rounds.Rounds(graph).of(loop), expected)
    self.assertGreater(rounds.ops_of_round(loop), 5)

  def test_a_loop_in_frames(self):
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    graph = _loop(_LENGTH)
    found = rounds.Rounds(graph)
    times = {x.type: found.of(x) for x in graph.get_operations()}
    self.assertEqual(times["Tanh"], _LENGTH)
    self.assertEqual(times["Placeholder"], 1)


if __name__ == "__main__":
  absltest.main()
