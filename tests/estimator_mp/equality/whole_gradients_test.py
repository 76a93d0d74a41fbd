"""Gradients that no slice of the batch makes by itself count once."""

import estimator_mp
from tests.estimator_mp import parts, programs
from tests.estimator_mp.models import data

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH = programs.examples(data.BATCH, 0, 12)


def _linear(features, labels, mode):
  """A penalty whose gradient is a constant."""
  weight = parts.weight("weight", [10, 1])
  loss = parts.mean_loss(labels, tf.matmul(features["x"], weight))
  loss += 0.1 * tf.reduce_sum(weight) + 0.2 * tf.reduce_sum(
    parts.weight("alone", [3])
  )
  return parts.spec(mode, loss, v1.train.GradientDescentOptimizer(0.1))


@tf.custom_gradient
def _sorted_product(x, weight):
  """A product, and a gradient that is made of all examples at once."""

  def gradient(dy):
    order = tf.argsort(tf.reshape(dy, [-1]))
    rows = tf.gather(x, order)
    return tf.matmul(dy, weight, transpose_b=True), tf.matmul(
      rows, tf.gather(dy, order), transpose_a=True
    ) + tf.reduce_max(tf.sort(tf.reshape(dy, [-1]))[:3])

  return tf.matmul(x, weight), gradient


def _own(features, labels, mode):
  weight = parts.weight("weight", [10, 1])
  loss = parts.mean_loss(labels, _sorted_product(features["x"], weight))
  return parts.spec(mode, loss, v1.train.GradientDescentOptimizer(0.1))


class WholeGradientsTest(parameterized.TestCase):
  @parameterized.product(
    model_fn=[_linear, _own],
    config=[
      estimator_mp.ShardingConfig("stage:1", num_micro_batches=4),
      estimator_mp.ShardingConfig("data:2", num_micro_batches=2),
    ],
  )
  def test_equal(self, model_fn, config):
    both = programs.plain_and_sharded(model_fn, config, _BATCH)
    programs.assert_same_steps(self, *both, [_BATCH] * 2)


if __name__ == "__main__":
  absltest.main()
