"""Ops once more, where TensorFlow infers other shapes."""

from estimator_mp.graph import resized

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _five_rows(tensor):
  return v1.placeholder(tensor.dtype, [5, *tensor.shape.as_list()[1:]])


class ResizedTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._graph = self.enter_context(tf.Graph().as_default())
    self._x = v1.placeholder(tf.float32, [None, 4], "x")

  def _shape(self, graph, tensor):
    return graph.get_tensor_by_name(tensor.name).shape.as_list()

  def test_shapes_follow_from_what_stands_in(self):
    with v1.device("/device:GPU:1"), tf.control_dependencies([tf.no_op("a")]):
      flat = tf.reshape(self._x * 2.0, [-1])
    graph = resized.copy_of(self._graph.get_operations()[2:], _five_rows)
    self.assertEqual(self._shape(graph, flat), [20])
    copy = graph.get_operation_by_name(flat.op.name)
    self.assertEqual((copy.device, copy.control_inputs), ("", []))

  def test_what_is_outside_though_it_is_there(self):
    first = tf.identity(self._x[:2], name="first")
    last = tf.negative(first, name="last")
    graph = resized.copy_of(
      self._graph.get_operations()[1:], _five_rows, lambda x: x is first
    )
    self.assertEqual(self._shape(graph, first), [2, 4])
    self.assertEqual(self._shape(graph, last), [5, 4])

  def test_functions_and_loops_come_along(self):
    @tf.function
    def double(y):
      return y + y

    total = tf.while_loop(lambda y: True, lambda y: double(y), [self._x])
    graph = resized.copy_of(self._graph.get_operations()[1:], _five_rows)
    self.assertEqual(self._shape(graph, tf.nest.flatten(total)[0]), [5, 4])

  def test_an_input_pipeline_comes_along(self):
    dataset = tf.data.Dataset.from_tensor_slices([1.0, 2.0])
    v1.data.make_one_shot_iterator(dataset.batch(2))
    twice = self._x + self._x
    graph = resized.copy_of(self._graph.get_operations()[1:], _five_rows)
    self.assertEqual(self._shape(graph, twice), [5, 4])

  def test_what_cannot_be(self):
    tf.ensure_shape(self._x, [3, 4], name="three")
    with self.assertRaisesRegex(ValueError, "three"):
      resized.copy_of(self._graph.get_operations()[1:], _five_rows)

  def test_no_op(self):
    self.assertEmpty(resized.copy_of([], _five_rows).get_operations())


if __name__ == "__main__":
  absltest.main()
