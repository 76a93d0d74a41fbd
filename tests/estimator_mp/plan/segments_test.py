"""How often slices of the batch wait for each other."""

from estimator_mp.plan import segments

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class SegmentsTest(absltest.TestCase):
  """Graphs of bridges: what they are is said to the functions by name."""

  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())
    self.x = v1.placeholder(tf.float32, [None], "x")
    self.cut = tf.identity(self.x, "cut")

  def _between(self, backward=()):
    ops = v1.get_default_graph().get_operations()
    begins = {op for op in ops if op.name.startswith(("cut", "read"))}
    ends = {op for op in ops if op.name.startswith(("join", "sum"))}
    own = segments.ops_between(ops, begins, ends, backward)
    numbers = segments.segments_of_ops(ops, set(own), ends)
    return {op.name: numbers[op] for op in own}

  def test_what_waits_for_nothing(self):
    loss = tf.square(tf.negative(self.cut, "negative"), "square")
    tf.add(tf.identity(loss, "sum"), 1.0, "once")
    self.assertEqual(self._between(), {"negative": 0, "square": 0})

  def test_what_reads_a_join(self):
    net = tf.negative(self.cut, "negative")
    whole = tf.cumsum(tf.identity(net, "join"), name="once")
    again = tf.square(tf.identity(whole, "cut_1"), "square")
    tf.abs(tf.identity(again, "join_1"), "last")
    self.assertEqual(self._between(), {"negative": 0, "square": 1})

  def test_what_reads_both(self):
    net = tf.negative(self.cut, "negative")
    mean = tf.identity(tf.reduce_sum(net, name="share"), "sum")
    centered = tf.subtract(net, tf.identity(mean, "read"), "centered")
    tf.identity(centered, "join")
    self.assertEqual(
      self._between(), {"negative": 0, "share": 0, "centered": 1}
    )

  def test_what_leaves_a_loop_of_tensorflow_1(self):
    """It waits for all that goes around, also where it reads something else."""
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)
    net = tf.identity(tf.negative(self.cut, "negative"), "join")
    count, _ = tf.while_loop(
      lambda i, _: i < 3,
      lambda i, total: (i + 1, total + net),
      (0, tf.zeros([4])),
    )
    tf.square(tf.identity(count, "cut_1"), "square")
    self.assertEqual(self._between(), {"negative": 0, "square": 1})

  def test_a_sum_of_what_is_no_slices(self):
    constant = tf.constant(1.0)
    total = tf.identity(constant, "sum")
    tf.add(self.cut, tf.identity(total, "read"), "add")
    self.assertEqual(self._between(), {"add": 0})

  def test_constants_that_wait_for_a_slice(self):
    net = tf.negative(self.cut, "negative")
    with tf.control_dependencies([net]):
      of_gradient = tf.constant(2.0, name="of_gradient")
      tf.constant(3.0, name="of_program")
    tf.multiply(net, of_gradient, "mul")
    self.assertEqual(
      self._between({of_gradient.op}),
      {"negative": 0, "of_gradient": 0, "mul": 0},
    )


if __name__ == "__main__":
  absltest.main()
