"""Ordinary model_fns on a model axis, by their finished graphs.

Variables, and all that is computed of them, are split after model_fn has
returned; the steps of the graph that comes out are the plain graph's.
"""

import functools

import estimator_mp
from estimator_mp import partitioner
from tests import tiers
from tests.estimator_mp import partitioned, parts, programs
from tests.estimator_mp.models import catalogue

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1
_config = functools.partial(estimator_mp.ShardingConfig, draws="whole")
_CONFIGS = {
  "model_2": _config("model:2"),
  "model_3": _config("model:3"),
  "slices": _config("model:2", num_micro_batches=3),
  "stages": _config("stage:2,model:2", num_micro_batches=2),
  "replicas": _config("data:2,model:2"),
}

_TURNS = _config("model:3", num_micro_batches=2, split=[("^table$", "mod")])


_FAST = [
  ("mlp_adam_open_stages", "mlp_adam", "open", "stages"),
  ("cnn_open_model_3", "cnn", "open", "model_3"),
  # Rows of a table by owner, looked up and updated.
  ("words_open_slices", "mean_of_words", "open", "slices"),
  ("embeddings_static_replicas", "clipped_embeddings", "static", "replicas"),
  # An average that a cond begins, of a variable that is split.
  (
    "averages_open_model_2",
    "step_of_one_optimizer_before_another",
    "open",
    "model_2",
  ),
]


class ModelPartitionerTest(parameterized.TestCase):
  @parameterized.named_parameters(
    _FAST if tiers.FAST else catalogue.in_turns(_CONFIGS)
  )
  def test_steps_are_the_plain_graphs(self, name, size, config):
    model = catalogue.MODELS[name]
    losses, variables = partitioned.train(model, size)
    found, found_variables = partitioned.train(model, size, _CONFIGS[config])
    rtol = 1e-4 if "transformer" in name else 2e-5
    np.testing.assert_allclose(found, losses, rtol)
    # A key's bias has no gradient but rounding, which Adam brings to full size.
    but = [name for name in variables if "/key/bias" in name]
    programs.assert_same_variables(self, found_variables, variables, rtol, but)

  def test_rows_by_turns(self):
    """Initial values and what is fetched of a table are whole, too."""

    def model_fn(features, labels, mode):
      table = parts.weight("table", [7, 4])
      net = tf.reduce_mean(tf.nn.embedding_lookup(table, features["ids"]), 1)
      loss = tf.reduce_mean(tf.square(net - labels))
      return parts.spec(mode, loss, _v1.train.AdamOptimizer(0.1))

    ids = np.random.RandomState(0).randint(0, 7, [10, 3]).astype(np.int32)
    batch = {"ids": ids}, np.linspace(0, 1, 10, dtype=np.float32)[:, None]
    plain = programs.Program(model_fn, None, batch)
    sharded = programs.Program(model_fn, _TURNS, batch)
    first = plain.variables()
    programs.assert_same_variables(self, sharded.variables(), first, 0)
    for _ in range(2):
      step, expected = sharded.step(batch), plain.step(batch)
      np.testing.assert_allclose(step.loss, expected.loss, 1e-6)
    programs.assert_same_variables(
      self, step.variables, expected.variables, 1e-5
    )


class SplitTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())

  def _split(self, loss, x, *rules):
    """Trains with a loss; returns what is split of the graph."""
    train_op = _v1.train.AdamOptimizer(0.1).minimize(loss)
    config = _config("model:2", split=rules or "auto")
    made = partitioner.Partitioner(
      parts.inputs(x), [loss, train_op], config, config.create_mesh()
    )
    made.lower()
    return made.plan.splits

  def _weight(self, name, shape):
    return _v1.get_variable(name, shape, use_resource=True)

  def test_slots_are_split_with_their_variable(self):
    x = _v1.placeholder(tf.float32, [None, 4])
    y = tf.matmul(x, self._weight("kernel", [4, 6]))
    plan = self._split(tf.reduce_mean(tf.square(y)), x, ("^kernel$", 1))
    self.assertEqual(
      {found.name: found.sizes for found in plan.variables},
      {name: (3, 3) for name in ("kernel", "kernel/Adam", "kernel/Adam_1")},
    )

  def test_a_softmax_over_classes_sends_no_logits(self):
    x = _v1.placeholder(tf.float32, [None, 4])
    labels = tf.cast(x[:, 0], tf.int32)
    logits = tf.matmul(x, self._weight("kernel", [4, 6]))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    plan = self._split(tf.reduce_mean(losses), x, ("^kernel$", 1))
    kinds = {found.kind for found in plan.sent if found.tensor != x.name}
    self.assertNotIn("gather", kinds)
    self.assertNotIn("slice", kinds)
    self.assertEmpty(plan.gathers)

  def test_what_is_read_in_parts_is_made_in_parts(self):
    """One-hot labels are as wide as logits."""
    x = _v1.placeholder(tf.float32, [None, 4])
    logits = tf.matmul(x, self._weight("kernel", [4, 6]))
    targets = tf.one_hot(tf.cast(x[:, 0], tf.int32), 6, name="targets")
    plan = self._split(
      -tf.reduce_mean(tf.nn.log_softmax(logits) * targets), x, ("^kernel$", 1)
    )
    self.assertEmpty([x for x in plan.sent if x.kind in ("gather", "slice")])

  def test_gradients_of_filters_are_in_parts(self):
    x = _v1.placeholder(tf.float32, [None, 8, 8, 4])
    y = tf.nn.conv2d(x, self._weight("up", [3, 3, 4, 6]), 1, "SAME")
    y = tf.nn.conv2d(y, self._weight("down", [3, 3, 6, 4]), 1, "SAME")
    rules = [("^up$", 3), ("^down$", 2)]
    plan = self._split(tf.reduce_mean(tf.square(y)), x, *rules)
    self.assertEmpty(plan.gathers)
    self.assertEmpty([x for x in plan.sent if x.kind in ("gather", "slice")])

  def test_a_variable_that_no_step_reads_stays_whole(self):
    x = _v1.placeholder(tf.float32, [None, 4])
    self._weight("unused", [4, 6])
    y = tf.matmul(x, self._weight("kernel", [4, 6]))
    plan = self._split(tf.reduce_mean(tf.square(y)), x)
    self.assertIn("kernel", [found.name for found in plan.variables])
    self.assertNotIn("unused", [found.name for found in plan.variables])

  def test_what_cannot_be_split_as_asked_is_an_error(self):
    x = _v1.placeholder(tf.float32, [None, 4])
    kernel = self._weight("kernel", [4, 6])
    y = tf.matmul(x, kernel) + tf.reduce_sum(
      tf.raw_ops.ResourceGatherNd(
        resource=kernel.handle, indices=[[0, 0], [1, 1]], dtype=tf.float32
      )
    )
    loss = tf.reduce_mean(tf.square(y))
    with self.assertRaisesRegex(ValueError, "^kernel cannot be split .* None"):
      self._split(loss, x, ("^kernel$", 0))


if __name__ == "__main__":
  absltest.main()
