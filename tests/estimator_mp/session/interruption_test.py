"""Signals in one process; train_command_test sends them to the command."""

import os
import signal
import subprocess
import sys

from estimator_mp.session import interruption as interruption_lib
from tests import tiers
from tests.compat import processes
from tests.estimator_mp import parts, runs

import tensorflow as tf
from absl.testing import absltest, parameterized

_SIGNALS = (("sigint", signal.SIGINT, 130), ("sigterm", signal.SIGTERM, 143))

# A program that never stops on its own, as a very long step does.
_ENDLESS_STEP = """
import time
from estimator_mp.session import interruption
with interruption.Interruption():
  print("ready", flush=True)
  while True:
    time.sleep(1)
"""


def _hook(interruption, number, after_steps):
  return runs.SignalHook(number, after_steps, lambda: interruption.requested)


def _make_estimator(model_dir: str) -> tf.estimator.Estimator:
  def model_fn(features, labels, mode):
    loss = tf.reduce_mean((parts.logits(features) - labels) ** 2)
    return parts.spec(mode, loss)

  return tf.estimator.Estimator(model_fn, model_dir)


def _input_fn():
  numbers = tf.random.stateless_normal([16, 3], seed=[1, 2])
  sums = tf.reduce_sum(numbers, axis=1, keepdims=True)
  examples = tf.data.Dataset.from_tensor_slices((numbers, sums))
  return examples.repeat(8).batch(4)


class TrainingTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.model_dir = self.create_tempdir().full_path
    self.estimator = _make_estimator(self.model_dir)

  def _train_and_evaluate(self, interruption, train_hooks=(), eval_hooks=()):
    train_spec = tf.estimator.TrainSpec(
      _input_fn,
      max_steps=20,
      hooks=[*train_hooks, interruption],
      saving_listeners=[interruption_lib.LeaveAfterSaving(interruption)],
    )
    eval_spec = tf.estimator.EvalSpec(
      _input_fn,
      hooks=[*eval_hooks, interruption_lib.LeaveEvaluation(interruption)],
    )
    tf.estimator.train_and_evaluate(self.estimator, train_spec, eval_spec)

  @parameterized.named_parameters(*_SIGNALS)
  def test_training_stops_after_the_step_and_saves(self, number, exit_code):
    with (
      self.assertLogs("tensorflow.run", "WARNING") as logged,
      interruption_lib.Interruption() as interruption,
    ):
      hook = _hook(interruption, number, after_steps=7)
      with self.assertRaises(interruption_lib.TrainingInterrupted) as caught:
        self._train_and_evaluate(interruption, [hook])
    self.assertEqual(caught.exception.code, exit_code)
    self.assertEqual(hook.steps, 7)
    self.assertEqual(self.estimator.get_variable_value("global_step"), 7)
    (record,) = logged.records
    self.assertEqual(
      record.getMessage(),
      f"{signal.Signals(number).name}: stopping after this step and saving a"
      " checkpoint; a second signal (Ctrl-C) stops at once, without a"
      " checkpoint",
    )
    # It did not wait for an evaluation.
    self.assertFalse(os.path.exists(os.path.join(self.model_dir, "eval")))

  def test_evaluation_is_left(self):
    with interruption_lib.Interruption() as interruption:
      hook = _hook(interruption, signal.SIGINT, after_steps=2)
      with self.assertRaises(interruption_lib.TrainingInterrupted):
        self._train_and_evaluate(interruption, eval_hooks=[hook])
    self.assertEqual(hook.steps, 2)
    self.assertEqual(self.estimator.get_variable_value("global_step"), 20)

  def test_signal_before_the_session(self):
    with interruption_lib.Interruption() as interruption:
      hook = _hook(interruption, signal.SIGINT, after_steps=0)
      hook.send()
      with self.assertRaises(interruption_lib.TrainingInterrupted):
        self._train_and_evaluate(interruption, [hook])
    self.assertEqual(hook.steps, 0)
    self.assertEqual(self.estimator.get_variable_value("global_step"), 0)


class HandlersTest(absltest.TestCase):
  def test_handlers_are_put_back_on_every_exit(self):
    received = []

    def handler(number, frame):
      received.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
      with (
        self.assertRaisesRegex(ValueError, "^of the body$"),
        interruption_lib.Interruption(),
      ):
        self.assertIsNot(signal.getsignal(signal.SIGINT), handler)
        raise ValueError("of the body")
      self.assertIs(signal.getsignal(signal.SIGINT), handler)
      os.kill(os.getpid(), signal.SIGINT)
      self.assertEqual(received, [signal.SIGINT])
      self.assertEqual(signal.set_wakeup_fd(-1), -1)
    finally:
      signal.signal(signal.SIGINT, before)


class SecondSignalTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.named_parameters(tiers.sample(_SIGNALS))
  def test_second_signal_ends_the_process_at_once(self, number, exit_code):
    with subprocess.Popen(
      [sys.executable, "-c", _ENDLESS_STEP],
      env=processes.environment(),
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    ) as process:
      self.assertEqual(process.stdout.readline(), "ready\n")
      process.send_signal(number)
      self.assertIn("stopping after this step", process.stdout.readline())
      self.assertIsNone(process.poll())
      process.send_signal(number)
      output, _ = process.communicate(timeout=600)
    self.assertEqual(process.returncode, exit_code)
    self.assertNotIn("Traceback", output)


if __name__ == "__main__":
  absltest.main()
