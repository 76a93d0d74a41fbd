"""Evaluation and prediction in micro-batches are the plain model's."""

import inspect
import threading

import estimator_mp
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.planning import sharding_plan
from tests import tiers
from tests.estimator_mp import programs, runs
from tests.estimator_mp.models import catalogue, data

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_EVAL, _PREDICT = (
  tf.estimator.ModeKeys.EVAL,
  tf.estimator.ModeKeys.PREDICT,
)
_BATCH = (data.FEATURES, data.LABELS)


class _Graph:
  """A graph that does not train, in a session of its own."""

  def __init__(
    self, model_fn, config, mode, params=None, size=None, batch=_BATCH
  ):
    run_config = tf.estimator.RunConfig(tf_random_seed=7)
    if config is not None:
      run_config = estimator_mp.run_config(config, tf_random_seed=7)
      model_fn = estimator_mp.shard_model_fn(model_fn, config)
    arguments = {"mode": mode, "params": params, "config": run_config}
    takes = inspect.signature(model_fn).parameters
    self._batch = batch
    with tf.Graph().as_default() as self.graph:
      tf.keras.utils.set_random_seed(11)
      v1.set_random_seed(7)
      v1.train.create_global_step()
      self._inputs = tf.nest.map_structure(
        lambda x: v1.placeholder(x.dtype, (size, *x.shape[1:])), batch
      )
      features, labels = self._inputs
      self._spec = model_fn(
        features,
        labels if mode == _EVAL else None,
        **{name: x for name, x in arguments.items() if name in takes},
      )
      self._session = v1.Session(config=run_config.session_config)
      self._session.run(
        [
          v1.global_variables_initializer(),
          v1.local_variables_initializer(),
          v1.tables_initializer(),
        ]
      )

  def run(self, size):
    """Returns what the first examples give: loss and metrics, too."""
    pieces = programs.examples(self._batch, 0, size)
    inputs = (tf.nest.flatten(x) for x in (self._inputs, pieces))
    feed = dict(zip(*inputs, strict=True))
    metrics = self._spec.eval_metric_ops or {}
    found = {"predictions": self._spec.predictions}
    if self._spec.loss is not None:
      found |= {"loss": self._spec.loss}
      found |= {"updates": {name: x[1] for name, x in metrics.items()}}
    values = self._session.run(found, feed)
    values["metrics"] = self._session.run({n: x[0] for n, x in metrics.items()})
    return values

  @property
  def segments(self):
    """What the plan says of slices; None if there are none."""
    return sharding_plan.get_plan(self.graph).segments


def _net(features, units=(8, 8, 8, 8)):
  net = features["x"]
  for i, width in enumerate(units):
    net = v1.layers.dense(net, width, tf.tanh, name=f"layer_{i}")
  return net


def compares_examples(features, labels, mode):
  """What each example is made of is all of them, in many ways."""
  net = _net(features)
  similar = tf.nn.softmax(tf.matmul(net, net, transpose_b=True))
  centered = net - tf.reduce_mean(net, axis=0)
  mean, variance = tf.nn.moments(net, [0])
  normal = tf.nn.batch_normalization(net, mean, variance, None, None, 1e-3)
  by_example = tf.transpose(net)
  size = tf.shape(net)[0]
  predictions = {
    "similar": tf.matmul(similar, net),
    "centered": v1.layers.dense(centered, 2, name="after"),
    "normal": normal,
    "softmax": tf.transpose(tf.nn.softmax(by_example)),
    "running": tf.cumsum(net),
    "reversed": net[::-1],
    "number": tf.range(size),
    "next": tf.gather(net, (tf.range(size) + 1) % size),
    "order": tf.transpose(tf.nn.top_k(by_example, size).indices),
    "rank": tf.argsort(net, axis=0),
    "noise": net + tf.random.normal(tf.shape(net), seed=3),
    "distinct": tf.gather(*tf.unique(tf.reshape(features["item"], [-1]))),
    "paired": tf.reshape(net, [-1, 8]) * tf.cast(size, tf.float32),
    "by_batch_norm": v1.layers.batch_normalization(net, training=True),
    "in_python": tf.reshape(
      tf.numpy_function(lambda x: x - x.mean(0), [net], tf.float32), [-1, 8]
    ),
  }
  if mode == _PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions)
  loss = tf.reduce_mean(tf.math.top_k(tf.norm(net, axis=1), 1).values)
  chances = tf.sigmoid(net[:, :1])
  metrics = {
    "auc": v1.metrics.auc(labels, chances),
    "largest": v1.metrics.mean(tf.reduce_max(net)),
    "per_class": v1.metrics.mean_per_class_accuracy(
      labels, tf.cast(chances > 0.5, tf.int32), 2
    ),
  }
  return tf.estimator.EstimatorSpec(
    mode, predictions, loss, eval_metric_ops=metrics
  )


def by_example(features, labels, mode):
  """Shapes, tables and lookups, each example by itself."""
  words = v1.get_variable("words", [50, 6])
  ids = features["ids"]
  size, length = tf.shape(ids)[0], tf.shape(ids)[1]
  net = tf.reshape(tf.gather(words, tf.reshape(ids, [-1])), [size, length, 6])
  net = tf.concat([net, tf.zeros([size, length, 2])], axis=2)
  cities = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(
      np.array([b"ulm", b"rom"]), np.array([1, 2])
    ),
    0,
  )
  city = tf.one_hot(cities.lookup(features["city"])[:, 0], 3)
  for i in range(4):
    with tf.control_dependencies([tf.debugging.assert_none_equal(size, 0)]):
      pass  # It is made once, of all examples.
    net = v1.layers.dense(net, 8, tf.nn.relu, name=f"layer_{i}")
    net = net / (1e-3 + tf.reduce_sum(net, axis=[1, 2], keepdims=True))
  net = tf.concat([tf.reduce_max(net, axis=1), city], axis=1)
  logits = tf.squeeze(v1.layers.dense(net, 1, name="last"), [-1])
  predictions = {
    "logits": logits,
    "class": tf.where(logits > 0, b"yes", b"no"),
    "constant": tf.constant([1.0, 2.0]),
  }
  if mode == _PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions)
  targets = tf.cast(labels[:, 0], tf.float32)
  loss = v1.losses.sigmoid_cross_entropy(targets, logits)
  return tf.estimator.EstimatorSpec(
    mode,
    predictions,
    loss,
    eval_metric_ops={"mean": v1.metrics.mean(logits, weights=targets)},
  )


class EqualityTest(parameterized.TestCase):
  def _check(self, model_fn, mode, sizes, static=None, params=None, **fields):
    """Compares what a sharded graph gives with what the plain one does."""
    fields = {"mesh": "stage:3", "num_micro_batches": 4} | fields
    config = estimator_mp.ShardingConfig(**fields)
    plain = _Graph(model_fn, None, mode, params, static)
    sharded = _Graph(model_fn, config, mode, params, static)
    for size in sizes:
      with self.subTest(size=size):
        expected, found = plain.run(size), sharded.run(size)
        tf.nest.assert_same_structure(found, expected)
        for value, other in zip(
          tf.nest.flatten(found), tf.nest.flatten(expected), strict=True
        ):
          self.assertEqual(np.shape(value), np.shape(other))
          if np.asarray(other).dtype.kind != "f":
            np.testing.assert_array_equal(value, other)
          else:
            np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6)
    return sharded

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("lstm_predict", "lstm", _PREDICT),
        ("transformer_eval", "transformer", _EVAL),
        ("canned_eval", "canned", _EVAL),
      ]
    )
  )
  def test_models(self, name, mode):
    model = catalogue.PURE_NETWORKS[name]
    self._check(model.model_fn, mode, (24, 23, 3, 1), params=model.params)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("predict", _PREDICT, None, (24, 7, 1)),
        ("eval", _EVAL, None, (24, 7, 1)),
        ("static", _EVAL, 24, (24,)),
        ("uneven", _PREDICT, 10, (10,)),
        ("one", _PREDICT, 1, (1,)),
      ]
    )
  )
  def test_what_compares_examples(self, mode, static, sizes):
    """It is made once, of all examples, and so is what has a state."""
    found = self._check(compares_examples, mode, sizes, static)
    self.assertEqual(found.segments.share_in_parts > 0.3, static != 1)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("predict", _PREDICT, None, (24, 7, 1)),
        ("eval", _EVAL, None, (24, 23, 2)),
        ("static", _EVAL, 24, (24,)),
      ]
    )
  )
  def test_each_example_by_itself(self, mode, static, sizes):
    found = self._check(by_example, mode, sizes, static, fallback="error")
    self.assertGreater(found.segments.share_in_parts, 0.95)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("gpipe", {"schedule": "gpipe"}),
        ("no_schedule", {"schedule": "none"}),
        ("interleaved", {"schedule": "interleaved", "num_virtual_stages": 2}),
        ("a_v", {"schedule": "zbv", "num_virtual_stages": 2}),
        ("auto", {"schedule": "auto", "max_live_micro_batches": 1}),
        ("replicas", {"mesh": "data:2,stage:2"}),
        ("rounds", {"gradient_accumulation_steps": 2}),
        ("parts_of_layers", {"mesh": "stage:2,model:2"}),
      ]
    )
  )
  def test_configurations(self, fields):
    fields = {"mesh": "stage:2"} | fields
    self._check(by_example, _EVAL, (24, 3), **fields)

  @tiers.slow
  def test_estimator(self):
    """An Estimator trains, evaluates and predicts, the last batch short."""
    model = catalogue.PURE_NETWORKS["cnn"]
    config = estimator_mp.ShardingConfig("stage:3", num_micro_batches=4)
    plain, sharded = runs.plain_and_sharded(
      self, model.model_fn, config, model.params, steps=1
    )
    runs.assert_same_serving(self, sharded, plain, rtol=1e-5)


class _Recorder:
  """Says what each stage does when, without a clock.

  Stage 0 does not go on with micro-batch 1 until stage 1 has begun micro-batch
  0: if one stage had to end first, it would wait in vain.
  """

  def __init__(self):
    self.begun = [[], []]
    self.has_met = True
    self._is_begun = threading.Event()

  def layer(self, net, stage):
    def record(rows):
      self.begun[stage].append(int(rows[0, 0]))
      if stage == 1:
        self._is_begun.set()
      elif len(self.begun[0]) == 2:
        self.has_met = self._is_begun.wait(timeout=600)
      return rows

    found = tf.numpy_function(record, [net], net.dtype, name=f"record_{stage}")
    found.set_shape(net.shape)
    return found

  def model_fn(self, features, labels, mode):
    net = features["number"]
    for stage in range(2):
      with estimator_mp.stage(stage):
        scale = v1.get_variable(
          f"scale_{stage}", [1], initializer=v1.ones_initializer()
        )
        net = self.layer(net * scale, stage)
    return tf.estimator.EstimatorSpec(mode, predictions={"net": net})


class OrderTest(absltest.TestCase):
  def test_stages_take_micro_batches_in_their_order(self):
    recorder = _Recorder()
    config = estimator_mp.ShardingConfig(
      "stage:2", num_micro_batches=4, per_example=["^record_"]
    )
    numbers = np.arange(12, dtype=np.float32)[:, np.newaxis]
    batch = ({"number": numbers}, numbers)
    graph = _Graph(recorder.model_fn, config, _PREDICT, batch=batch)
    found = graph.run(12)["predictions"]["net"]
    np.testing.assert_array_equal(found, numbers)
    self.assertTrue(recorder.has_met, "a stage waited for the other's end")
    self.assertEqual(recorder.begun, [[0, 3, 6, 9]] * 2)

  def test_cells_are_planned(self):
    config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=3)
    graph = _Graph(by_example, config, _PREDICT).graph
    plan = sharding_plan.get_plan(graph).pipeline
    (cells,) = plan.cells
    self.assertEqual(
      {(x.stage, x.micro_batch, x.phase) for x in cells.values()},
      {(k, m, Phase.FORWARD) for k in range(2) for m in range(3)},
    )

  def test_one_stage_or_micro_batch_is_the_plain_graph(self):
    for fields in (
      {"mesh": "stage:2"},
      {"mesh": "stage:1", "num_micro_batches": 4},
    ):
      config = estimator_mp.ShardingConfig(**fields)
      self.assertIsNone(_Graph(by_example, config, _PREDICT).segments)


class PerExampleTest(absltest.TestCase):
  def test_unknown_shape(self):
    """Nobody but the user knows that it has examples."""

    def model_fn(features, labels, mode):
      net = tf.numpy_function(
        lambda x: x, [_net(features)], tf.float32, name="f"
      )
      return tf.estimator.EstimatorSpec(mode, predictions={"net": net})

    config = estimator_mp.ShardingConfig(
      "stage:2", num_micro_batches=2, per_example=["^f$"]
    )
    found, expected = (
      _Graph(model_fn, x, _PREDICT).run(5) for x in (config, None)
    )
    # Some processors round products of fewer rows in another way.
    np.testing.assert_allclose(
      found["predictions"]["net"], expected["predictions"]["net"], 0, 1e-6
    )

  def test_options(self):
    for value, said in (
      ("f", "per_example='f' has the wrong type; give a list of strings"),
      (["("], r"per_example has '\(', whose regular expression is malformed"),
    ):
      with self.assertRaisesRegex(ValueError, said):
        estimator_mp.ShardingConfig("stage:2", per_example=value)


if __name__ == "__main__":
  absltest.main()
