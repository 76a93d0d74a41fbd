"""compare: what is equal, what is not and why, and what it will not do."""

import dataclasses
import os

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, runs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_RNG = np.random.RandomState(7)
_X = _RNG.randn(48, 8).astype(np.float32)
_Y = (_X[:, :1] - _X[:, 1:2] > 0).astype(np.float32)
_FOUR = estimator_mp.ShardingConfig("data:2,stage:2", num_micro_batches=2)
_RUN = tf.estimator.RunConfig(tf_random_seed=3)
_TWO = estimator_mp.ShardingConfig("stage:2", num_micro_batches=2)


def _input_fn():
  data = tf.data.Dataset.from_tensor_slices(({"x": _X}, _Y))
  return data.repeat().shuffle(48).batch(16, drop_remainder=True)


def _dense(net, units, name, activation=tf.tanh):
  kernel = v1.get_variable(name, [net.shape[-1], units])
  net = tf.matmul(net, kernel)
  return net if activation is None else activation(net)


def _logits(net):
  return _dense(_dense(net, 16, "first"), 1, "last", None)


def _adam(features, labels, mode, params):
  net = _dense(features["x"], params["units"], "first")
  loss = parts.mean_loss(labels, _dense(net, 1, "last", None))
  return parts.spec(
    mode, loss, v1.train.AdamOptimizer(params["rate"], epsilon=1e-3)
  )


def _dropout(features, labels, mode):
  net = tf.nn.dropout(_dense(features["x"], 16, "first"), 0.5)
  loss = parts.mean_loss(labels, _dense(net, 1, "last", None))
  return parts.spec(mode, loss)


def _batch_norm(features, labels, mode):
  net = _dense(features["x"], 16, "first", None)
  normalise = tf.keras.layers.BatchNormalization(name="norm")
  net = tf.nn.relu(normalise(net[:, None, None], training=True)[:, 0, 0])
  loss = parts.mean_loss(labels, _dense(net, 1, "last", None))
  with tf.control_dependencies(normalise.updates):
    return parts.spec(mode, loss)


def _root(features, labels, mode):
  """The root of a mean is no mean of roots."""
  logits = _logits(features["x"])
  return parts.spec(mode, tf.sqrt(tf.reduce_mean(tf.square(logits - labels))))


def _dead(features, labels, mode):
  """The bias before a softmax adds the same to all logits: no gradient."""
  logits = _dense(_dense(features["x"], 16, "first"), 2, "last", None)
  net = logits + v1.get_variable("bias", [1])
  loss = v1.losses.sparse_softmax_cross_entropy(tf.cast(labels, tf.int32), net)
  return parts.spec(mode, loss, v1.train.AdamOptimizer(0.1, epsilon=1e-12))


def _convolved(features, labels, mode):
  """Biases before batch normalizations: their gradients cancel out."""
  net = tf.reshape(features["x"], [-1, _X.shape[1], 1, 1])
  for i in range(2):
    net = v1.layers.conv2d(net, 8, (3, 1), padding="same", name=f"conv_{i}")
    net = v1.layers.batch_normalization(net, training=True, name=f"norm_{i}")
    net = tf.nn.relu(net)
  loss = parts.mean_loss(labels, _dense(tf.reduce_mean(net, [1, 2]), 1, "last"))
  with tf.control_dependencies(v1.get_collection("update_ops")):
    return parts.spec(mode, loss, v1.train.AdamOptimizer(0.01))


class _Counter(tf.estimator.SessionRunHook):
  """Halves a rate after each step, as a hook that anneals it would."""

  def begin(self):
    (self._rate,) = v1.get_collection("rate")
    self._halve = v1.assign(self._rate, self._rate * 0.5)

  def after_run(self, run_context, run_values):
    run_context.session.run(self._halve)


def _hooked(features, labels, mode):
  """A hook of the spec changes a variable, and the scaffold another."""
  loss = parts.mean_loss(labels, _logits(features["x"]))
  rate = v1.get_variable(
    "rate", [], initializer=v1.constant_initializer(0.5), trainable=False
  )
  v1.add_to_collection("rate", rate)
  last = v1.trainable_variables()[-1]
  new = v1.placeholder(tf.float32, last.shape)
  assign = v1.assign(last, new)

  def init_fn(scaffold, session):
    session.run(assign, {new: np.full(last.shape, 0.25)})

  return parts.spec(
    mode,
    loss,
    v1.train.GradientDescentOptimizer(rate.read_value()),
    scaffold=v1.train.Scaffold(init_fn=init_fn),
    training_hooks=[_Counter()],
  )


class EqualTest(parameterized.TestCase):
  def _assert_equal(self, compared, steps):
    self.assertTrue(compared.ok, compared.text())
    self.assertEqual(compared.reason, "")
    self.assertLen(compared.steps, steps)
    self.assertIn("\nequal: losses, gradient norms and ", compared.text())

  def test_the_facts_are_plain_data(self):
    compared = estimator_mp.compare(
      _adam, _input_fn, _FOUR, params={"units": 16, "rate": 0.01}
    )
    self._assert_equal(compared, 5)
    for number, step in enumerate(compared.steps, start=1):
      self.assertEqual(step.number, number)
      self.assertGreater(step.plain_loss, 0.1)
      self.assertGreater(step.plain_gradient_norm, 1e-3)
      self.assertLess(step.loss_difference, 1e-6)
      self.assertLess(step.gradient_difference, 1e-6)
      self.assertCountEqual(step.gradients, ["first", "last"])
      self.assertCountEqual(
        step.variables,
        [
          *("beta1_power", "beta2_power", "first", "first/Adam"),
          *("first/Adam_1", "global_step", "last", "last/Adam"),
          "last/Adam_1",
        ],
      )
    # The batches are not all the same one.
    self.assertLen({step.plain_loss for step in compared.steps}, 5)
    again = dataclasses.replace(compared, tolerance=0.0)
    self.assertFalse(again.ok)

  def test_the_caller_goes_on_as_before(self):
    np.random.seed(3)
    expected = np.random.rand(2)
    np.random.seed(3)
    before = len(v1.get_default_graph().get_operations())
    estimator_mp.compare(_root, _input_fn, _stages(2), steps=1)
    np.testing.assert_array_equal(np.random.rand(2), expected)
    self.assertLen(v1.get_default_graph().get_operations(), before)

  def test_composite_features(self):
    table = np.arange(96).reshape(48, 2) % 5

    def input_fn(mode, params):
      self.assertEqual((mode, params["size"]), ("train", 16))

      def composite(x, ids, y):
        ragged = tf.RaggedTensor.from_tensor(ids)
        return {"x": x, "s": tf.sparse.from_dense(ids), "r": ragged}, y

      data = tf.data.Dataset.from_tensor_slices((_X, table, _Y))
      return data.repeat().batch(params["size"]).map(composite)

    def model_fn(features, labels, mode, params, config):
      self.assertEqual(config.tf_random_seed, 5)
      weights = v1.get_variable("table", [5, 8])
      net = tf.nn.embedding_lookup_sparse(weights, features["s"], None)
      words = tf.reduce_mean(features["r"].to_tensor(), axis=1, keepdims=True)
      net = features["x"] * tf.cast(words, tf.float32) + tf.reduce_mean(net, 0)
      losses = parts.losses(labels, _logits(net))
      return parts.spec(mode, tf.reduce_mean(losses))

    self._assert_equal(
      estimator_mp.compare(
        model_fn,
        input_fn,
        _stages(2),
        2,
        params={"size": 16},
        run_config=tf.estimator.RunConfig(tf_random_seed=5),
      ),
      2,
    )

  @tiers.slow
  def test_a_canned_estimator(self):
    """Its loss is a sum, which nobody has to say."""
    column = tf.feature_column.numeric_column("x", [8])
    estimator = v1.estimator.DNNClassifier([8], [column])
    self._assert_equal(
      estimator_mp.compare(estimator.model_fn, _input_fn, _TWO, 2), 2
    )

  @tiers.slow
  def test_reference_variables_and_a_saver_of_averages(self):
    """The Scaffold's saver would restore averages into the variables.

    Averages of reference variables that v2 conds initialize read the variables
    before these have a value now and then, in a plain graph too.
    """
    v1.disable_control_flow_v2()
    self.addCleanup(v1.enable_control_flow_v2)

    def model_fn(features, labels, mode):
      with v1.variable_scope("", use_resource=False):
        loss = parts.mean_loss(labels, _logits(features["x"]))
      spec = parts.spec(mode, loss)
      averages = tf.train.ExponentialMovingAverage(0.9)
      with tf.control_dependencies([spec.train_op]):
        train_op = averages.apply(v1.trainable_variables())
      saver = v1.train.Saver(averages.variables_to_restore())
      scaffold = v1.train.Scaffold(saver=saver)
      return spec._replace(train_op=train_op, scaffold=scaffold)

    compared = estimator_mp.compare(
      model_fn, _input_fn, _stages(2), 2, restart_each_step=True
    )
    self._assert_equal(compared, 2)
    self.assertGreater(compared.steps[0].plain_gradient_norm, 0)
    self.assertIn("last/ExponentialMovingAverage", compared.variables())

  def test_features_without_labels_from_tensors(self):
    def input_fn():
      x = v1.train.input_producer(_X, shuffle=False).dequeue_many(12)
      return tf.ensure_shape(x, [12, 8])

    def model_fn(features, mode):
      return parts.spec(mode, tf.reduce_mean(tf.square(_logits(features))))

    self._assert_equal(estimator_mp.compare(model_fn, input_fn, _TWO, 3), 3)

  def test_hooks_and_the_scaffold_do_their_work(self):
    """The rate is halved after each step, so the third step makes 1/4."""
    compared = estimator_mp.compare(_hooked, _input_fn, _stages(2), 3)
    self._assert_equal(compared, 3)
    self.assertIn("rate", compared.steps[0].variables)

  def test_a_model_fn_with_marks(self):
    """Outside of `shard_model_fn` a mark is an error; here it says nothing."""

    def model_fn(features, labels, mode):
      self.assertEqual(estimator_mp.get_mesh().axis_size("stage"), 2)
      with estimator_mp.stage(0):
        net = _dense(features["x"], 16, "first")
      with estimator_mp.stage(1):
        losses = parts.losses(labels, _dense(net, 1, "last", None))
      return parts.spec(mode, tf.reduce_mean(losses))

    self._assert_equal(estimator_mp.compare(model_fn, _input_fn, _TWO, 2), 2)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("uneven", "model:3", False),
        ("stages", "stage:2,model:2", False),
        ("replicas", "model:2,data:2", True),
      ]
    ),
  )
  def test_shards_are_compared_as_whole_variables(self, mesh, restart):
    config = estimator_mp.ShardingConfig(
      mesh, split=[("^first$", 1), ("^last$", 0)], num_micro_batches=2
    )
    compared = estimator_mp.compare(
      _adam,
      _input_fn,
      config,
      3,
      params={"units": 16, "rate": 0.01},
      restart_each_step=restart,
    )
    self._assert_equal(compared, 3)
    step = compared.steps[-1]
    self.assertCountEqual(step.gradients, ["first", "last"])
    self.assertContainsSubset(
      ["first", "first/Adam", "last/Adam_1"], step.variables
    )
    self.assertNotIn("part_", " ".join(step.variables))

  def test_input_that_ends_early(self):
    compared = estimator_mp.compare(
      _root, lambda: _input_fn().take(2), _stages(2), 5
    )
    self._assert_equal(compared, 2)

  def test_a_gradient_that_is_rounding_is_left_out(self):
    compared = estimator_mp.compare(_dead, _input_fn, _FOUR, 2)
    self.assertEqual(
      compared.only_rounding, ("bias", "bias/Adam", "bias/Adam_1")
    )
    self.assertNotIn("bias", compared.steps[0].variables)
    self.assertIn("not compared, as their gradients are zero", compared.text())

  def test_a_sum_that_cancels_out_is_left_out(self):
    for restart in (False, True):
      compared = estimator_mp.compare(
        *(_convolved, _input_fn, _TWO, 3),
        tolerance=1e-4,
        restart_each_step=restart,
      )
      self.assertContainsSubset(
        ("conv_0/bias", "conv_1/bias/Adam"), compared.only_rounding
      )
      self.assertEqual(compared.steps[0].largest() <= 1e-4, True)
      if restart:
        self.assertTrue(compared.ok, compared.text())
      else:  # What the biases' own values change.
        self.assertRegex(compared.reason, "restart_each_step|nearly zero")

  def test_from_a_checkpoint(self):
    folder = self.create_tempdir().full_path
    params = {"units": 16, "rate": 0.01}
    runs.train(_adam, None, params, folder, 3, _input_fn)
    for given in (folder, os.path.join(folder, "model.ckpt-3")):
      compared = estimator_mp.compare(
        _adam, _input_fn, _TWO, 2, params=params, checkpoint=given
      )
      self._assert_equal(compared, 2)
      self.assertEqual(compared.start, given)
    with self.assertRaisesRegex(
      ValueError,
      r"^checkpoint='.*' is not of this model \(.*\); give a checkpoint of",
    ):
      estimator_mp.compare(_hooked, _input_fn, _TWO, checkpoint=folder)


def _stages(number):
  return estimator_mp.ShardingConfig(f"stage:{number}")


class PartingTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        (
          "batch_norm",
          _batch_norm,
          dataclasses.replace(_FOUR, batch_norm="per_micro_batch"),
          "batch_norm='per_micro_batch' normalizes each of 4 slices by its own "
          'moments; use batch_norm="whole"',
        ),
        (
          "compression",
          _root,
          estimator_mp.ShardingConfig("data:2", compression="bfloat16"),
          "compression='bfloat16' does not send all of a gradient; use "
          'compression="none"',
        ),
      ]
    ),
  )
  def test_reason(self, model_fn, config, expected):
    compared = estimator_mp.compare(
      model_fn, _input_fn, config, 2, params={"units": 16, "rate": 0.01}
    )
    self.assertFalse(compared.ok)
    self.assertStartsWith(compared.reason, expected)
    self.assertEqual(compared.parted.number, 1)
    self.assertStartsWith(
      compared.text().splitlines()[-1],
      "not equal: from step 1 on they differ, by ",
    )
    self.assertEndsWith(compared.text(), compared.reason)

  @parameterized.named_parameters(
    tiers.sample([("random", _dropout), ("batch_norm", _batch_norm)])
  )
  def test_slices_are_no_reason(self, model_fn):
    compared = estimator_mp.compare(model_fn, _input_fn, _FOUR, 2)
    self.assertTrue(compared.ok, compared.text())

  def test_draws_are_a_reason_where_they_differ(self):
    def model_fn(features, labels, mode, params):
      net = tf.nn.dropout(_dense(features["x"], 16, "first"), 0.5)
      if params["has_no_seed"]:
        noise = tf.raw_ops.RandomUniform(shape=tf.shape(net), dtype=tf.float32)
        net += tf.identity(noise, "noise")
      net = _dense(net, 16, "second")
      loss = parts.mean_loss(labels, _dense(net, 1, "last", None))
      return parts.spec(mode, loss)

    def compared(config, has_no_seed):
      return estimator_mp.compare(
        *(model_fn, _input_fn, config, 1), params={"has_no_seed": has_no_seed}
      )

    self.assertRegex(
      compared(_TWO, True).reason, r"^random ops \(RandomUniform\) drew other"
    )
    split = estimator_mp.ShardingConfig("model:2", split=[("first", 1)])
    self.assertEqual(compared(split, False).reason, "")

  def test_rounding_that_grows(self):
    """A rate at which training diverges, and steps that begin anew."""

    def model_fn(features, labels, mode):
      net = features["x"]
      for i in range(3):
        net = _dense(net, 16, f"layer_{i}")
      loss = parts.mean_loss(labels, _dense(net, 1, "last", None))
      return parts.spec(mode, loss, v1.train.GradientDescentOptimizer(4.0))

    compared = estimator_mp.compare(model_fn, _input_fn, _TWO, 20)
    self.assertFalse(compared.ok)
    self.assertGreater(compared.parted.number, 1)
    self.assertStartsWith(
      compared.reason,
      "sums in another order round differently, and training amplifies the "
      "difference; compare with restart_each_step, ",
    )
    again = estimator_mp.compare(
      model_fn, _input_fn, _TWO, 3, restart_each_step=True
    )
    self.assertTrue(again.ok, again.text())


class ErrorsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("no_step", {"steps": 0}, "^steps=0 .* from 1 on"),
    ("tolerance", {"tolerance": -1.0}, "^tolerance=-1.0 .* from 0 up to 1"),
    (
      "processes",
      {"config": estimator_mp.ShardingConfig("stage:2", aggregation="horovod")},
      '^aggregation="horovod" .* mesh="data:2"$',
    ),
    (
      "no_batch",
      {"input_fn": lambda: _input_fn().take(0)},
      "^input_fn gave no batch",
    ),
    (
      "no_checkpoint",
      {"checkpoint": "nowhere"},
      "^checkpoint='nowhere' is neither",
    ),
  )
  def test_error(self, arguments, expected):
    given = {"model_fn": _root, "input_fn": _input_fn, "config": _TWO}
    with self.assertRaisesRegex(ValueError, expected):
      estimator_mp.compare(**(given | arguments))

  def test_a_hook_that_stops_at_once_leaves_nothing_to_compare(self):
    class Stop(tf.estimator.SessionRunHook):
      def after_create_session(self, session, coord):
        coord.request_stop()

    def model_fn(features, labels, mode):
      spec = _root(features, labels, mode)
      return spec._replace(training_hooks=[Stop()])

    with self.assertRaisesRegex(ValueError, "^a training hook .* stopped"):
      estimator_mp.compare(model_fn, _input_fn, _stages(2))


if __name__ == "__main__":
  absltest.main()
