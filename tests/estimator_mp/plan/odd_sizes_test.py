"""Which shapes tensors have for a batch of another size."""

from estimator_mp.capture.batch_size import Input
from estimator_mp.plan import odd_sizes
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class OddSizesTest(graph_case.GraphCase):
  """A batch x [?, 3] of which there are to be 7 examples."""

  def setUp(self):
    super().setUp()
    self._x = v1.placeholder(tf.float32, [None, 3], "x")
    self._odd = self._of(self._x)

  def _of(self, value, axis=0):
    return odd_sizes.OddSizes(
      [Input("features", value, axis)], self._differs, 7
    )

  def _differs(self, tensor):
    """What depends on no placeholder does not depend on the batch."""
    return tensor.op.type == "Placeholder" or any(
      map(self._differs, tensor.op.inputs)
    )

  def _shape(self, tensor, odd=None):
    graph = (odd or self._odd).graph([tensor.op])
    return graph.get_tensor_by_name(tensor.name).shape.as_list()

  def test_shapes_follow(self):
    y = tf.matmul(self._x, tf.ones([3, 5]), name="y")
    self.assertEqual(self._shape(y), [7, 5])
    self.assertEqual(self._shape(tf.transpose(y)), [5, 7])
    self.assertEqual(self._shape(tf.reshape(y, [-1])), [35])
    pairs = tf.matmul(y, y, transpose_b=True)
    self.assertEqual(self._shape(pairs), [7, 7])

  def test_a_shape_that_the_graph_computes(self):
    rows = tf.shape(self._x)[0]
    self.assertEqual(
      self._shape(tf.reshape(self._x, tf.stack([rows * 3]))), [21]
    )

  def test_what_cannot_work_is_left_out_with_what_follows(self):
    whole = v1.placeholder(tf.float32, [4, 3])
    ops = [tf.add(self._x, whole, "no"), tf.negative(self._x, "yes")]
    ops.insert(1, tf.square(ops[0], "after"))
    graph = self._odd.graph(x.op for x in ops)
    names = {op.name for op in graph.get_operations()}
    self.assertIn("yes", names)
    self.assertNoCommonElements(["no", "after"], names)

  def test_what_reads_a_size_that_is_said_is_not_left_out(self):
    made = tf.reshape(self._x, [4, 3], "no")
    made.set_shape([None, 3])
    self._odd.add_rows(made)
    after = tf.square(made, "after")
    graph = self._odd.graph([made.op, after.op])
    self.assertEqual(graph.get_tensor_by_name("after:0").shape, [7, 3])

  def test_a_dimension_that_the_program_sets_later(self):
    x = v1.placeholder(tf.float32, [None, None])
    odd = self._of(x)
    y = tf.negative(x)
    self.assertNotEqual(self._shape(y, odd), [7, 5])
    x.set_shape([None, 5])
    self.assertEqual(self._shape(y, odd), [7, 5])

  def test_what_is_said_of_a_tensor(self):
    made = tf.numpy_function(lambda x: x, [self._x], tf.float32)
    made.set_shape([None, None])
    y = tf.square(made, "y")
    self.assertFalse(self._odd.is_known(made))
    self._odd.add_rows(made, axis=1, per_example=2)
    self.assertTrue(self._odd.is_known(made))
    rest, batch = self._shape(y)
    self.assertEqual(batch, 14)
    self.assertNotEqual(rest % 7, 0)  # Whatever it is, no number of examples.

  def test_rows_of_examples(self):
    y = tf.matmul(self._x, tf.ones([3, 5]))
    self.assertTrue(self._odd.has_row_per_example(y))
    self.assertTrue(self._odd.has_row_per_example(self._x))
    self.assertFalse(self._odd.has_row_per_example(tf.transpose(y)))
    self.assertFalse(self._odd.has_row_per_example(tf.reduce_sum(y)))

  def test_the_axis_of_an_input(self):
    x = v1.placeholder(tf.float32, [3, None])
    self.assertEqual(self._shape(tf.negative(x), self._of(x, 1)), [3, 7])

  def test_a_sparse_input(self):
    x = v1.sparse_placeholder(tf.float32, [None, 9])
    odd = self._of(x)
    dense = tf.sparse.to_dense(tf.sparse.reshape(x, [-1, 3]))
    self.assertEqual(self._shape(tf.square(dense), odd), [21, 3])
    self.assertTrue(odd.is_known(x.dense_shape))

  def test_a_ragged_input(self):
    x = tf.RaggedTensor.from_row_splits(
      v1.placeholder(tf.float32, [None]),
      v1.placeholder(tf.int64, [None]),
      validate=False,
    )
    lengths = x.row_lengths()
    self.assertEqual(self._shape(lengths, self._of(x)), [7])

  def test_a_loop(self):
    _, y = tf.while_loop(
      lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), [0, self._x]
    )
    self.assertEqual(self._shape(tf.square(y)), [7, 3])


if __name__ == "__main__":
  absltest.main()
