"""The slices of a batch: sizes and weights, and tensors cut and joined."""

from estimator_mp.capture import micro_batches
from estimator_mp.lower.slicing.slices import Slices
from estimator_mp.plan.batch_plan import BY_SLICE, Rows

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _slices(x, count):
  inputs = micro_batches.inputs_with_examples({"features": x})
  return Slices(inputs, count, 1, "/device:CPU:0")


class SlicesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())

  def _run(self, fetches, feed):
    with v1.Session(graph=self._graph) as session:
      return session.run(fetches, feed)

  def test_numbers_that_the_graph_knows(self):
    slices = _slices(v1.placeholder(tf.float32, [6, 2]), 3)
    self.assertEqual(slices.sizes, [2, 2, 2])
    self.assertEqual(slices.weights, [None] * 3)
    self.assertEqual(slices.num_examples, 6)
    first = slices.first
    self.assertEqual((first.examples, first.all_examples), (2, 6))

  @parameterized.parameters(
    (7, [3, 2, 2], [1, 1, 1]), (2, [1, 1, 1], [1, 1, 0])
  )
  def test_numbers_of_an_open_batch(self, size, sizes, weights):
    """A slice without an example has the last one's place, and no weight."""
    x = v1.placeholder(tf.float32, [None, 2])
    slices = _slices(x, 3)
    self.assertIsNone(slices.num_examples)
    found = self._run(
      [slices.sizes, slices.weights, slices.size], {x: np.ones([size, 2])}
    )
    self.assertCountEqual(found[0], sizes)
    self.assertEqual(found[1:], [weights, size])

  @parameterized.parameters(Rows(0, 2), Rows(1, 2), Rows(1, None))
  def test_what_is_cut_is_joined(self, rows):
    x = v1.placeholder(tf.float32, [None, 2])
    slices = _slices(x, 3)
    whole = v1.placeholder(tf.float32, [None, None])
    pieces = slices.cut(whole, rows)
    joined = slices.join(pieces, rows, 2)
    shape = [3, 3]
    shape[rows.axis] = 14
    value = np.random.RandomState(4).randn(*shape).astype(np.float32)
    found = self._run([pieces, joined], {x: np.ones([7, 2]), whole: value})
    self.assertCountEqual([x.shape[rows.axis] for x in found[0]], [6, 4, 4])
    np.testing.assert_array_equal(found[1], value)

  def test_a_row_of_each_slice(self):
    x = v1.placeholder(tf.float32, [None, 2])
    slices = _slices(x, 3)
    moments = v1.placeholder(tf.float32, [3, 2])
    pieces = slices.cut(moments, BY_SLICE)
    joined = slices.join(pieces, BY_SLICE, 2)
    value = np.random.RandomState(5).randn(3, 2).astype(np.float32)
    found = self._run([pieces, joined], {x: np.ones([7, 2]), moments: value})
    self.assertEqual([x.shape for x in found[0]], [(1, 2)] * 3)
    np.testing.assert_array_equal(found[1], value)


if __name__ == "__main__":
  absltest.main()
