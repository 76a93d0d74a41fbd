"""The private names behind gradient requests, and what stands before them."""

from compat.private import gradient_requests

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class Handler:
  """Answers as TensorFlow would, and keeps the targets and the answers."""

  def __init__(self):
    self.heard = []

  def gradients(self, targets, sources, grad_ys, compute):
    self.heard.append(targets)
    self.heard.append(compute(targets, sources, grad_ys))
    return self.heard[-1]

  def add_terms(self, terms):
    return tf.add_n(terms)

  def constants(self, tensors):
    return []


def _patched():
  return (
    gradient_requests.gradients_util._GradientsHelper,
    gradient_requests.gradients_util._MultiDeviceAddN,
    tf.GradientTape.gradient,
  )


class GradientRequestsTest(absltest.TestCase):
  def test_the_patches_are_undone_on_every_exit(self):
    before = _patched()
    with (
      self.assertRaises(KeyError),
      tf.Graph().as_default() as graph,
      gradient_requests.intercepted(graph, Handler()),
    ):
      with gradient_requests.observed(graph, print):
        pass
      for function, original in zip(_patched(), before, strict=True):
        self.assertIsNot(function, original)
      raise KeyError("a mistake of the user's")
    self.assertEqual(_patched(), before)

  def test_requests_in_other_graphs_pass(self):
    handler = Handler()

    def gradient():
      x = v1.placeholder(tf.float32, [2])
      return tf.gradients(tf.reduce_sum(x * x), [x])[0]

    with (
      tf.Graph().as_default() as outer,
      gradient_requests.intercepted(outer, handler),
    ):
      with tf.Graph().as_default():
        gradient()
      self.assertEmpty(handler.heard)
      result = gradient()
    self.assertLen(handler.heard, 2)
    self.assertIs(handler.heard[1][0], result)

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

  def test_gradients_of_loops_are_in_no_colocation_group(self):
    """The body of a loop may read what is on another device than the loop."""
    device = "/job:worker/task:1/device:CPU:0"
    with (
      tf.Graph().as_default() as graph,
      gradient_requests.intercepted(graph, Handler()),
    ):
      with tf.device(device):
        x = v1.placeholder(tf.float32, [2, 2])
        y = tf.while_loop(lambda y: y[0, 0] < 3, lambda y: (y + y * x,), (x,))
      tf.gradients(y, [x])
    loops = [op for op in graph.get_operations() if op.type == "StatelessWhile"]
    self.assertEqual([op.device for op in loops], [device] * 2)
    groups = [
      group
      for function in graph.as_graph_def().library.function
      for node in function.node_def
      for group in node.attr["_class"].list.s
    ]
    self.assertNotIn(f"loc:@{loops[0].name}".encode(), groups)

  def test_the_handler_names_further_constants(self):
    class Stopping(Handler):
      def constants(self, tensors):
        return [copy] if tensors else []

    with tf.Graph().as_default() as graph, v1.Session() as session:
      x = tf.constant(1.0)
      named, copy = x * 2.0, x * 3.0
      y = named + copy + x
      with gradient_requests.intercepted(graph, Stopping()):
        some = tf.gradients(y, x, stop_gradients=[named])
        every = tf.gradients(y, x)
      self.assertEqual(session.run([*some, *every]), [1.0, 6.0])

  def test_terms_on_several_devices_are_added_by_the_handler(self):
    class Adding(Handler):
      def add_terms(self, terms):
        self.devices = {term.device for term in terms}
        return super().add_terms(terms)

    handler = Adding()
    with tf.Graph().as_default() as graph:
      x = v1.get_variable("x", [2], use_resource=True)
      parts = []
      for device in ("/device:CPU:0", "/device:CPU:1"):
        with tf.device(device):
          parts.append(tf.reduce_sum(tf.square(tf.identity(x))))
      with gradient_requests.intercepted(graph, handler):
        tf.gradients(tf.add_n(parts), [x])
    self.assertLen(handler.devices, 2)


if __name__ == "__main__":
  absltest.main()
