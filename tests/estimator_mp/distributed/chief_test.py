"""The chief of a cluster whose other tasks serve in this process, too.

What it gives is what `tf.estimator.train_and_evaluate` gives in one process.
"""

import contextlib
import functools
import json
import os
import random
import tempfile

import estimator_mp
from tests import tiers
from tests.estimator_mp import runs
from tests.estimator_mp.distributed import clusters
from tests.estimator_mp.models import catalogue, data

import numpy as np
import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1
_MODEL = catalogue.NETWORKS["mlp_sgd"]
_STEPS = 4


class _Listener(tf.compat.v1.train.CheckpointSaverListener):
  """Notes when a checkpoint was saved."""

  def __init__(self):
    self.steps = []

  def after_save(self, session, global_step_value):
    del session
    self.steps.append(int(global_step_value))


class _Exporter(tf.estimator.Exporter):
  """Notes what an exporter is told, and what the model then predicts."""

  name = "noting"

  def __init__(self):
    self.told = []

  def export(
    self,
    estimator,
    export_path,
    checkpoint_path,
    eval_result,
    is_the_final_export,
  ):
    del export_path
    step, name = eval_result["global_step"], os.path.basename(checkpoint_path)
    self.told.append((int(step), name, is_the_final_export))
    return runs.predict(estimator)


class _Double(tf.estimator.SessionRunHook):
  """Evaluates other values than those of the checkpoint, as moving averages."""

  def begin(self):
    self._update = [v.assign(2 * v) for v in v1.trainable_variables()]

  def after_create_session(self, session, coord):
    del coord
    session.run(self._update)


class _Losing(tf.estimator.SessionRunHook):
  """Loses a task once, when the last checkpoint is evaluated."""

  def __init__(self):
    self.has_lost = False

  def after_create_session(self, session, coord):
    del coord
    step = session.run(v1.train.get_global_step(session.graph))
    if step == _STEPS and not self.has_lost:
      self.has_lost = True
      raise tf.errors.AbortedError(None, None, "a task has died")


def _serving_input_fn():
  features = {"x": v1.placeholder(tf.float32, [None, 10])}
  return tf.estimator.export.ServingInputReceiver(features, features)


def _input_by_tf_config(job):
  """Reads one part of the data in each task of TF_CONFIG."""
  config = json.loads(os.environ.get("TF_CONFIG", "{}"))
  workers = config.get("cluster", {job: []})[job]
  dataset = data.input_fn().repeat()
  return dataset.shard(len(workers) + 1, 0)


def _estimator(config, model_dir):
  model_fn = _MODEL.model_fn
  if config is not None:
    model_fn = estimator_mp.shard_model_fn(model_fn, config)
  return runs.make_estimator(
    model_fn, config, _MODEL.params, model_dir, save_checkpoints_steps=2
  )


def _run(estimator, exporters=(), eval_hooks=(), input_fn=None):
  """Trains, and evaluates; returns what a program can see of it."""
  recorder, listener = runs.LossRecorder(), _Listener()
  random.seed(11)  # Layers of a plain run draw their seeds from here.
  result = estimator_mp.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(
      input_fn or (lambda: data.input_fn().repeat()),
      max_steps=_STEPS,
      hooks=[recorder],
      saving_listeners=[listener],
    ),
    tf.estimator.EvalSpec(
      data.input_fn,
      steps=None,
      hooks=eval_hooks,
      exporters=exporters,
      start_delay_secs=0,
      throttle_secs=0,
    ),
    trusted_network=True,
    startup_timeout=600,
  )
  return result, recorder.losses, listener.steps


def _exporters():
  return _Exporter(), tf.estimator.FinalExporter("final", _serving_input_fn)


class ChiefTest(absltest.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.cluster = clusters.make_cluster(chief=1, worker=1)
    cls.server = tf.distribute.Server(cls.cluster, "worker", 0)
    with clusters.no_task():
      folder = tempfile.mkdtemp(dir=absltest.get_default_test_tmpdir())
      cls.plain = _estimator(None, folder)
      cls.exporters = _exporters()
      cls.expected = _run(cls.plain, cls.exporters)

  def setUp(self):
    super().setUp()
    stack = contextlib.ExitStack()
    self.addCleanup(stack.close)
    stack.enter_context(clusters.task(self.cluster, "chief"))
    self.config = estimator_mp.ShardingConfig("stage:2", num_micro_batches=5)

  def _estimator(self):
    return _estimator(self.config, self.create_tempdir().full_path)

  def _assert_metrics(self, found, expected):
    self.assertCountEqual(found, expected)
    for name, value in expected.items():
      np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)

  @tiers.slow
  def test_all_is_as_in_one_process_and_the_model_can_be_used_afterwards(self):
    estimator = self._estimator()
    exporters = _exporters()
    (metrics, exports), losses, saved = _run(estimator, exporters)
    expected, plain_losses, plain_saved = self.expected
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    self.assertLen(losses, _STEPS)
    self.assertEqual(saved, plain_saved)
    self.assertEqual(exporters[0].told, self.exporters[0].told)
    self._assert_metrics(metrics, expected[0])
    np.testing.assert_allclose(exports[0], expected[1][0], atol=1e-6)
    self.assertIn(b"saved_model.pb", os.listdir(exports[1]))
    # The other tasks may be gone.
    self.assertEqual(estimator.config.master, "")
    found = estimator.evaluate(data.input_fn)
    self._assert_metrics(found, self.plain.evaluate(data.input_fn))
    np.testing.assert_allclose(
      runs.predict(estimator), runs.predict(self.plain), atol=1e-6
    )

  @tiers.slow
  def test_a_task_lost_in_the_last_evaluation(self):
    losing, exporters = _Losing(), _exporters()
    (metrics, exports), _, _ = _run(self._estimator(), exporters, [losing])
    expected, _, _ = self.expected
    self.assertTrue(losing.has_lost)
    self._assert_metrics(metrics, expected[0])
    self.assertEqual(exporters[0].told, self.exporters[0].told)
    np.testing.assert_allclose(exports[0], expected[1][0], atol=1e-6)

  def test_what_evaluates_writes_not_over_what_trains(self):
    """And an input_fn that reads TF_CONFIG reads all of the input."""
    input_fn = functools.partial(_input_by_tf_config, job="worker")
    _, losses, saved = _run(self._estimator(), (), [_Double()], input_fn)
    np.testing.assert_allclose(losses, self.expected[1], rtol=1e-5)
    self.assertEqual(saved, self.expected[2])

  @tiers.slow
  def test_canned(self):
    column = tf.feature_column.numeric_column("x", [10])

    def losses():
      config = tf.estimator.RunConfig(tf_random_seed=3)
      estimator = tf.estimator.DNNClassifier(
        [16, 8],
        [column],
        model_dir=self.create_tempdir().full_path,
        optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.1),
        config=config,
      )
      if config.cluster_spec:
        estimator_mp.shard_estimator(estimator, self.config)
      return _run(estimator)[1]

    found = losses()
    with clusters.no_task():
      np.testing.assert_allclose(found, losses(), rtol=1e-5)

  def test_refused(self):
    """Before a session is made, and in every task."""
    train_spec = tf.estimator.TrainSpec(data.input_fn, max_steps=_STEPS)
    eval_spec = tf.estimator.EvalSpec(data.input_fn)
    with clusters.no_task():
      alone = estimator_mp.ShardingConfig("stage:2")
      made_before = _estimator(alone, self.create_tempdir().full_path)
    good = self._estimator()
    for arguments, error, text in (
      (
        (self.plain, train_spec, eval_spec),
        ValueError,
        r"of 2 tasks \(chief:1, worker:1\), .*estimator_mp.run_config\(",
      ),
      (
        (made_before, train_spec, eval_spec),
        ValueError,
        "/device:CPU:0, /device:CPU:1, which are not .*; set TF_CONFIG before ",
      ),
      (
        (good, eval_spec, eval_spec),
        TypeError,
        r"^EvalSpec\(.* is not a tf.estimator.TrainSpec; give one",
      ),
      (
        (good, train_spec, eval_spec, True, 0),
        ValueError,
        "^startup_timeout=0 is not a time",
      ),
    ):
      with self.subTest(text), self.assertRaisesRegex(error, text):
        estimator_mp.train_and_evaluate(*arguments)

  def test_a_model_dir_of_each_task(self):
    """An evaluator would wait for checkpoints that nobody writes there."""
    for job in ("chief", "evaluator"):
      with clusters.task(self.cluster, job):
        estimator = _estimator(self.config, None)
        with self.assertRaisesRegex(
          ValueError, f"^{job} 0 .*model_dir={estimator.model_dir}, .* share$"
        ):
          _run(estimator)

  def test_a_model_that_was_sharded_before_there_was_a_cluster(self):
    with clusters.no_task():
      model_fn = estimator_mp.shard_model_fn(_MODEL.model_fn, self.config)
    estimator = runs.make_estimator(
      model_fn, self.config, _MODEL.params, self.create_tempdir().full_path
    )
    with self.assertRaisesRegex(
      ValueError, "over /device:CPU:0, .* set TF_CONFIG before shard_model_fn"
    ):
      _run(estimator)


if __name__ == "__main__":
  absltest.main()
