"""Tests that batches which wait on their devices train as the plain ones do."""

import os
import random
import threading
import time

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, runs
from tests.estimator_mp.models import catalogue, data, networks, registry

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
Config = estimator_mp.ShardingConfig


def batches():
  """Two epochs of 60 examples in batches of 25, so that short ones end them."""
  dataset = tf.data.Dataset.from_tensor_slices((data.FEATURES, data.LABELS))
  dataset = dataset.shuffle(32, seed=4).batch(25)
  return dataset.repeat(2)


def of_a_known_size():
  return batches().unbatch().batch(20, drop_remainder=True)


def of_an_iterator():
  """As programs of TensorFlow 1 wrote it, with ops of its own behind it."""
  features, labels = v1.data.make_one_shot_iterator(batches()).get_next()
  features["x"] = tf.clip_by_value(features["x"], -1.5, 1.5)
  v1.summary.scalar("mean_x", tf.reduce_mean(features["x"]))
  return features, labels


def nested():
  """Dense, sparse and ragged features, and no labels."""

  def make(features, labels):
    ids = features["ids"]
    return {
      "dense": {"x": features["x"], "y": labels},
      "sparse": tf.sparse.from_dense(tf.where(ids % 3 == 0, ids, 0)),
      "ragged": tf.RaggedTensor.from_tensor(ids, padding=7),
    }

  return batches().map(make)


def nested_model_fn(features, mode):
  """A model of two stages that reads its inputs in both, some in a v1 cond."""
  table = v1.get_variable("table", [50, 8], use_resource=True)
  sparse = tf.nn.safe_embedding_lookup_sparse(table, features["sparse"])
  ragged = tf.cast(features["ragged"].row_lengths(), tf.float32)[:, None]
  net = v1.layers.dense(features["dense"]["x"], 8, tf.nn.relu, name="one")
  net = v1.layers.dense(net + sparse + ragged, 8, tf.nn.relu, name="two")
  logits = v1.layers.dense(net, 1, name="three")
  with tf.control_dependencies([features["dense"]["y"]]):
    labels = tf.cast(tf.identity(features["dense"]["y"]), tf.float32)
  loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
  return parts.spec(mode, loss, v1.train.AdagradOptimizer(0.1))


def branching_model_fn(features, labels, mode):
  """Its branch and its loop, of TensorFlow 1, read features."""
  x = features["x"]
  net = v1.cond(
    tf.reduce_mean(x) > 0,
    lambda: v1.layers.dense(x, 8, name="one"),
    lambda: v1.layers.dense(-x, 8, name="other"),
  )
  net = v1.while_loop(
    lambda i, _: i < 3,
    lambda i, y: (i + 1, y + tf.reduce_mean(x, 1, keepdims=True)),
    (0, net),
    back_prop=True,
  )[1]
  logits = v1.layers.dense(net, 1, name="last")
  optimizer = v1.train.GradientDescentOptimizer(0.1)
  return networks.spec(mode, logits, labels, networks.minimize(optimizer))


class _Spy(tf.estimator.SessionRunHook):
  """Runs a tensor of the model that reads features alone, now and then."""

  def __init__(self, name):
    self._name = name
    self.values = []

  def after_run(self, run_context, run_values):
    if len(self.values) < 2:
      self.values.append(run_context.session.run(self._name).sum())


class PrefetchingTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.plain = {}

  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir()

  def _estimator(self, model_fn, params, config, name, **run_config):
    if config is not None:
      model_fn = estimator_mp.shard_model_fn(model_fn, config)
    path = os.path.join(self.folder.full_path, name)
    return runs.make_estimator(model_fn, config, params, path, **run_config)

  def _train(
    self, config, name, input_fn=batches, model="mlp_adam", hooks=(), **run
  ):
    """Trains to the end of the data; returns the losses and variables."""
    model = catalogue.NETWORKS[model] if isinstance(model, str) else model
    estimator = self._estimator(
      model.model_fn, model.params, config, name, **run
    )
    recorder = runs.LossRecorder()
    random.seed(11)  # Layers of a plain run draw their seeds from here.
    estimator.train(input_fn, [recorder, *hooks])
    return recorder.losses, runs.variables_of(estimator.model_dir), estimator

  def _assert_same(self, found, expected, rtol=0.0):
    np.testing.assert_allclose(found[0], expected[0], rtol=rtol)
    self.assertCountEqual(found[1], expected[1])
    for name, value in expected[1].items():
      np.testing.assert_allclose(
        found[1][name], value, rtol=rtol, atol=rtol, err_msg=name
      )

  def _assert_as_now(self, options, num_steps, **train):
    """Asserts that batches may wait; returns the run whose batches do."""
    expected, found = (
      self._train(Config(prefetch_inputs=x, **options), f"ahead_{x}", **train)
      for x in (False, True)
    )
    self.assertLen(found[0], num_steps)
    self._assert_same(found, expected)
    return found

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("one_device", "mlp_adam", {"mesh": "stage:1"}),
        (
          "more_slices_than_rows",
          "mlp_adam",
          {"mesh": "stage:2", "num_micro_batches": 12},
        ),
        (
          "replicas",
          "deepfm",
          {"mesh": "data:2,stage:2", "num_micro_batches": 2},
        ),
        (
          "rounds",
          "mlp_adam",
          {
            "mesh": "stage:2,model:2",
            "num_micro_batches": 2,
            "gradient_accumulation_steps": 2,
            "schedule": "gpipe",
            "recompute": "always",
          },
        ),
      ]
    )
  )
  def test_training_is_the_same(self, model, options):
    """To the last bit that of the sharded run; and that of the plain one."""
    if model not in self.plain:
      self.plain[model] = self._train(None, "plain", model=model)
    found = self._assert_as_now(options, 6, model=model)
    self._assert_same(found, self.plain[model], rtol=2e-4)

  @parameterized.named_parameters(
    tiers.sample(
      [
        ("of_an_iterator", of_an_iterator, catalogue.NETWORKS["mlp_adam"]),
        ("known_size", of_a_known_size, catalogue.NETWORKS["mlp_adam"]),
        ("nested", nested, registry.Model(nested_model_fn, ())),
        ("branches", batches, registry.Model(branching_model_fn, ())),
        # Its first state has as many rows as what it is made of.
        ("lstm", batches, catalogue.NETWORKS["lstm"]),
      ]
    )
  )
  def test_inputs(self, input_fn, model):
    options = {"mesh": "data:2,stage:2", "num_micro_batches": 2}
    self._assert_as_now(options, 6, input_fn=input_fn, model=model)

  @tiers.slow
  def test_a_run_of_a_part_takes_a_whole_batch(self):
    """As without it, where one op gives features and labels."""
    spies = _Spy("dense_1/Relu:0"), _Spy("dense_1/Relu:0")
    expected = self._train(Config("stage:2"), "now", hooks=spies[:1])
    config = Config("stage:2", prefetch_inputs=True)
    found = self._train(config, "ahead", hooks=spies[1:])
    self.assertLen(found[0], 4)
    self.assertEqual(spies[0].values, spies[1].values)
    self._assert_same(found, expected)
    # Evaluation and prediction are as they were.
    ahead, now = found[2], expected[2]
    self.assertEqual(ahead.evaluate(batches), now.evaluate(batches))
    np.testing.assert_array_equal(
      *(runs.predict(x, batches) for x in (ahead, now))
    )

  @tiers.slow
  def test_a_session_that_makes_itself_anew(self):
    self._assert_as_now(
      {"mesh": "stage:2"},
      3 + 6,
      hooks=[runs.LosingHook(3)],
      save_checkpoints_steps=2,
    )

  @tiers.slow
  def test_batches_before_a_broken_one_are_trained_on(self):
    def broken():
      def check(features, labels):
        ids = tf.debugging.assert_less(features["ids"], 50 - 1, "too large")
        with tf.control_dependencies([ids]):
          return features, tf.identity(labels)

      first, last = batches().take(4), batches().map(check)
      return first.concatenate(last)

    losses = []
    for ahead in (False, True):
      config = Config("stage:2", num_micro_batches=2, prefetch_inputs=ahead)
      model = catalogue.NETWORKS["mlp_adam"]
      estimator = self._estimator(
        model.model_fn, model.params, config, f"broken_{ahead}"
      )
      recorder = runs.LossRecorder()
      with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "too large"):
        estimator.train(broken, [recorder])
      losses.append(recorder.losses)
    self.assertLen(losses[0], 4)
    self.assertEqual(*losses)

  def test_the_thread_ends_with_its_session(self):
    model = catalogue.NETWORKS["mlp_adam"]
    config = Config("stage:2", prefetch_inputs=True)
    estimator = self._estimator(model.model_fn, model.params, config, "thread")
    estimator.train(lambda: batches().repeat(), steps=2)
    deadline = time.monotonic() + 60
    while any(x.name == "prefetch" for x in threading.enumerate()):
      self.assertLess(time.monotonic(), deadline)
      time.sleep(0.05)


def of_queues():
  return v1.estimator.inputs.numpy_input_fn(
    {"x": data.FEATURES["x"]}, data.LABELS, 20, shuffle=False
  )()


def with_noise():
  features, labels = of_an_iterator()
  noise = tf.random.normal(tf.shape(features["x"]), seed=3)
  return {"x": features["x"] + noise}, labels


def with_the_step():
  features, labels = of_an_iterator()
  step = tf.cast(v1.train.get_global_step(), tf.float32)
  return {"x": features["x"] * step}, labels


def with_a_variable():
  scale = v1.get_variable(
    "scale", [], trainable=False, use_resource=True, initializer=None
  )
  return batches().map(lambda x, y: ({"x": x["x"] * scale}, y))


class RefusalsTest(parameterized.TestCase):
  def _train(self, input_fn=batches, hooks=(), model="mlp_adam", **run_config):
    config = Config("stage:2", prefetch_inputs=True)
    model = catalogue.NETWORKS[model]
    estimator = runs.make_estimator(
      estimator_mp.shard_model_fn(model.model_fn, config),
      config,
      model.params,
      self.create_tempdir().full_path,
      **run_config,
    )
    estimator.train(input_fn, hooks, steps=2)

  @parameterized.named_parameters(
    ("queues", of_queues, "features and labels are not from tf.data"),
    ("noise", with_noise, r"random_normal/\w+ \(RandomStandardNormal\)"),
    ("the_step", with_the_step, r"\(ReadVariableOp\)"),
    ("a_variable", with_a_variable, r"scale \(VarHandleOp\)"),
  )
  def test_an_input_that_depends_on_when_it_is_read(self, input_fn, words):
    with self.assertRaisesRegex(ValueError, f"prefetch_inputs=True .*{words}"):
      self._train(input_fn)

  def test_a_position_that_is_saved(self):
    with self.assertRaisesRegex(ValueError, "save_input_position=True would"):
      self._train(save_input_position=True)
    hook = estimator_mp.toolbox.InputPositionHook(self.create_tempdir())
    with self.assertRaisesRegex(ValueError, "saves would be too far"):
      self._train(hooks=[hook])

  def test_a_hook_that_reads_what_input_fn_made(self):
    """It would take a batch that the model never sees."""
    hook = tf.estimator.LoggingTensorHook(["IteratorGetNext:0"], 1)
    with self.assertRaisesRegex(
      tf.errors.InvalidArgumentError, "would run an op of the input itself"
    ):
      self._train(hooks=[hook])


if __name__ == "__main__":
  absltest.main()
