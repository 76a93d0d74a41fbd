"""Sizes of tensors, and what a graph computes of shapes."""

from estimator_mp.graph import shapes

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class SizeTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("known", [2, 3], tf.float32, 24),
    ("scalar", [], tf.float64, 8),
    ("empty", [0, 3], tf.float32, 4),
    ("open_batch", [None, 3], tf.float32, 32 * 3 * 4),
    ("unknown_rank", None, tf.int32, 4),
    ("strings", [2], tf.string, 16),
  )
  def test_bytes_of_a_tensor(self, shape, dtype, expected):
    with tf.Graph().as_default():
      tensor = v1.placeholder(dtype, shape)
      self.assertEqual(shapes.tensor_bytes(tensor), expected)

  @parameterized.named_parameters(("resource", True), ("reference", False))
  def test_bytes_of_a_variable(self, use_resource):
    with tf.Graph().as_default():
      v = v1.get_variable("v", [3, 5], use_resource=use_resource)
      self.assertEqual(shapes.variable_bytes(v.op), 60)


def _num_elements(x):
  return tf.size(x)


def _keras_mean_divisor(x):
  shape = tf.shape(x)
  return tf.cast(shape[0] * shape[1], tf.float32)


def _num_present(x):
  """As tf.losses counts, in a tensor of ones."""
  weights = tf.ones_like(x)
  present = tf.where(tf.equal(weights, 0.0), tf.zeros_like(x), weights)
  return tf.reduce_sum(present)


def _product_of_packed(x):
  return tf.reduce_prod(tf.stack([tf.shape(x)[0], 7, tf.rank(x)]))


def _slice_of_shape(x):
  return tf.shape(x)[1:]


class ConstantTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("size", _num_elements, 12),
    ("keras", _keras_mean_divisor, 12.0),
    ("losses", _num_present, 12.0),
    ("packed", _product_of_packed, 4 * 7 * 2),
    ("slice", _slice_of_shape, [3]),
    ("mean", lambda x: tf.size(x) / tf.shape(x)[0], 3.0),
  )
  def test_value(self, compute, expected):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 3])
      value = shapes.constant(compute(x))
      np.testing.assert_array_equal(value, expected)

  @parameterized.named_parameters(
    ("known_entry", lambda x: tf.shape(x)[1], 3),
    ("known_range", lambda x: tf.shape(x)[1:], [3, 5]),
    ("product_of_known", lambda x: tf.reduce_prod(tf.shape(x)[1:]), 15),
    ("unknown_entry", lambda x: tf.shape(x)[0], None),
    ("range_with_unknown", lambda x: tf.shape(x)[:2], None),
  )
  def test_of_a_shape_known_in_part(self, compute, expected):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [None, 3, 5])
      value = shapes.constant(compute(x))
      if expected is None:
        self.assertIsNone(value)
      else:
        np.testing.assert_array_equal(value, expected)

  def test_as_the_session_has_it(self):
    with tf.Graph().as_default():
      x = tf.ones([4, 3])
      tensor = tf.shape(x)[0] * 2 + tf.rank(x)
      value = shapes.constant(tensor)
      with v1.Session() as session:
        self.assertEqual(value, session.run(tensor))

  @parameterized.named_parameters(
    ("data", lambda x: x),
    ("sum_of_data", lambda x: tf.reduce_sum(x, [0, 1])),
    ("data_beside_a_shape", lambda x: tf.cast(tf.size(x), tf.float32) * x[0]),
    ("too_large", lambda x: tf.fill(tf.shape(x) * 10_000, 1.0)),
  )
  def test_not_of_shapes_alone(self, compute):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 3])
      self.assertIsNone(shapes.constant(compute(x)))


if __name__ == "__main__":
  absltest.main()
