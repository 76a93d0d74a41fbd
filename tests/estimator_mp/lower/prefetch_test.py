"""Prefetching: what the model reads of a batch that was stored before."""

import estimator_mp  # noqa: F401, before TensorFlow
from estimator_mp.capture import input_boundary
from estimator_mp.lower import prefetching
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_HOST = "/device:CPU:0"


class PrefetchTest(graph_case.GraphCase):
  """y = -x of batches x of two numbers, and an op that waits for the input."""

  def setUp(self):
    super().setUp()
    with tf.device(_HOST):
      data = tf.data.Dataset.range(6).batch(2, drop_remainder=True)
      self._x = v1.data.make_one_shot_iterator(data).get_next()
      self._y = tf.negative(self._x, "y")
      with tf.control_dependencies([self._x]):
        self._later = tf.no_op("later")
    self._getter = self._x.op
    if self._getter.type == "Identity":
      self._getter = self._getter.inputs[0].op
    of_input = [op for op in self.ops() if op not in (self._y.op, self._later)]
    self._ahead = prefetching.prefetch(input_boundary.find(of_input))

  def test_the_model_reads_what_was_stored(self):
    (read,) = self._y.op.inputs
    self.assertIsNot(read, self._x)
    self.assertEqual(read.shape.as_list(), [2])
    self.assertEqual(read.device, self._y.device)
    self.assertNotIn(self._x.op, self._later.control_inputs)
    self.assertLen(self._later.control_inputs, 1)

  def test_batches_come_in_their_order(self):
    ahead = self._ahead
    with v1.Session() as session:
      for number in range(3):
        session.run(ahead.store, {ahead.number: number})
        self.assertEqual(session.run(ahead.waiting), 1)
        start = 2 * number
        found = session.run(self._y)
        self.assertEqual(found.tolist(), [-start, -start - 1])
        self.assertEqual(session.run(ahead.waiting), 0)
      with self.assertRaises(tf.errors.OutOfRangeError):
        session.run(ahead.store, {ahead.number: 3})
      session.run(ahead.end)
      with self.assertRaises(tf.errors.OutOfRangeError):
        session.run(self._y)

  def test_a_step_may_run_no_op_of_the_input(self):
    with (
      v1.Session() as session,
      self.assertRaisesRegex(
        tf.errors.InvalidArgumentError,
        "prefetch_inputs=True: the step would run an op of the input itself, "
        "which consumes a batch; let hooks and summaries fetch tensors of the "
        "model instead of those of input_fn, or leave prefetch_inputs out",
      ),
    ):
      session.run(self._x)


if __name__ == "__main__":
  absltest.main()
