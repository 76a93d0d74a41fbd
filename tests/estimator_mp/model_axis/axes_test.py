"""What a graph knows of dimensions, and which of these a reshape keeps."""

from estimator_mp.model_axis import axes
from estimator_mp.model_axis.decisions import Shard
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class DimensionsTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self._x = v1.placeholder(tf.float32, [None, 3], "x")

  def test_unknown_ones_have_the_name_of_their_tensor(self):
    self.assertEqual(axes.dimensions(self._x), [("x:0", 0), 3])
    self.assertIsNone(axes.dimensions(v1.placeholder(tf.float32)))

  def test_a_reshape_names_those_of_another_tensor(self):
    y = tf.reshape(self._x, tf.stack([tf.shape(self._x)[0], 1, 3]))
    self.assertEqual(axes.dimensions(y), [("x:0", 0), 1, 3])

  @parameterized.named_parameters(
    ("shape", lambda x: tf.shape(x), [("x:0", 0), 3]),
    ("cast", lambda x: tf.cast(tf.shape(x), tf.int64), [("x:0", 0), 3]),
    ("pack", lambda x: tf.stack([tf.shape(x)[1], 7]), [3, 7]),
    (
      "concat",
      lambda x: tf.concat([tf.shape(x), [5]], 0),
      [("x:0", 0), 3, 5],
    ),
    ("slice", lambda x: tf.slice(tf.shape(x), [1], [1]), [3]),
    ("gather", lambda x: tf.gather(tf.shape(x), [1, 0]), [3, ("x:0", 0)]),
    ("product", lambda x: tf.stack([tf.reduce_prod(tf.shape(x)[1:])]), [None]),
    ("follows", lambda x: tf.constant([-1, 4]), [None, 4]),
    ("sum", lambda x: tf.stack([tf.shape(x)[0] + 1]), [None]),
  )
  def test_named_dimensions(self, make, expected):
    vector = make(self._x)
    found = axes.named_dimensions(vector, [None] * len(expected))
    self.assertEqual(found, expected)

  def test_sizes(self):
    sizes = [axes.size(self._x, i) for i in range(3)]
    self.assertEqual(sizes, [None, 3, None])
    shape = tf.stack([tf.shape(self._x)[0], 6])
    self.assertEqual([axes.named_size(shape, i) for i in (0, 1)], [None, 6])
    self.assertEqual(axes.named_size(tf.constant([-1, 6]), 0), -1)

  def test_constant_axes(self):
    self.assertEqual(axes.constant_axes(tf.constant([-1, 0]), 3), [2, 0])
    self.assertEqual(axes.constant_axes(tf.constant(1), 3), [1])
    self.assertIsNone(axes.constant_axes(tf.constant(1), None))
    self.assertIsNone(axes.constant_axes(v1.placeholder(tf.int32, []), 3))

  def test_last_dimensions(self):
    self.assertEqual([*axes.last(self._x, 1)], [1])
    self.assertIsNone(axes.last(v1.placeholder(tf.float32), 1))

  def test_one_split(self):
    one, other = Shard(0, (1, 2)), Shard(1, (1, 2))
    self.assertEqual(axes.only([None, one, one]), one)
    self.assertIsNone(axes.only([one, other]))
    self.assertIsNone(axes.only([None]))


class ReshapedTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("heads", [7, 6], [7, 3, 2], Shard(1, (4, 2)), Shard(1, (2, 1))),
    ("joined", [7, 3, 2], [7, 6], Shard(1, (2, 1)), Shard(1, (4, 2))),
    ("within_a_head", [7, 6], [7, 2, 3], Shard(1, (4, 2)), None),
    ("the_same", [7, 6], [7, 1, 6], Shard(1, (4, 2)), Shard(2, (4, 2))),
    (
      "of_an_open_batch",
      [("x:0", 0), 6],
      [("x:0", 0), 3, 2],
      Shard(1, (4, 2)),
      Shard(1, (2, 1)),
    ),
    ("unknown", [None, 6], [None, 6], Shard(1, (4, 2)), Shard(1, (4, 2))),
    ("mixed", [6, 7], [42], Shard(1, (3, 4)), None),
    ("outermost", [6, 7], [42], Shard(0, (2, 4)), Shard(0, (14, 28))),
  )
  def test_parts_are_parts_of_another_dimension(
    self, before, after, split, expected
  ):
    self.assertEqual(axes.reshaped(before, after, split), expected)


if __name__ == "__main__":
  absltest.main()
