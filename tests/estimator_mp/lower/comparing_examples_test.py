"""Losses that compare examples with each other: equal, or an error."""

import estimator_mp
from estimator_mp import toolbox
from tests import tiers
from tests.estimator_mp import batch_models, programs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _model(loss_of, units=1):
  """What a loss is made of: examples, each with some numbers, and labels."""

  def model_fn(features, labels, mode):
    net = tf.tanh(tf.matmul(features["x"], v1.get_variable("first", [10, 8])))
    net = tf.matmul(net, v1.get_variable("last", [8, units]))
    return batch_models.spec(mode, loss_of(net, tf.reshape(labels, [-1])))

  return model_fn


def _losses(net, labels):
  return tf.nn.sigmoid_cross_entropy_with_logits(labels, net[:, 0])


def _share(losses, part):
  return tf.cast(tf.cast(tf.size(losses), tf.float32) * part, tf.int32)


def _hard_examples(net, labels):
  """Online hard example mining (Shrivastava et al., 2016)."""
  losses = _losses(net, labels)
  count = tf.maximum(_share(losses, 0.7), 1)
  hardest = tf.nn.top_k(losses, count).values
  return tf.reduce_sum(hardest) / tf.cast(count, tf.float32)


def _hard_examples_of_heads(net, labels):
  losses = tf.concat([_losses(net, labels), _losses(2 * net, labels)], 0)
  count = _share(losses, 0.2)
  hardest = tf.nn.top_k(losses, count).values
  return tf.reduce_sum(hardest) / tf.cast(count, tf.float32)


def _by_rank(net, labels):
  losses = tf.sort(_losses(net, labels))
  return tf.reduce_mean(losses * tf.linspace(0.0, 1.0, tf.size(losses)))


def _softmax_over_examples(net, labels):
  losses = _losses(net, labels)
  weights = tf.nn.softmax(net, axis=0)[:, 0]
  return tf.reduce_sum(losses * weights)


def _running_sum(net, labels):
  return tf.reduce_mean(tf.cumsum(_losses(net, labels)))


def _halves(net, labels):
  del labels
  good, bad = tf.split(net, 2)
  return tf.reduce_mean(tf.nn.relu(1.0 + bad - good))


def _thirds(net, labels):
  """A triplet loss (Schroff et al., 2015) of three blocks of examples."""
  del labels
  anchor, same, other = tf.split(net, 3)
  near = tf.reduce_sum(tf.square(anchor - same), 1)
  far = tf.reduce_sum(tf.square(anchor - other), 1)
  return tf.reduce_mean(tf.nn.relu(1.0 + near - far))


def _parts_of_sizes(net, labels):
  half = tf.shape(net)[0] // 2
  good, bad = tf.split(net, [half, half])
  del labels
  return tf.reduce_mean(tf.nn.relu(1.0 + bad - good))


def _rows_of_halves(net, labels):
  del labels
  good, bad = tf.unstack(tf.reshape(net, [2, -1]))
  return tf.reduce_mean(tf.nn.relu(1.0 + bad - good))


_REFUSED = {
  "hard_examples": (_hard_examples, "TopKV2"),
  "hard_examples_of_heads": (_hard_examples_of_heads, "TopKV2"),
  "by_rank": (_by_rank, "TopKV2"),
  "softmax": (_softmax_over_examples, "Softmax"),
  "running_sum": (_running_sum, "Cumsum"),
  "halves": (_halves, "Split"),
  "thirds": (_thirds, "Split"),
  "parts_of_sizes": (_parts_of_sizes, "SplitV"),
  "rows_of_halves": (_rows_of_halves, "Reshape"),
}


def _neighbours(net, labels):
  """Pairs that come one after the other."""
  del labels
  pairs = tf.reshape(net, [-1, 2])
  return tf.reduce_mean(tf.nn.relu(1.0 + pairs[:, 1] - pairs[:, 0]))


def _two_inputs(net, labels):
  """One tower for two inputs, which then come apart."""
  del labels
  both = tf.tanh(tf.concat([net, 2.0 * net], 0))
  first, second = tf.split(both, 2)
  third, fourth = tf.unstack(tf.reshape(both, [2, -1, 4]))
  return tf.reduce_mean(tf.square(first - 3.0 * second) + third * fourth)


def _along_features(net, labels):
  """Whatever else works along an axis."""
  best = tf.nn.top_k(net, 2).values
  parts = tf.split(tf.nn.softmax(net), 2, axis=1)
  sums = tf.cumsum(net, 1)[:, 2] + parts[0][:, 0] * parts[1][:, 1]
  return tf.reduce_mean(tf.square(best[:, 1] - labels) + sums)


def _by_numbers(net, labels):
  """The examples' own numbers: of rows, and of the first entries of them."""
  size = tf.shape(net)[0]
  choice = tf.cast(labels > 0.5, tf.int32)
  chosen = tf.gather_nd(net, tf.stack([tf.range(size), choice], 1))
  starts = tf.cumsum(tf.fill([size], 4), exclusive=True)
  flat = tf.gather(tf.reshape(net, [-1]), starts + choice)
  return tf.reduce_mean(tf.square(chosen - labels) + tf.square(flat))


def _towers(net, labels):
  """Parts of a batch as hand-written replicas have them."""
  pairs = zip(tf.split(net, 2), tf.split(labels, 2), strict=True)
  return tf.add_n([tf.reduce_mean(_losses(*pair)) for pair in pairs]) / 2.0


_EQUAL = {
  "neighbours": _neighbours,
  "two_inputs": _two_inputs,
  "along_features": _along_features,
  "by_numbers": _by_numbers,
}


def _config(mesh="stage:2", **fields):
  return estimator_mp.ShardingConfig(mesh, num_micro_batches=4, **fields)


class ComparingExamplesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self._batch = programs.examples(batch_models.BATCH, 0, 24)

  def _gradients(self, model_fn, config, is_static=False):
    """Those of the plain model, and those of the sharded one."""
    plain = programs.Program(model_fn, None, self._batch)
    program = programs.Program(model_fn, config, self._batch, None, is_static)
    program.load(plain.variables())
    found, expected = program.step(self._batch), plain.step(self._batch)
    return found.gradients, expected.gradients

  def _assert_equal(self, model_fn, config, is_static=False):
    found, expected = self._gradients(model_fn, config, is_static)
    programs.assert_same_gradients(self, found, expected, [expected], 1e-5)

  @parameterized.named_parameters(
    tiers.thin([(name, *case) for name, case in _REFUSED.items()])
  )
  def test_what_is_refused(self, loss_of, named):
    model_fn = _model(loss_of)
    with self.assertRaisesRegex(
      ValueError,
      rf"\({named}, shape .*\) compares the examples of a slice of the batch "
      r"with each other; join what it reads by \S+whole_batch",
    ):
      programs.Program(model_fn, _config(), self._batch)
    config = _config(loss_reduction="mean")
    found, expected = self._gradients(model_fn, config)
    self.assertTrue(
      any(
        np.abs(found[name] - value).max() > 1e-3 * np.abs(value).max()
        for name, value in expected.items()
      )
    )

  @parameterized.named_parameters(*_EQUAL.items())
  def test_what_is_equal(self, loss_of):
    self._assert_equal(_model(loss_of, 4), _config())

  def test_of_the_whole_batch(self):
    """As the error says."""

    def loss_of(net, labels):
      whole = toolbox.whole_batch
      return _hard_examples(whole(net), whole(labels))

    self._assert_equal(_model(loss_of), _config())

  def test_towers_are_a_mean_if_one_says_so(self):
    with self.assertRaisesRegex(ValueError, r"\(Split, .*loss_reduction="):
      programs.Program(_model(_towers), _config(), self._batch)
    self._assert_equal(_model(_towers), _config(loss_reduction="mean"))

  def test_size_that_the_graph_knows(self):
    """It says which axis of a reshaped tensor has the examples."""

    def loss_of(net, labels):
      size = net.shape[0] or 24
      blocks = tf.reshape(net, [size, 2, 2])
      return tf.reduce_mean(tf.square(blocks[:, 0, 1] - labels))

    self._assert_equal(_model(loss_of, 4), _config(), is_static=True)

  def test_summary(self):
    """What is no loss is computed again, of all examples."""

    def model_fn(features, labels, mode):
      net = tf.matmul(features["x"], v1.get_variable("last", [10, 1]))
      losses = _losses(net, tf.reshape(labels, [-1]))
      v1.summary.scalar("hardest", tf.reduce_sum(tf.nn.top_k(losses, 3).values))
      return batch_models.spec(mode, tf.reduce_mean(losses))

    plain = programs.Program(model_fn, None, self._batch)
    program = programs.Program(model_fn, _config("stage:1"), self._batch)
    program.load(plain.variables())
    values = []
    for one in (plain, program):
      op = one.graph.get_operation_by_name("hardest")
      values.append(one.run(op.inputs[1], self._batch))
    np.testing.assert_allclose(values[1], values[0], rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
