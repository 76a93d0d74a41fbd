"""The private names behind gradient requests, and what stands before them."""

from compat.private import gradient_requests

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _patched():
  return (
    gradient_requests.gradients_util._GradientsHelper,
    tf.GradientTape.gradient,
  )


class GradientRequestsTest(absltest.TestCase):
  def test_the_patches_are_undone_on_every_exit(self):
    before = _patched()
    with (
      self.assertRaises(KeyError),
      tf.Graph().as_default() as graph,
      gradient_requests.observed(graph, print),
    ):
      with gradient_requests.observed(graph, print):
        pass
      for function, original in zip(_patched(), before, strict=True):
        self.assertIsNot(function, original)
      raise KeyError("a mistake of the user's")
    self.assertEqual(_patched(), before)

  def test_requests_in_other_graphs_pass(self):
    heard = []

    def gradient():
      x = v1.placeholder(tf.float32, [2])
      return tf.gradients(tf.reduce_sum(x * x), [x])[0]

    with (
      tf.Graph().as_default() as outer,
      gradient_requests.observed(outer, lambda *of: heard.append(of)),
    ):
      with tf.Graph().as_default():
        gradient()
      self.assertEmpty(heard)
      result = gradient()
    ((_, gradients),) = heard
    self.assertIs(gradients[0], result)

  def test_a_tape_is_heard(self):
    heard = []
    with tf.Graph().as_default() as graph:
      x = tf.ones([2])
      with gradient_requests.observed(graph, lambda *of: heard.append(of)):
        with tf.GradientTape() as tape:
          tape.watch(x)
          y = x * x
        found = tape.gradient(y, x)
    ((sources, gradients),) = heard
    self.assertIs(sources[0], x)
    self.assertIs(gradients[0], found)

  def test_rows_are_one_gradient(self):
    heard = []
    with tf.Graph().as_default() as graph:
      table = v1.get_variable("table", [5, 2], use_resource=True)
      y = tf.reduce_sum(tf.gather(table, [1, 3]))
      with gradient_requests.observed(graph, lambda *of: heard.append(of)):
        v1.train.GradientDescentOptimizer(0.1).compute_gradients(y)
    ((sources, gradients),) = heard
    self.assertLen(sources, 1)
    self.assertIsInstance(gradients[0], tf.IndexedSlices)


if __name__ == "__main__":
  absltest.main()
