"""Gradients of what is split, where they are not those of one chain of ops."""

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

_CLASSES = 5


def _input_fn():
  """Four batches of numbers, ids and classes."""
  random = np.random.RandomState(0)
  numbers = random.standard_normal([32, 6]).astype(np.float32)
  ids, classes = random.randint(0, 9, 32), random.randint(0, _CLASSES, 32)
  data = ({"numbers": numbers, "ids": ids}, classes)
  return tf.data.Dataset.from_tensor_slices(data).batch(8, drop_remainder=True)


def _variable(name, shape):
  initializer = v1.random_normal_initializer(stddev=0.5, seed=1)
  return v1.get_variable(name, shape, initializer=initializer)


def _dense(x, units, name):
  kernel = _variable(f"{name}/kernel", [x.shape[-1], units])
  return tf.nn.bias_add(x @ kernel, _variable(f"{name}/bias", [units]))


def _unused_half(features):
  """As a mean without its deviation: the second part has no gradient."""
  mean, _ = tf.split(_dense(features["numbers"], 8, "up"), 2, axis=1)
  return mean


def _unused_columns(features):
  """The gradient of the table is of the rows that were looked up."""
  rows = tf.gather(_variable("table", [9, 8]), features["ids"])
  _, used = tf.split(rows, 2, axis=1)
  return used


def _swish(features):
  """TensorFlow's function says what its gradient is, of the whole tensor."""
  return tf.nn.silu(_dense(features["numbers"], 7, "up"))


def _shared_maximum(features):
  """The gradient of a maximum is shared by the zeros of all parts."""
  net = tf.nn.relu(_dense(features["numbers"], 7, "up"))
  return net - 0.5 * tf.reduce_min(net, axis=1, keepdims=True)


def _penalty(features):
  """A gradient is asked for, and its norm is part of the loss."""
  x = features["numbers"]
  net = tf.tanh(_dense(x, 7, "up"))
  (gradient,) = tf.gradients(tf.reduce_sum(net * net), [x])
  return net * tf.reduce_sum(tf.square(gradient), axis=1, keepdims=True)


def _make_model_fn(tower):
  """Returns a model_fn of a tower and one more layer."""

  def model_fn(features, labels, mode, params):
    del params
    logits = _dense(tower(features), _CLASSES, "down")
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = v1.train.MomentumOptimizer(0.2, 0.9)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  return model_fn


class GradientsTest(parameterized.TestCase):
  @parameterized.product(
    tower=(
      _unused_half,
      _unused_columns,
      _swish,
      _shared_maximum,
      _penalty,
    ),
    num_micro_batches=tiers.sample((2, 1)),
  )
  def test_trains_as_the_plain_model(self, tower, num_micro_batches):
    config = estimator_mp.ShardingConfig(
      "model:2",
      num_micro_batches=num_micro_batches,
      split=[("table|up/kernel", "columns"), ("down/kernel", 0)],
    )
    model_fn = _make_model_fn(tower)
    losses, variables = self._train(model_fn, None)
    found, values = self._train(
      estimator_mp.shard_model_fn(model_fn, config), config
    )
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    self.assertCountEqual(values, variables)
    for name, value in variables.items():
      np.testing.assert_allclose(values[name], value, 1e-5, 1e-6, err_msg=name)

  def _train(self, model_fn, config):
    folder = self.create_tempdir().full_path
    losses = runs.train(model_fn, config, {}, folder, 4, _input_fn)
    return losses, runs.variables_of(folder)


if __name__ == "__main__":
  absltest.main()
