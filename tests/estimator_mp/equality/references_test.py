"""Programs of TensorFlow 1, written after reports of users, equal plain runs.

Their variables are references, their loops `Enter` and `Exit` ops, and hooks
fetch and feed what they find by name. The switch is for a whole process.
"""

import ast
import dataclasses
import functools
import itertools
import logging
import os
import re
import tempfile

import estimator_mp
from compat.contrib import cluster_resolver, tpu
from tests import tiers
from tests.estimator_mp import runs

import numpy as np
import tensorflow.compat.v1 as tf
from absl.testing import absltest, parameterized

tf.disable_v2_behavior()

_RANDOM = np.random.RandomState(0)
_SERIES = _RANDOM.randn(32, 5, 4).astype(np.float32)
_ROWS = _RANDOM.randn(32, 4).astype(np.float32)
_LABELS = _RANDOM.randn(32, 1).astype(np.float32)
_BATCH = 8

_MESHES = {
  "stage_4": {"mesh": "stage:2", "num_micro_batches": 4},
  "data": {"mesh": "data:2"},
  "stage": {"mesh": "stage:2"},
  "model": {"mesh": "model:2"},
}
_IN_SLICES = ["stage_4", "data"]
_KINDS = [(kind,) for kind in (_IN_SLICES[:1] if tiers.FAST else _MESHES)]


def _cases(*values, fast=1):
  """Returns each value with each mesh.

  Args:
    *values: The values.
    fast: How many of them the fast tier has, the last ones, each with one mesh.
  """
  if tiers.FAST:
    return [*zip(values[-fast:], itertools.cycle(_IN_SLICES))]
  return [*itertools.product(values, _MESHES)]


def _start(seed):
  return tf.glorot_uniform_initializer(seed=seed)


def _dense(net, units, name, seed, activation=None):
  return tf.layers.dense(
    net, units, activation, kernel_initializer=_start(seed), name=name
  )


def _spec(mode, net, labels, optimizer=None):
  loss = tf.losses.mean_squared_error(labels, _dense(net, 1, "head", 9))
  optimizer = optimizer or tf.train.GradientDescentOptimizer(0.2)
  train_op = optimizer.minimize(loss, tf.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _data(features=_ROWS, labels=_LABELS):
  data = tf.data.Dataset.from_tensor_slices((features, labels))
  return data.repeat().batch(_BATCH, drop_remainder=False)


class _Fetch(tf.train.SessionRunHook):
  """Fetches a tensor by its name in each step."""

  def __init__(self, name):
    self.found = []
    self._name = name

  def before_run(self, run_context):
    graph = run_context.session.graph
    return tf.train.SessionRunArgs(graph.get_tensor_by_name(self._name))

  def after_run(self, run_context, run_values):
    self.found.append(run_values.results)


class _Feed(tf.train.SessionRunHook):
  """Feeds a tensor in each step: another value than the program's own."""

  def __init__(self, name, values):
    self._name = name
    self._values = iter(values)

  def before_run(self, run_context):
    graph = run_context.session.graph
    tensor = graph.get_tensor_by_name(self._name)
    return tf.train.SessionRunArgs(None, {tensor: next(self._values)})


class _Ask(tf.train.SessionRunHook):
  """Asks for what names stand for, alone, after each step."""

  def __init__(self, *names):
    self.found = []
    self._names = names

  def after_run(self, run_context, run_values):
    self.found.append(run_context.session.run([*self._names]))


class _LookAtLoss(tf.train.SessionRunHook):
  """Asks for the loss alone, after each step."""

  def begin(self):
    self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

  def after_run(self, run_context, run_values):
    run_context.session.run(self._loss)


@dataclasses.dataclass(frozen=True)
class _Run:
  """What training gave.

  Attributes:
    losses: The loss of each step.
    variables: All variables of the last checkpoint.
    shown: The values of the summary "shown", step by step.
  """

  losses: list[float]
  variables: dict[str, np.ndarray]
  shown: list[float]


def _train(model_fn, kind, steps=3, data=_data, hooks=(), **options):
  """Trains a program: plain if `kind` is None, or as one of `_MESHES` says."""
  config = None
  if kind is not None:
    config = estimator_mp.ShardingConfig(**{**_MESHES[kind], **options})
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
  recorder = runs.LossRecorder()
  with tempfile.TemporaryDirectory() as folder:
    estimator = runs.make_estimator(
      model_fn, config, None, folder, save_summary_steps=1
    )
    estimator.train(data, steps=steps, hooks=[recorder, *hooks])
    shown = _summaries(folder, "shown")
    return _Run(recorder.losses, runs.variables_of(folder), shown)


def _summaries(folder, tag):
  (file,) = (x for x in os.listdir(folder) if x.startswith("events."))
  events = tf.train.summary_iterator(os.path.join(folder, file))
  return [
    value.simple_value
    for event in events
    for value in event.summary.value
    if value.tag == tag
  ]


def _assert_equal(test, run, plain):
  np.testing.assert_allclose(run.losses, plain.losses, rtol=1e-5)
  test.assertCountEqual(run.variables, plain.variables)
  for name, value in plain.variables.items():
    np.testing.assert_allclose(
      run.variables[name], value, rtol=1e-5, atol=1e-5, err_msg=name
    )


# Programs that no model of the catalogue is like: see v1_behavior_test.
# Each trains on rows unless it says so.


def averaged(features, labels, mode):
  """Averages of weights, and a copy that starts as a weight does."""
  net = _dense(features, 8, "a", 1, tf.tanh)
  loss = tf.losses.mean_squared_error(labels, _dense(net, 1, "head", 9))
  step = tf.train.get_global_step()
  train_op = tf.train.AdamOptimizer(0.05).minimize(loss, step)
  weights = tf.trainable_variables()
  copy = tf.Variable(
    2.0 * weights[0].initialized_value(), trainable=False, name="copy"
  )
  averages = tf.train.ExponentialMovingAverage(0.5)
  with tf.control_dependencies([train_op]):
    train_op = tf.group(averages.apply(weights), copy.assign_add(weights[0]))
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class _OfReferences(tf.train.Optimizer):
  """An optimizer of a program: what TensorFlow 1 asked of one at first."""

  def __init__(self, rate):
    super().__init__(False, "OfReferences")
    self._rate = rate

  def _create_slots(self, var_list):
    for variable in var_list:
      self._zeros_slot(variable, "m", self._name)

  def _apply_dense(self, grad, var):
    mean = self.get_slot(var, "m")
    mean = mean.assign(0.5 * mean + grad)
    return tf.assign_sub(var, self._rate * mean)

  def _apply_sparse(self, grad, var):
    return tf.scatter_sub(var, grad.indices, self._rate * grad.values)


def looked_up(features, labels, mode):
  """A table, a weight that is used twice, clipping, an optimizer of its own."""
  ids = tf.cast(tf.abs(features) * 10.0, tf.int64) % 7
  table = tf.get_variable("table", [7, 4], initializer=_start(1))
  net = tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)
  weight = tf.get_variable("weight", [4, 4], initializer=_start(2))
  net = tf.matmul(tf.tanh(tf.matmul(net, weight)), weight, transpose_b=True)
  loss = tf.losses.mean_squared_error(labels, _dense(net, 1, "head", 9))
  loss += 0.01 * tf.nn.l2_loss(weight)
  optimizer = _OfReferences(0.1)
  pairs = optimizer.compute_gradients(loss)
  pairs = [
    (g if isinstance(g, tf.IndexedSlices) else tf.clip_by_norm(g, 1.0), v)
    for g, v in pairs
  ]
  train_op = optimizer.apply_gradients(pairs, tf.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def spelled(features, labels, mode):
  """A loss whose own gradient has outputs that nothing reads."""
  logits = _dense(_dense(features, 8, "a", 1, tf.nn.relu), 6, "head", 9)
  size = tf.shape(logits)[0]
  words = tf.cast(tf.abs(labels) * 10.0, tf.int32) % 5 + 1
  loss = tf.reduce_mean(
    tf.nn.ctc_loss_v2(
      tf.tile(words, [1, 2]),
      logits,
      tf.fill([size], 2),
      tf.fill([size], 5),
      logits_time_major=False,
      blank_index=0,
    )
  )
  step = tf.train.get_global_step()
  train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _data_of(model_fn):
  return functools.partial(_data, _SERIES if model_fn is spelled else _ROWS)


@functools.cache
def _plain(model_fn):
  return _train(model_fn, None, data=_data_of(model_fn))


class ProgramsTest(parameterized.TestCase):
  @parameterized.parameters(_cases(averaged, spelled, looked_up))
  def test_equals_the_plain_run(self, model_fn, kind):
    run = _train(model_fn, kind, data=_data_of(model_fn))
    _assert_equal(self, run, _plain(model_fn))


def divergent(features, labels, mode):
  """Something beside the loss, for hooks and summaries."""
  net = features
  for i in range(2):
    net = _dense(net, 64, f"layer_{i}", i, tf.tanh)
  net = _dense(net, 1, "out", 8)
  divergence = tf.reduce_mean(tf.square(net), name="divergence")
  tf.summary.scalar("shown", divergence)
  loss = tf.losses.mean_squared_error(labels, net)
  step = tf.train.get_global_step()
  train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def _divergent_rows(features, labels, mode, use_resource):
  """As `divergent`, of rows of a table, which a step's update changes."""
  ids = tf.cast(tf.abs(features) * 10.0, tf.int64) % 7
  table = tf.get_variable(
    "table", [7, 16], initializer=_start(1), use_resource=use_resource
  )
  rows = tf.identity(tf.nn.embedding_lookup(table, ids), "rows")
  net = tf.reduce_sum(rows, 1)
  divergence = tf.reduce_mean(tf.square(net), name="divergence")
  tf.summary.scalar("shown", divergence)
  net = _dense(_dense(net, 64, "a", 2, tf.tanh), 64, "b", 3, tf.tanh)
  return _spec(mode, net, labels)


def divergent_rows(features, labels, mode):
  return _divergent_rows(features, labels, mode, False)


def divergent_rows_of_a_resource(features, labels, mode):
  return _divergent_rows(features, labels, mode, True)


_STEPS = 6


@functools.cache
def _fetched(kind, name, model_fn=divergent):
  """Returns what a hook fetches by a name in each step, and summaries."""
  hook = _Fetch(name)
  return hook.found, _train(model_fn, kind, _STEPS, hooks=[hook]).shown


class FetchesTest(parameterized.TestCase):
  """What a step fetches has the values from before its update."""

  @parameterized.parameters(
    _cases("divergence:0", "out/BiasAdd:0", "layer_1/Tanh:0", fast=2)
  )
  def test_a_tensor_of_the_forward_pass(self, name, kind):
    found, shown = _fetched(kind, name)
    plain, plain_shown = _fetched(None, name)
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-6)
    self.assertLen(shown, _STEPS)
    np.testing.assert_allclose(shown, plain_shown, rtol=1e-4)

  @parameterized.parameters(
    _cases(
      (divergent_rows, "divergence:0"),
      (divergent_rows_of_a_resource, "divergence:0"),
      (divergent_rows_of_a_resource, "rows:0"),
      (divergent_rows, "rows:0"),
    )
  )
  def test_rows_of_a_table(self, case, kind):
    model_fn, name = case
    found, shown = _fetched(kind, name, model_fn)
    plain, plain_shown = _fetched(None, name, model_fn)
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(shown, plain_shown, rtol=1e-4)

  @parameterized.parameters(_KINDS)
  def test_the_names_of_a_reference_are_its_value(self, kind):
    asks = [_Ask("layer_0/kernel:0", "layer_0/kernel/read:0") for _ in range(2)]
    for kind_of_run, ask in zip((None, kind), asks, strict=True):
      _train(divergent, kind_of_run, hooks=[ask])
    plain, found = (ask.found for ask in asks)
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-6)


def two_losses(features, labels, mode):
  """Averages move with the second loss; nothing of the loss waits for them."""
  net = _dense(features, 8, "a", 1)
  net = tf.layers.batch_normalization(net, training=True, momentum=0.5)
  out = _dense(net, 1, "head", 9)
  one = tf.reduce_mean(tf.abs(out))
  other = tf.reduce_mean(tf.square(labels - out))
  optimizer = tf.train.GradientDescentOptimizer(0.1)
  first = optimizer.minimize(0.0 * one)
  with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    second = optimizer.minimize(other)
  step = tf.train.get_global_step().assign_add(1)
  return tf.estimator.EstimatorSpec(
    mode, loss=other, train_op=tf.group(first, second, step)
  )


class LossTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.parameters(_KINDS)
  def test_fetching_the_loss_updates_nothing(self, kind):
    plain = _train(two_losses, None, hooks=[_LookAtLoss()])
    run = _train(two_losses, kind, hooks=[_LookAtLoss()])
    for name in ("moving_mean", "moving_variance"):
      name = f"batch_normalization/{name}"
      np.testing.assert_allclose(
        run.variables[name], plain.variables[name], rtol=1e-4, atol=1e-6
      )


def fed(features, labels, mode):
  """Settings that hooks change: constants, and placeholders with a value."""
  kept = tf.placeholder_with_default(1.0, [], "kept")
  scale = tf.constant([1.0, 1.0, 1.0, 1.0], name="scale")
  is_training = tf.constant(True, name="is_training")
  net = _dense(features * scale, 8, "a", 1, tf.nn.relu) * kept
  net = _dense(net, 8, "b", 2, tf.nn.relu)
  net = tf.cond(is_training, lambda: net * 0.5, lambda: net)
  return _spec(
    mode,
    net,
    labels,
    tf.train.AdamOptimizer(tf.constant(0.1, name="learning_rate")),
  )


def fed_rows(features, labels, mode):
  """The batch itself can be fed."""
  rows = tf.placeholder_with_default(features, [None, 4], "rows")
  return _spec(mode, _dense(rows, 8, "a", 1, tf.nn.relu), labels)


class FeedsTest(parameterized.TestCase):
  """All that reads what a hook feeds reads the fed value."""

  @parameterized.parameters(
    _cases(
      ("learning_rate:0", [0.0, 0.01, 0.3]),
      ("kept:0", [0.5, 0.25, 2.0]),
      ("scale:0", [[1.0, 2.0, 0.0, 3.0]] * 3),
      ("is_training:0", [True, False, False]),
    )
  )
  def test_a_tensor_that_the_program_named(self, case, kind):
    self._assert_is_fed(fed, kind, *case)

  def _assert_is_fed(self, model_fn, kind, name, values):
    plain = _train(model_fn, None, hooks=[_Feed(name, values)])
    run = _train(model_fn, kind, hooks=[_Feed(name, values)])
    _assert_equal(self, run, plain)
    other = _plain(model_fn).variables["a/kernel"]
    self.assertFalse(np.allclose(other, plain.variables["a/kernel"]))

  @parameterized.parameters(_cases([_ROWS[8:16], _ROWS[3:11], _ROWS[:8]]))
  def test_rows(self, values, kind):
    self._assert_is_fed(fed_rows, kind, "rows:0", values)

  @parameterized.parameters(tiers.sample(_IN_SLICES))
  def test_what_is_computed_in_parts_is_not_fed(self, kind):
    hook = _Feed("b/Relu:0", [np.ones([_BATCH, 8], np.float32)] * 3)
    with self.assertRaisesRegex(ValueError, "b/Relu:0.* may not be fed"):
      _train(fed, kind, hooks=[hook])


def strokes(features, labels, mode):
  """Records of strokes of any number: a reshape of rows of unknown size."""
  net = tf.reshape(features, [-1, tf.shape(features)[1], 3])
  return _of_strokes(net, labels, mode)


def _of_strokes(net, labels, mode):
  for i in range(2):
    net = tf.layers.conv1d(
      net, 8, 3, padding="same", kernel_initializer=_start(i), name=f"c{i}"
    )
  return _spec(mode, tf.reduce_max(tf.nn.relu(net), 1), labels)


def strokes_of_three(features, labels, mode):
  features.set_shape([None, None, 3])
  return strokes(features, labels, mode)


def strokes_of_a_batch(features, labels, mode):
  """The number of strokes is not known, but that of examples is theirs."""
  net = tf.reshape(features, [tf.shape(features)[0], -1, 3])
  return _of_strokes(net, labels, mode)


def strokes_of_eight(features, labels, mode):
  """The size of the batch is a number in model_fn."""
  net = tf.reshape(features, [_BATCH, -1, 3])
  return _of_strokes(net, labels, mode)


def two_kinds_of_strokes(features, labels, mode):
  """Two reshapes of unknown rows are added up."""
  shape = [-1, tf.shape(features)[1], 3]
  net = tf.reshape(features, shape) + tf.tanh(tf.reshape(-features, shape))
  return _of_strokes(net, labels, mode)


def _strokes_data():
  def rows():
    for i in range(64):
      yield _SERIES[i % 32, : i % 3 + 3, :3], _LABELS[i % 32]

  types = tf.float32, tf.float32
  data = tf.data.Dataset.from_generator(rows, types, ([None, None], [1]))
  return data.padded_batch(_BATCH, ([None, None], [1]))


class OnOneDeviceTest(parameterized.TestCase):
  @parameterized.parameters(tiers.sample(reversed(_IN_SLICES)))
  def test_it_is_said_and_can_be_refused(self, kind):
    with self.assertLogs("tensorflow", logging.WARNING) as logs:
      run = _train(strokes, kind, data=_strokes_data)
    _assert_equal(self, run, _train(strokes, None, data=_strokes_data))
    (line,) = (x for x in logs.output if "slices of the batch share" in x)
    self.assertRegex(line, "share 0% .* Reshape .*x.set_shape.*per_example")
    with self.assertRaisesRegex(ValueError, 'fallback="error", but .Reshape'):
      _train(strokes, kind, data=_strokes_data, fallback="error")

  @parameterized.named_parameters(
    ("all_layers", [(".", 0)], True),
    ("none", [("head", 1), (".", 0)], False),
  )
  def test_one_stage_that_has_all_layers_is_said(self, rules, is_said):
    with self.assertLogs("tensorflow", logging.INFO) as logs:
      _train(averaged, "stage", steps=1, placement=rules)
    said = [x for x in logs.output if "stage 0 has all of the model" in x]
    self.assertLen(said, int(is_said))

  @parameterized.parameters(
    (strokes_of_three, "stage_4"), (strokes_of_a_batch, "data")
  )
  def test_known_sizes_are_in_parts(self, model_fn, kind):
    run = _train(model_fn, kind, data=_strokes_data, fallback="error")
    _assert_equal(self, run, _train(strokes, None, data=_strokes_data))

  @parameterized.parameters(
    *tiers.sample(
      [
        (strokes, "per_example", "stage_4"),
        (two_kinds_of_strokes, "per_example", "stage_4"),
        (strokes_of_eight, "static_batch_size", "data"),
      ]
    )
  )
  def test_what_the_warning_says_helps(self, model_fn, option, kind):
    with self.assertLogs("tensorflow", logging.WARNING) as logs:
      plain = _train(model_fn, kind, data=_strokes_data)
    (line,) = (x for x in logs.output if "slices of the batch share" in x)
    said = re.search(rf"\b{option}=(\[[^]]*\]|\d+)", line)
    options = {option: ast.literal_eval(said[1])}
    with self.assertLogs("tensorflow", logging.INFO) as logs:
      run = _train(model_fn, kind, data=_strokes_data, **options)
    self.assertNotIn("slices of the batch share", str(logs.output))
    _assert_equal(self, run, plain)
    _assert_equal(self, run, _train(model_fn, None, data=_strokes_data))

  def test_a_model_that_contradicts_what_is_tried_trains(self):
    def model_fn(features, labels, mode):
      count = tf.range(tf.shape(features)[0]) * tf.constant([3] * _BATCH)
      net = tf.reshape(features, [4, -1, 3]) + tf.zeros([1 + count[0]])
      net = _dense(tf.reshape(net, [-1, 3]), 64, "dense", 1)
      loss = tf.reduce_mean(tf.square(net)) + tf.reduce_mean(labels)
      return _spec(mode, tf.fill([_BATCH, 1], loss), labels)

    with self.assertLogs("tensorflow", logging.WARNING) as logs:
      run = _train(model_fn, "data", data=_strokes_data)
    _assert_equal(self, run, _train(model_fn, None, data=_strokes_data))
    self.assertRegex(str(logs.output), "slices of the batch share .* Reshape")

  @parameterized.parameters("data", "stage")
  def test_a_batch_of_another_size_is_an_error_of_its_step(self, kind):
    def data():
      batches = _strokes_data()
      return batches.take(1).concatenate(
        batches.map(lambda features, labels: (features[:6], labels[:6]))
      )

    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError,
      r"^static_batch_size=8, but (features|labels) has 6 example\(s\); let ",
    ):
      _train(strokes_of_three, kind, data=data, static_batch_size=8)


class OfTpuTest(parameterized.TestCase):
  """Programs with `use_tpu=False`, whose resolver knows no cluster."""

  def _trained(self, config):
    def model_fn(features, labels, mode, params):
      del params
      spec = averaged(features, labels, mode)
      return tpu.TPUEstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op)

    folder = self.create_tempdir().full_path
    estimator = tpu.TPUEstimator(
      model_fn,
      config=tpu.RunConfig(
        cluster=cluster_resolver.TPUClusterResolver(""), model_dir=folder
      ),
      use_tpu=False,
      train_batch_size=_BATCH,
    )
    if config is not None:
      estimator = estimator_mp.shard_estimator(estimator, config)
    recorder = runs.LossRecorder()
    estimator.train(lambda params: _data(), hooks=[recorder], steps=2)
    return _Run(recorder.losses, runs.variables_of(folder), [])

  @parameterized.parameters(_KINDS)
  def test_equals_the_plain_run(self, kind):
    config = estimator_mp.ShardingConfig(**_MESHES[kind])
    _assert_equal(self, self._trained(config), self._trained(None))


if __name__ == "__main__":
  absltest.main()
