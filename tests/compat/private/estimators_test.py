"""The private names of Estimators and Savers that compat uses."""

import functools

import compat

compat.install()

from compat.private import estimators  # noqa: E402
from tests.compat import models  # noqa: E402

import tensorflow as tf  # noqa: E402
from absl.testing import absltest  # noqa: E402

v1 = tf.compat.v1


class PartsTest(absltest.TestCase):
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
    other = tf.estimator.SessionRunHook()
    copied, same = estimators.for_one_training([saving, other])
    self.assertIs(same, other)
    vars(copied)["_listeners"].append(None)
    vars(copied)["_saver"] = "of a graph"
    self.assertEqual(vars(saving)["_listeners"], [listener])
    self.assertIsNone(vars(saving)["_saver"])


class _LosingHook(tf.estimator.SessionRunHook):
  """Loses a task of its cluster in the first step."""

  has_lost = False

  def before_run(self, run_context):
    if not self.has_lost:
      self.has_lost = True
      raise tf.errors.AbortedError(None, None, "a task has died")


class ErrorsEndSessionsTest(absltest.TestCase):
  def _run(self):
    with tf.Graph().as_default():
      step = v1.train.create_global_step()
      with v1.train.MonitoredSession(hooks=[_LosingHook()]) as session:
        session.run(step)

  def test_an_error_of_a_lost_task_leaves_the_session(self):
    for _ in range(2):  # It is undone on an error, too.
      self._run()
      with (
        self.assertRaises(tf.errors.AbortedError),
        estimators.errors_end_sessions(),
      ):
        self._run()


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


if __name__ == "__main__":
  absltest.main()
