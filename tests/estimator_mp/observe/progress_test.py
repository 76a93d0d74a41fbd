"""Progress: lines where there is no terminal, a bar on one, the speed."""

import io
import re
import types
from unittest import mock

from estimator_mp.observe import progress

import tensorflow as tf
from absl.testing import absltest, parameterized


class _Terminal(io.StringIO):
  def isatty(self):
    return True


class _CountLossFetches(progress.ProgressHook):
  """Counts the steps in which it asked for the loss."""

  count = 0

  def before_run(self, run_context):
    arguments = super().before_run(run_context)
    self.count += arguments.fetches is not None
    return arguments


class _SlowSaverHook(tf.estimator.SessionRunHook):
  """Stands for a checkpoint saver that takes its time, by a clock of ours.

  Each look at the clock takes a millisecond.
  """

  def __init__(self):
    self._seconds = 0.0
    self.time = types.SimpleNamespace(monotonic=self._monotonic)

  def _monotonic(self):
    self._seconds += 0.001
    return self._seconds

  def after_run(self, run_context, run_values):
    self._seconds += 0.2


def _train(hooks, steps: int, start: int = 0) -> int:
  """Runs a loop in which the loss of step n is 1 / n; returns its length."""
  with tf.Graph().as_default():
    step = tf.compat.v1.train.create_global_step()
    increment = tf.compat.v1.assign_add(step, 1)
    tf.compat.v1.losses.add_loss(1.0 / tf.cast(increment, tf.float32))
    scaffold = tf.compat.v1.train.Scaffold(
      init_op=tf.compat.v1.assign(step, start)
    )
    creator = tf.compat.v1.train.ChiefSessionCreator(scaffold)
    with tf.compat.v1.train.MonitoredSession(creator, hooks) as session:
      for done in range(steps):
        if session.should_stop():
          return done
        session.run(increment)
  return steps


class LinesTest(parameterized.TestCase):
  def test_first_every_nth_and_last_step(self):
    stream = io.StringIO()
    _train([progress.ProgressHook(25, log_every=10, stream=stream)], 25)
    lines = stream.getvalue().splitlines()
    self.assertEqual(lines[0], "step 1/25, loss 1.0000")
    number = r"\d+\.\d steps/s, \d+:\d\d:\d\d left"
    for line, step, loss in zip(
      lines[1:], (10, 20, 25), ("0.1000", "0.0500", "0.0400"), strict=True
    ):
      self.assertRegex(line, f"^step {step}/25, loss {loss}, {number}$")

  def test_resumed_run_counts_from_its_step(self):
    stream = io.StringIO()
    hook = progress.ProgressHook(105, log_every=100, stream=stream)
    _train([hook], 5, start=100)
    steps = re.findall(r"step (\d+)/105", stream.getvalue())
    self.assertEqual(steps, ["101", "105"])
    self.assertEqual(hook.step, 105)

  def test_loss_is_fetched_only_where_it_is_shown(self):
    counter = _CountLossFetches(25, log_every=10, stream=io.StringIO())
    _train([counter], 25)
    self.assertEqual(counter.count, 4)


class _ClosedPipe(io.StringIO):
  def write(self, text):
    raise BrokenPipeError(32, "Broken pipe")


class ClosedOutputTest(parameterized.TestCase):
  @parameterized.named_parameters(("lines", False), ("bar", True))
  def test_training_ends_after_the_step(self, is_terminal):
    stream = _ClosedPipe()
    stream.isatty = lambda: is_terminal
    hook = progress.ProgressHook(3, 1, stream)
    self.assertIsNone(hook.error)
    self.assertEqual(_train([hook], 3), 1)
    self.assertIsInstance(hook.error, BrokenPipeError)
    self.assertEqual(hook.step, 1)


class SpeedTest(absltest.TestCase):
  def test_time_between_steps_does_not_count(self):
    """Saving and evaluating take place between two steps."""
    hook = progress.ProgressHook(8, log_every=10, stream=io.StringIO())
    saver = _SlowSaverHook()
    with mock.patch.object(progress, "time", saver.time):
      _train([hook, saver], 8)
    self.assertAlmostEqual(hook.steps_per_second, 1 / 0.001)

  def test_no_speed_before_the_third_step(self):
    hook = progress.ProgressHook(2, log_every=10, stream=io.StringIO())
    _train([hook], 2)
    self.assertIsNone(hook.steps_per_second)


class BarTest(absltest.TestCase):
  def test_bar_shows_steps_loss_speed_and_time_left(self):
    terminal = _Terminal()
    hook = progress.ProgressHook(20, log_every=10, stream=terminal)
    _train([hook], 20)
    last = terminal.getvalue().rstrip("\n").split("\r")[-1]
    self.assertRegex(
      last,
      r"^100% \|.*\| 20/20 steps, loss 0\.0500, \d+\.\d steps/s, 0:00:00 left",
    )

  def test_lines_are_written_above_the_bar(self):
    terminal = _Terminal()
    hook = progress.ProgressHook(20, log_every=10, stream=terminal)

    class WriteHook(tf.estimator.SessionRunHook):
      def after_run(self, run_context, run_values):
        if hook.step == 10:
          hook.write("an evaluation")

    _train([hook, WriteHook()], 20)
    self.assertIn("\ran evaluation\n", terminal.getvalue())

  def test_close_ends_the_bar_of_an_interrupted_run(self):
    terminal = _Terminal()
    hook = progress.ProgressHook(20, log_every=10, stream=terminal)
    with self.assertRaises(KeyboardInterrupt):
      _train([hook, _RaiseHook()], 20)
    hook.close()
    written = terminal.getvalue()
    self.assertEndsWith(written, "\n")
    hook.close()
    self.assertEqual(terminal.getvalue(), written)


class _RaiseHook(tf.estimator.SessionRunHook):
  def after_run(self, run_context, run_values):
    raise KeyboardInterrupt


if __name__ == "__main__":
  absltest.main()
