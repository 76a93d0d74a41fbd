"""Loops and conds that slices of the batch run each for itself, or once."""

from estimator_mp import ShardingConfig
from estimator_mp.comparison import inspect_model
from tests.estimator_mp import parts

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _recurrent(step, x):
  """A recurrent layer over time, whose state is that of each example."""
  kernel = parts.weight("kernel", [4, 4])
  length = tf.shape(x)[1]
  words = tf.TensorArray(tf.float32, length).unstack(tf.transpose(x, [1, 0, 2]))
  start = tf.zeros([tf.shape(x)[0], 4])

  def body(time, state):
    return time + 1, step(tf.matmul(words.read(time) + state, kernel))

  return tf.while_loop(lambda time, _: time < length, body, [0, start])[1]


def _scan_over_examples(x):
  net = x[:, 0] @ parts.weight("kernel", [4, 4])
  return tf.scan(lambda total, row: total + row, net)


def _as_long_as_any_example_wants(x):
  kernel = parts.weight("kernel", [4, 4])
  return tf.while_loop(
    lambda net: tf.reduce_any(net > 0.1),
    lambda net: tf.matmul(net, kernel),
    [x[:, 0]],
  )[0]


def _cond(otherwise, x):
  is_first = tf.equal(v1.train.get_global_step(), 0)
  net = tf.matmul(x[:, 0], parts.weight("kernel", [4, 4]))
  return tf.cond(is_first, lambda: tf.nn.relu(net), lambda: otherwise(net))


_FUNCTIONS = {
  "recurrent": (lambda x: _recurrent(tf.tanh, x), True),
  "recurrent_over_examples": (
    lambda x: _recurrent(lambda net: net - tf.reduce_mean(net, 0), x),
    False,
  ),
  "recurrent_that_draws": (
    lambda x: _recurrent(lambda net: net + tf.random.normal([4]), x),
    False,
  ),
  "scan_over_examples": (_scan_over_examples, False),
  "as_long_as_any_example_wants": (_as_long_as_any_example_wants, False),
  "cond": (lambda x: _cond(lambda net: net * 2.0, x), True),
  "cond_over_examples": (
    lambda x: _cond(lambda net: tf.nn.softmax(net, 0), x),
    False,
  ),
}


class FunctionsTest(parameterized.TestCase):
  @parameterized.product(name=[*_FUNCTIONS], size=[8, None])
  def test_in_parts_or_once(self, name, size):
    make, in_parts = _FUNCTIONS[name]

    def model_fn(features, labels, mode):
      del labels
      net = make(features)
      return parts.spec(mode, tf.reduce_mean(tf.square(net)))

    found = inspect_model.inspect_model_fn(
      model_fn,
      tf.TensorSpec([size, 3, 4]),
      None,
      ShardingConfig("stage:1", num_micro_batches=2),
    )
    self.assertEqual(not found.segments.once, in_parts, found.segments.once)


if __name__ == "__main__":
  absltest.main()
