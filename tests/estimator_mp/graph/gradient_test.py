"""Gradients of one variable that several devices make."""

from estimator_mp.graph import gradient
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class GradientTest(graph_case.GraphCase):
  def test_terms_by_device_are_sent_once_from_each(self):
    terms = []
    for name, device in (("a", 1), ("b", 2), ("c", 1), ("d", 1)):
      with tf.device(f"/cpu:{device}"):
        terms.append(v1.placeholder(tf.float32, [7, 3], name))
    first, second = gradient.add_by_device(terms).op.inputs
    self.assertEqual([x.op.name for x in first.op.inputs], ["a", "c", "d"])
    self.assertEqual(first.op.colocation_groups(), [b"loc:@a"])
    self.assertIs(second, terms[1])


if __name__ == "__main__":
  absltest.main()
