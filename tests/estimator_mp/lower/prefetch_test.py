"""Prefetching: what waits for a batch waits for the one that was stored."""

import estimator_mp  # noqa: F401, before TensorFlow
from estimator_mp.capture import input_boundary
from estimator_mp.lower import prefetching
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class PrefetchTest(graph_case.GraphCase):
  def test_an_op_that_waits_for_the_input(self):
    with tf.device("/device:CPU:0"):
      data = tf.data.Dataset.range(6).batch(2, drop_remainder=True)
      x = v1.data.make_one_shot_iterator(data).get_next()
      of_input = self.ops()
      with tf.control_dependencies([x]):
        later = tf.constant(5)
    ahead = prefetching.prefetch(input_boundary.find(of_input))
    with v1.Session() as session:
      session.run(ahead.store, {ahead.number: 0})
      self.assertEqual(session.run(later), 5)
      self.assertEqual(session.run(ahead.waiting), 0)


if __name__ == "__main__":
  absltest.main()
