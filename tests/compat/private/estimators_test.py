"""The private names of Estimators and Savers that compat uses."""

import contextlib
import functools
import json
import os
from unittest import mock

import compat

compat.install()

from compat.private import estimators  # noqa: E402
from tests import tiers  # noqa: E402
from tests.compat import models  # noqa: E402

import tensorflow as tf  # noqa: E402
from absl.testing import absltest  # noqa: E402

v1 = tf.compat.v1


class PartsTest(absltest.TestCase):
  def test_parts_of_an_estimator(self):
    estimator = models.custom(self.create_tempdir().full_path)
    self.assertIs(estimators.model_fn_of(estimator), models.custom_model_fn)
    config = estimators.run_config_of(estimator)
    self.assertEqual(config.tf_random_seed, 5)
    session_config = v1.ConfigProto(log_device_placement=True)
    estimators.replace_parts(
      estimator, max, config.replace(session_config=session_config)
    )
    self.assertIs(estimators.model_fn_of(estimator), max)
    self.assertEqual(vars(estimator)["_session_config"], session_config)

  def test_use_of_a_tpu(self):
    tpu = models.tpu(self.create_tempdir().full_path)
    self.assertFalse(estimators.uses_tpu(tpu))
    vars(vars(tpu)["_ctx"])["_use_tpu"] = True
    self.assertTrue(estimators.uses_tpu(tpu))
    custom = models.custom(self.create_tempdir().full_path)
    self.assertFalse(estimators.uses_tpu(custom))

  def test_arguments(self):
    def input_fn(mode, input_context=None, *, other=1):
      return mode, input_context, other

    self.assertEqual(
      estimators.arguments_of(input_fn), ("mode", "input_context")
    )
    bound = functools.partial(input_fn, input_context=1)
    self.assertEqual(estimators.arguments_of(bound), ("mode",))


class ForOneTrainingTest(absltest.TestCase):
  def test_hooks_that_save_are_copied_with_their_listeners(self):
    """Each call of `train` adds listeners, and leaves the graph's Saver."""
    listener = v1.train.CheckpointSaverListener()
    saving = v1.train.CheckpointSaverHook(
      self.create_tempdir().full_path, save_steps=1, listeners=[listener]
    )
    other = _LosingHook()
    copied, same = estimators.for_one_training([saving, other])
    self.assertIs(same, other)
    vars(copied)["_listeners"].append(None)
    vars(copied)["_saver"] = "of a graph"
    self.assertEqual(vars(saving)["_listeners"], [listener])
    self.assertIsNone(vars(saving)["_saver"])


class ErrorsEndSessionsTest(absltest.TestCase):
  def _train(self, hook):
    estimator = models.custom(self.create_tempdir().full_path)
    estimator.train(models.input_fn, hooks=[hook], steps=2)

  @tiers.slow
  def test_an_error_of_a_lost_task_leaves_the_session(self):
    for _ in range(2):  # It is undone on an error, too.
      self._train(_LosingHook())
      with (
        self.assertRaises(tf.errors.AbortedError),
        estimators.errors_end_sessions(),
      ):
        self._train(_LosingHook())


class _LosingHook(tf.estimator.SessionRunHook):
  """Loses a task of its cluster in the first step."""

  def __init__(self):
    self._has_lost = False

  def before_run(self, run_context):
    if not self._has_lost:
      self._has_lost = True
      raise tf.errors.AbortedError(None, None, "a task has died")


class InterceptedCallsTest(absltest.TestCase):
  def test_estimators_call_what_they_are_told_to(self):
    seen = []

    def replacement(estimator, mode):
      seen.append((estimator, mode))
      return models.custom_model_fn

    def fails(features, labels, mode):
      raise ArithmeticError(mode)

    owner = v1.estimator.Estimator
    original = vars(owner)["_call_model_fn"]
    estimator = tf.estimator.Estimator(fails)
    with estimators.intercepted_calls(replacement):
      with estimators.intercepted_calls(replacement):
        estimator.train(models.x_input_fn, steps=1)
      estimator.evaluate(models.x_input_fn, steps=1)
    self.assertEqual(seen, [(estimator, "train"), (estimator, "eval")])
    self.assertIs(vars(owner)["_call_model_fn"], original)
    with self.assertRaises(ArithmeticError):
      estimator.train(models.x_input_fn, steps=1)

  def test_the_patch_is_undone_if_a_call_fails(self):
    def replacement(estimator, mode):
      raise ArithmeticError(mode)

    original = vars(v1.estimator.Estimator)["_call_model_fn"]
    estimator = models.custom(self.create_tempdir().full_path)
    with (
      self.assertRaises(ArithmeticError),
      estimators.intercepted_calls(replacement),
    ):
      estimator.train(models.x_input_fn, steps=1)
    self.assertIs(vars(v1.estimator.Estimator)["_call_model_fn"], original)


class EvaluatorTest(absltest.TestCase):
  def test_it_ends_when_it_is_over(self):
    folder, cluster = self.create_tempdir().full_path, {"chief": ["a:1"]}
    task = {"cluster": cluster, "task": {"type": "evaluator", "index": 0}}
    models.custom(folder).train(models.x_input_fn, steps=1)
    with mock.patch.dict(os.environ, TF_CONFIG=json.dumps(task)):
      estimator = models.custom(folder)
    evaluated = estimator.eval_dir()
    seen = []

    def is_over():
      seen.append(tf.io.gfile.exists(evaluated))
      return len(seen) == 3

    estimators.evaluate_until(
      estimator,
      tf.estimator.TrainSpec(models.x_input_fn),
      tf.estimator.EvalSpec(
        models.x_input_fn, steps=1, start_delay_secs=0, throttle_secs=0
      ),
      is_over,
    )
    self.assertEqual(seen, [False, True, True])


class SaverTest(absltest.TestCase):
  def test_something_is_done_around_each_save(self):
    seen = []

    @contextlib.contextmanager
    def act(session, path, step):
      seen.append((session, path, step, tf.train.latest_checkpoint(folder)))
      yield
      seen.append(tf.train.latest_checkpoint(folder))

    folder = self.create_tempdir().full_path
    with tf.Graph().as_default(), v1.Session() as session:
      variable = v1.get_variable("a", [])
      session.run(variable.initializer)
      saver = v1.train.Saver()
      estimators.around_each_save(saver, act)
      path = saver.save(session, f"{folder}/b", global_step=3)
    self.assertEqual(seen, [(session, f"{folder}/b", 3, None), path])


if __name__ == "__main__":
  absltest.main()
