"""Which ops compute the same."""

from estimator_mp.graph import same_ops

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _after(x):
  with tf.control_dependencies([v1.no_op()]):
    return tf.exp(x)


def _chain(x, length):
  for _ in range(length):
    x = tf.exp(x)
  return x


def _fed(x):
  return tf.exp(v1.placeholder(tf.float32, x.shape))


def _fed_by_default(x):
  return tf.exp(v1.placeholder_with_default([1.0, 2.0], x.shape))


def _on_another_device(x):
  with tf.device("/cpu:1"):
    return tf.exp(x)


def _part(x, number):
  return tf.exp(tf.split(x, 2)[number])


def _branch(x):
  return tf.exp(tf.raw_ops.Switch(data=x, pred=True)[1])


def _are_same(one, other):
  same = same_ops.SameOps()
  return same.first(one.op) is same.first(other.op)


class SameOpsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("constants", lambda x: tf.constant([1.0, 2.0]), True),
    ("of_the_same", lambda x: tf.exp(x) * 2.0, True),
    ("of_several", lambda x: tf.reshape(x, tf.shape(x)), True),
    ("long", lambda x: _chain(x, 3000), True),
    ("what_waits", _after, False),
    ("random", lambda x: tf.random.uniform([2], seed=3), False),
    ("of_random", lambda x: tf.random.uniform([2], seed=3) + x, False),
    ("python", lambda x: v1.py_func(lambda y: y, [x], tf.float32), False),
    ("too_large_to_see", lambda x: tf.constant(1.0, shape=[2000]), False),
    # What is fed may differ, and a branch of a v1 cond may not run.
    ("fed", _fed, False),
    ("fed_by_default", _fed_by_default, False),
    ("branch", _branch, False),
  )
  def test_what_is_made_twice(self, make, expected):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [2])
      self.assertEqual(_are_same(make(x), make(x)), expected)

  @parameterized.named_parameters(
    ("type", tf.exp, tf.tanh),
    ("constant", lambda x: x + 1.0, lambda x: x + 2.0),
    (
      "attribute",
      lambda x: tf.one_hot(1, 3),
      lambda x: tf.one_hot(1, 3, axis=0),
    ),
    ("output", lambda x: _part(x, 0), lambda x: _part(x, 1)),
    ("number", lambda x: tf.add_n([x, x]), lambda x: tf.add_n([x, x, x])),
    # Devices may round differently.
    ("device", tf.exp, _on_another_device),
  )
  def test_what_differs_in(self, make, make_other):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [2])
      self.assertFalse(_are_same(make(x), make_other(x)))

  @parameterized.parameters(True, False)
  def test_reads_of_a_variable_may_be_at_different_times(self, use_resource):
    with tf.Graph().as_default():
      variable = v1.get_variable("v", [2], use_resource=use_resource)
      first, second = (tf.exp(variable.read_value()) for _ in range(2))
      self.assertFalse(_are_same(first, second))


if __name__ == "__main__":
  absltest.main()
