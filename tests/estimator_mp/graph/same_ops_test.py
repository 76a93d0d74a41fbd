"""Which ops compute the same."""

from estimator_mp.graph import same_ops

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _read(variable):
  return v1.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.float32)


def _after(x):
  with tf.control_dependencies([v1.no_op()]):
    return tf.exp(x)


def _chain(x, length):
  for _ in range(length):
    x = tf.exp(x)
  return x


def _are_same(one, other):
  same = same_ops.SameOps()
  return same.first(one) is same.first(other)


class SameOpsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("constants", lambda x: tf.constant([1.0, 2.0]), True),
    ("of_the_same", lambda x: tf.exp(x) * 2.0, True),
    ("of_several", lambda x: tf.reshape(x, tf.shape(x)), True),
    ("what_waits", _after, False),
    ("random", lambda x: tf.random.uniform([2], seed=3), False),
    ("of_random", lambda x: tf.random.uniform([2], seed=3) + x, False),
    ("python", lambda x: v1.py_func(lambda y: y, [x], tf.float32), False),
    ("long", lambda x: _chain(x, 3000), True),
    ("too_large_to_see", lambda x: tf.constant(1.0, shape=[2000]), False),
  )
  def test_what_is_made_twice(self, make, expected):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [2])
      one, other = make(x).op, make(x).op
    self.assertEqual(_are_same(one, other), expected)

  @parameterized.named_parameters(
    ("type", tf.exp, tf.tanh),
    ("constant", lambda x: x + 1.0, lambda x: x + 2.0),
    (
      "attribute",
      lambda x: tf.one_hot(1, 3),
      lambda x: tf.one_hot(1, 3, axis=0),
    ),
    (
      "output",
      lambda x: tf.exp(tf.split(x, 2)[0]),
      lambda x: tf.exp(tf.split(x, 2)[1]),
    ),
    ("number", lambda x: tf.add_n([x, x]), lambda x: tf.add_n([x, x, x])),
  )
  def test_what_differs_in(self, make, make_other):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [2])
      self.assertFalse(_are_same(make(x).op, make_other(x).op))

  def test_reads_of_a_variable_may_be_at_different_times(self):
    with tf.Graph().as_default():
      variable = v1.get_variable("v", [2], use_resource=True)
      reference = v1.get_variable("r", [2], use_resource=False)
      for make in (
        lambda: _read(variable),
        lambda: tf.exp(reference.read_value()),
      ):
        self.assertFalse(_are_same(make().op, make().op))

  @parameterized.named_parameters(
    ("placeholder", lambda: v1.placeholder(tf.float32, [2])),
    ("default", lambda: v1.placeholder_with_default([1.0, 2.0], [2])),
  )
  def test_what_is_fed_may_differ(self, feed):
    with tf.Graph().as_default():
      self.assertFalse(_are_same(tf.exp(feed()).op, tf.exp(feed()).op))

  def test_devices_may_round_differently(self):
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [2])
      made = []
      for device in ("/cpu:0", "/cpu:1"):
        with tf.device(device):
          made.append(tf.exp(x) * 2.0)
    self.assertFalse(_are_same(*(y.op for y in made)))

  def test_branches_of_a_v1_cond_stay_apart(self):
    with tf.Graph().as_default():
      x, condition = v1.placeholder(tf.float32, [2]), tf.constant(True)
      one, other = (
        tf.exp(tf.raw_ops.Switch(data=x, pred=condition)[1]).op
        for _ in range(2)
      )
    self.assertFalse(_are_same(one, other))


if __name__ == "__main__":
  absltest.main()
