"""Which constants may be had twice, and what a hook may feed."""

import estimator_mp  # noqa: F401, before TensorFlow
from estimator_mp.graph import feeds

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _number(x):
  return (x * 0.5).op.inputs[1].op


def _of_gradient(x):
  (gradient,) = tf.gradients(tf.reduce_mean(x), [x])
  return next(
    op
    for op in gradient.graph.get_operations()
    if op.type == "Const" and op.name.startswith("gradients/Mean_grad")
  )


def _waiting(x):
  with tf.control_dependencies([x]):
    return tf.zeros([2]).op


class ConstantsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("number_of_an_op", _number, True),
    ("axis_of_an_op", lambda x: tf.reduce_sum(x, 0).op.inputs[1].op, True),
    ("part_of_a_gradient", _of_gradient, True),
    ("vector_without_a_name", lambda x: tf.constant([1.0, 2.0]).op, True),
    ("zeros", lambda x: tf.zeros([2]).op, True),
    ("named_scalar", lambda x: tf.constant(0.1, name="rate").op, False),
    # A program that holds it can feed it.
    ("scalar_without_a_name", lambda x: tf.constant(0.1).op, False),
    ("named_vector", lambda x: tf.constant([1.0, 2.0], name="w").op, False),
    ("named_flag", lambda x: tf.constant(True, name="is_training").op, False),
    ("that_waits", _waiting, False),
    ("no_constant", lambda x: tf.exp(x).op, False),
  )
  def test_can_be_copied(self, make, expected):
    with tf.Graph().as_default():
      op = make(v1.placeholder(tf.float32, [2]))
    self.assertEqual(feeds.can_be_copied(op), expected)

  def test_what_there_is_more_than_one_of_is_not_fed(self):
    with tf.Graph().as_default():
      first, second = tf.split(v1.placeholder(tf.float32, [2]), 2)
      feeds.prevent_feeding(first.op)
      with v1.Session() as session:
        for tensor in (first, second):
          with self.assertRaisesRegex(ValueError, "may not be fed"):
            session.run(first, {tensor: [1.0]})


if __name__ == "__main__":
  absltest.main()
