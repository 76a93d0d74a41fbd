"""Tests of shard_estimator, and of training graphs that nobody sharded."""

import os
import pickle
import random
import shutil

import estimator_mp
from compat.private import estimators
from estimator_mp import toolbox
from tests import tiers
from tests.compat import models
from tests.estimator_mp import runs
from tests.estimator_mp.models import catalogue, data, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

CONFIG = estimator_mp.ShardingConfig("stage:2")
MODEL = catalogue.MODELS["mlp_momentum"]


def model_fn(features, labels, mode):
  return networks.mlp(features, labels, mode, MODEL.params)


def _two_optimizers(model_dir):
  """Returns a DNNLinearCombinedClassifier on feature columns."""
  x, buckets, colour, *rest = models.columns()
  return tf.estimator.DNNLinearCombinedClassifier(
    linear_feature_columns=[buckets],
    dnn_feature_columns=[x, colour, *rest],
    dnn_hidden_units=[8, 4],
    config=_run_config(model_dir),
  )


def _of_version_1(model_dir):
  """Returns a DNNClassifier of tf.compat.v1, whose loss is a sum."""
  return v1.estimator.DNNClassifier(
    [8, 4], models.columns(), config=_run_config(model_dir)
  )


def _run_config(model_dir, **kwargs):
  return tf.estimator.RunConfig(
    model_dir, tf_random_seed=5, checkpoint_save_graph_def=False, **kwargs
  )


_ESTIMATORS = models.MODELS | {
  "two_optimizers": models.Model(
    _two_optimizers, models.input_fn, "probabilities", lambda: None
  ),
  "of_version_1": models.Model(
    _of_version_1, models.input_fn, "probabilities", lambda: None
  ),
}


class Hiding(tf.estimator.Estimator):
  """An Estimator that makes its model_fn itself, and holds on to itself."""

  def __init__(self, units, model_dir, config):
    self.calls = []

    def own_model_fn(features, labels, mode):
      self.calls.append(mode)
      net = features["x"]
      for size in units:
        net = v1.layers.dense(net, size, tf.nn.relu)
      logits = v1.layers.dense(net, 1)
      return networks.spec(mode, logits, labels, MODEL.params["train"])

    super().__init__(own_model_fn, model_dir, config)


class Searching(tf.estimator.Estimator):
  """Makes an Estimator for whatever it does, as AdaNet's do."""

  def __init__(self, config, inner_model_fn=model_fn, inner_config=None):
    self._inner_model_fn = inner_model_fn
    self._inner_config = inner_config
    super().__init__(model_fn, config=config)

  def _assert_members_are_not_overridden(self):
    pass

  def _make(self):
    config = self._inner_config or self.config
    return tf.estimator.Estimator(
      self._inner_model_fn, self.model_dir, config.replace()
    )

  def train(self, input_fn, hooks=None, steps=None, **kwargs):
    self._make().train(input_fn, hooks, steps)
    return self

  def evaluate(self, input_fn, steps=None, **kwargs):
    return self._make().evaluate(input_fn, steps)

  def predict(self, input_fn, **kwargs):
    yield from self._make().predict(input_fn)


def _repeated(input_fn):
  # A TPUEstimator passes params.
  return lambda params=None: input_fn().repeat()


def _train(estimator, input_fn, steps=3):
  """Returns the losses, and what each device ran."""
  recorder = runs.LossRecorder()
  observer = toolbox.PlacementVerificationHook()
  estimator.train(_repeated(input_fn), [recorder, observer], steps)
  return recorder.losses, observer.observed


class ShardEstimatorTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    random.seed(5)  # Layers of a plain run draw their seeds from here.

  @parameterized.named_parameters(
    (name, name)
    for name in tiers.sample(sorted(_ESTIMATORS, key="custom".__ne__))
  )
  def test_equals_the_plain_estimator(self, name):
    model = _ESTIMATORS[name]
    folder = self.create_tempdir().full_path
    start, plain_dir, model_dir = (
      os.path.join(folder, x) for x in ("start", "plain", "sharded")
    )
    model.make(start).train(_repeated(model.input_fn), steps=2)
    shutil.copytree(start, plain_dir)
    shutil.copytree(start, model_dir)
    plain = model.make(plain_dir)
    expected, _ = _train(plain, model.input_fn)
    given = model.make(model_dir)
    estimator = estimator_mp.shard_estimator(given, CONFIG)
    self.assertIs(estimator, given)
    losses, observed = _train(estimator, model.input_fn)
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    for device in CONFIG.create_mesh().devices:
      self.assertNotEmpty(observed[device].variables, device)
    found = runs.variables_of(model_dir)
    for variable, value in runs.variables_of(plain_dir).items():
      if isinstance(value, bytes):  # Names of layers, numbered by process.
        self.assertIsInstance(found[variable], bytes)
        continue
      np.testing.assert_allclose(
        found[variable], value, rtol=1e-5, atol=1e-7, err_msg=variable
      )
    metrics = estimator.evaluate(model.input_fn, steps=2)
    for key, value in plain.evaluate(model.input_fn, steps=2).items():
      np.testing.assert_allclose(metrics[key], value, rtol=1e-5, err_msg=key)
    np.testing.assert_allclose(
      model.predict(estimator), model.predict(plain), rtol=1e-5
    )

  def test_a_subclass_that_hides_its_model_fn(self):
    folder = self.create_tempdir().full_path
    start = os.path.join(folder, "start")
    Hiding([8, 4], start, _run_config(None)).train(data.input_fn, steps=1)
    results = []
    for name in ("plain", "sharded"):
      model_dir = os.path.join(folder, name)
      shutil.copytree(start, model_dir)
      estimator = Hiding([8, 4], model_dir, _run_config(None))
      if name == "sharded":
        estimator_mp.shard_estimator(estimator, CONFIG)
      losses, observed = _train(estimator, data.input_fn)
      results.append(losses)
    self.assertEqual(results[1], results[0])
    self.assertEqual(estimator.calls, [networks.TRAIN])
    self.assertIn("/device:CPU:1", observed)

  @tiers.slow
  def test_estimators_that_an_estimator_makes_are_sharded_too(self):
    config = _run_config(self.create_tempdir().full_path)
    estimator = estimator_mp.shard_estimator(Searching(config), CONFIG)
    losses, observed = _train(estimator, data.input_fn)
    self.assertLen(losses, 3)
    for device in CONFIG.create_mesh().devices:
      self.assertNotEmpty(observed[device].variables, device)
    # A plain one, from the same checkpoint.
    plain = Searching(_run_config(estimator.model_dir))
    self.assertEqual(
      estimator.evaluate(data.input_fn), plain.evaluate(data.input_fn)
    )
    np.testing.assert_array_equal(runs.predict(estimator), runs.predict(plain))
    # Others, meanwhile, are left alone.
    predictions = estimator.predict(data.input_fn)
    next(predictions)
    other = tf.estimator.Estimator(model_fn, config=_run_config(None))
    _, observed = _train(other, data.input_fn)
    self.assertNotIn("/device:CPU:1", observed)
    next(predictions)

  def test_an_inner_estimator_with_a_config_of_its_own_is_an_error(self):
    estimator = estimator_mp.shard_estimator(
      Searching(_run_config(None), inner_config=tf.estimator.RunConfig()),
      CONFIG,
    )
    with self.assertRaisesRegex(
      ValueError, "mesh stage:2 uses /device:CPU:1, but the session has 1 CPU"
    ):
      estimator.train(data.input_fn, steps=1)

  @parameterized.named_parameters(
    ("placement", "stage:2", {"placement": [("^next", 1), (".", 0)]}),
    ("split", "model:2", {"split": [("^next/kernel", 0), ("kernel", 0)]}),
  )
  def test_a_rule_may_be_for_another_graph_of_several(self, mesh, options):
    """The rule that an error advised stopped the next iteration of AdaNet."""
    config = estimator_mp.ShardingConfig(mesh, **options)
    estimator = estimator_mp.shard_estimator(
      Searching(_run_config(None)), config
    )
    with self.assertLogs("tensorflow", "WARNING") as logs:
      estimator.train(data.input_fn, steps=1)
    self.assertIn("matches no variable", "".join(logs.output))
    plain = estimator_mp.shard_estimator(
      tf.estimator.Estimator(model_fn, config=_run_config(None)), config
    )
    with self.assertRaisesRegex(ValueError, "matches no variable"):
      plain.train(data.input_fn, steps=1)

  def test_metrics_added_to_a_sharded_estimator(self):
    estimator = estimator_mp.shard_estimator(
      tf.estimator.Estimator(model_fn, config=_run_config(None)), CONFIG
    )

    def metric(predictions):
      mean = tf.keras.metrics.Mean()
      mean.update_state(predictions["logits"])
      return {"mean_logit": mean}

    added = tf.estimator.add_metrics(estimator, metric)
    _, observed = _train(added, data.input_fn)
    self.assertIn("/device:CPU:1", observed)
    self.assertIn("mean_logit", added.evaluate(data.input_fn))

  def test_an_estimator_with_added_metrics(self):
    added = tf.estimator.add_metrics(
      tf.estimator.Estimator(model_fn, config=_run_config(None)), lambda: {}
    )
    _, observed = _train(
      estimator_mp.shard_estimator(added, CONFIG), data.input_fn
    )
    self.assertIn("/device:CPU:1", observed)

  def test_keeps_the_rest_of_the_run_config(self):
    session_config = v1.ConfigProto(log_device_placement=True)
    given = _run_config(
      self.create_tempdir().full_path,
      save_summary_steps=7,
      save_checkpoints_steps=3,
      keep_checkpoint_max=2,
      session_config=session_config,
    )
    plain = tf.estimator.Estimator(
      networks.mlp,
      config=given,
      params=MODEL.params,
      warm_start_from="somewhere",
    )
    before = dict(vars(plain))
    estimator = estimator_mp.shard_estimator(plain, CONFIG)
    made = estimator.config
    self.assertIsInstance(made, tf.estimator.RunConfig)
    self.assertEqual(made.save_summary_steps, 7)
    self.assertEqual(made.save_checkpoints_steps, 3)
    self.assertEqual(made.keep_checkpoint_max, 2)
    self.assertEqual(made.tf_random_seed, 5)
    self.assertEqual(made.model_dir, given.model_dir)
    expected = estimator_mp.run_config(CONFIG, session_config=session_config)
    self.assertEqual(made.session_config, expected.session_config)
    self.assertTrue(made.session_config.log_device_placement)
    self.assertFalse(given.session_config.use_per_session_threads)
    for name in ("_params", "_model_dir", "_warm_start_settings"):
      self.assertIs(vars(estimator)[name], before[name])
    copied = pickle.loads(pickle.dumps(made.replace(model_dir="there")))
    self.assertIs(type(copied), type(made))
    self.assertEqual(copied.model_dir, "there")

  @parameterized.named_parameters(
    (
      "no_estimator",
      lambda: model_fn,
      "^estimator=<function model_fn at .*> is not an Estimator; give one, ",
    ),
    (
      "twice",
      lambda: estimator_mp.shard_estimator(
        tf.estimator.Estimator(model_fn), CONFIG
      ),
      "^the EstimatorV2 is sharded already; shard it once, or make a new one$",
    ),
    (
      "strategy",
      lambda: tf.estimator.Estimator(
        model_fn,
        config=tf.estimator.RunConfig(
          train_distribute=tf.distribute.MirroredStrategy(["/cpu:0"])
        ),
      ),
      "has train_distribute=MirroredStrategy, .* as mesh stage:2 does; leave ",
    ),
    (
      "other_mesh",
      lambda: tf.estimator.Estimator(
        model_fn,
        config=estimator_mp.run_config(estimator_mp.ShardingConfig("stage:3")),
      ),
      "run_config for mesh stage:3, but it is to be sharded over mesh stage:2;",
    ),
    (
      "devices",
      lambda: tf.estimator.Estimator(
        model_fn,
        config=tf.estimator.RunConfig(
          session_config=v1.ConfigProto(device_count={"CPU": 1})
        ),
      ),
      "session_config has device_count={'CPU': 1}, but mesh stage:2 needs 2; l",
    ),
  )
  def test_errors(self, make, message):
    with self.assertRaisesRegex(ValueError, message):
      estimator_mp.shard_estimator(make(), CONFIG)

  def test_what_trains_without_gradients_is_an_error(self):
    estimator = estimator_mp.shard_estimator(
      tf.estimator.Estimator(
        lambda features, labels, mode: tf.estimator.EstimatorSpec(
          mode,
          loss=tf.reduce_mean(features["x"]),
          train_op=v1.assign_add(v1.train.get_global_step(), 1),
        )
      ),
      CONFIG,
    )
    with self.assertRaisesRegex(ValueError, "computed no gradients in the"):
      estimator.train(data.input_fn, steps=1)


class NeverShardedTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("plain", lambda config: tf.estimator.Estimator(model_fn, config=config)),
    (
      "canned",
      lambda config: tf.estimator.LinearRegressor(
        [tf.feature_column.numeric_column("x", [10])], config=config
      ),
    ),
    ("inner", Searching),
    (
      "tpu",
      lambda config: v1.estimator.tpu.TPUEstimator(
        lambda features, labels, mode, params: model_fn(features, labels, mode),
        config=estimator_mp.run_config(
          CONFIG, tpu_config=v1.estimator.tpu.TPUConfig()
        ),
        use_tpu=False,
        train_batch_size=25,
        eval_batch_size=25,
        predict_batch_size=25,
      ),
    ),
  )
  def test_is_an_error_when_training_begins(self, make):
    estimator = make(estimator_mp.run_config(CONFIG))
    with self.assertRaisesRegex(
      ValueError,
      "for mesh stage:2, but the training graph was never sharded; give the Es",
    ):
      estimator.train(_repeated(data.input_fn), steps=1)
    self.assertIsNone(estimator.latest_checkpoint())

  def test_a_model_fn_that_is_set_but_not_used_is_an_error(self):
    estimator = Searching(estimator_mp.run_config(CONFIG))
    sharded = estimator_mp.shard_model_fn(model_fn, CONFIG)
    estimators.replace_parts(estimator, sharded, estimator.config)
    with self.assertRaisesRegex(ValueError, "training graph was never sharded"):
      estimator.train(data.input_fn, steps=1)

  def test_an_inner_estimator_with_a_sharded_model_fn_trains(self):
    estimator = Searching(
      estimator_mp.run_config(CONFIG),
      estimator_mp.shard_model_fn(model_fn, CONFIG),
    )
    _, observed = _train(estimator, data.input_fn)
    self.assertIn("/device:CPU:1", observed)

  def test_evaluation_and_prediction_may_be_plain(self):
    model_dir = self.create_tempdir().full_path
    plain = tf.estimator.Estimator(model_fn, config=_run_config(model_dir))
    plain.train(data.input_fn, steps=1)
    estimator = tf.estimator.Estimator(
      model_fn, config=estimator_mp.run_config(CONFIG, model_dir)
    )
    self.assertIn("loss", estimator.evaluate(data.input_fn))
    self.assertLen(runs.predict(estimator), data.EXAMPLES)

  def test_a_mesh_by_hand_is_no_error(self):
    mesh = CONFIG.create_mesh()

    def marked(features, labels, mode):
      with mesh.stage(1):
        return model_fn(features, labels, mode)

    estimator = tf.estimator.Estimator(
      marked, config=estimator_mp.run_config(CONFIG)
    )
    _, observed = _train(estimator, data.input_fn)
    self.assertIn("/device:CPU:1", observed)

  def test_micro_batches_are_not_by_hand(self):
    config = estimator_mp.ShardingConfig("stage:1", num_micro_batches=2)
    estimator = tf.estimator.Estimator(
      model_fn, config=estimator_mp.run_config(config)
    )
    with self.assertRaisesRegex(
      ValueError, "for mesh stage:1, but the trainin"
    ):
      estimator.train(data.input_fn, steps=1)

  def test_a_config_may_be_read_and_copied_anywhere(self):
    made = estimator_mp.run_config(CONFIG)
    with tf.Graph().as_default():
      v1.losses.add_loss(tf.constant(1.0))
      copied = made.replace(model_dir="somewhere")
      tf.estimator.Estimator(model_fn, config=copied)
    self.assertTrue(copied.checkpoint_save_graph_def)

    def reading(features, labels, mode, config):
      spec = model_fn(features, labels, mode)
      v1.losses.add_loss(spec.loss)
      self.assertTrue(config.checkpoint_save_graph_def)
      return spec

    estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(reading, CONFIG), config=made
    )
    estimator.train(data.input_fn, steps=1)


if __name__ == "__main__":
  absltest.main()
