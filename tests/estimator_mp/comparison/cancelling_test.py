"""Gradients that are sums: how much of them may be rounding."""

from estimator_mp.comparison import cancelling
from tests.estimator_mp import graph_case

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_RANDOM = np.random.RandomState(0)
_TERMS = _RANDOM.randn(6, 4, 5, 3).astype(np.float32)


def _convolution(x, bias):
  return tf.nn.bias_add(x, bias)


def _channels_first(x, bias):
  return tf.nn.bias_add(tf.transpose(x, [0, 3, 1, 2]), bias, "NCHW")


def _twice(x, bias):
  return tf.nn.bias_add(x, bias) + bias


class CancellingTest(graph_case.GraphCase):
  @parameterized.parameters(
    (_convolution, 1), (_channels_first, 1), (tf.add, 1), (_twice, 2)
  )
  def test_sums_of_terms(self, layer, times):
    x, bias = v1.placeholder(tf.float32, _TERMS.shape), tf.zeros([3])
    weights = tf.constant(_TERMS)
    made = layer(x, bias)
    if layer is _channels_first:
      weights = tf.transpose(weights, [0, 3, 1, 2])
    (gradient,) = tf.gradients(made * weights, [bias])
    with v1.Session() as session:
      found = session.run(cancelling.rounding(gradient), {x: _TERMS})
    sums = np.sum(np.abs(_TERMS.astype(np.float64)), (0, 1, 2))
    np.testing.assert_allclose(found, times * np.max(sums) * 2**-18)

  def test_other_gradients(self):
    x, kernel = v1.placeholder(tf.float32, [4, 3]), tf.ones([3, 2])
    (gradient,) = tf.gradients(tf.matmul(x, kernel), [kernel])
    self.assertIsNone(cancelling.rounding(gradient))
    x, bias = v1.placeholder(tf.float32), tf.ones([2])  # Of any rank.
    (gradient,) = tf.gradients(tf.nn.bias_add(x, bias), [bias])
    self.assertIsNone(cancelling.rounding(gradient))


if __name__ == "__main__":
  absltest.main()
