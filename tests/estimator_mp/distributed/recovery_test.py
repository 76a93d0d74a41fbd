"""Which errors of training are faults of the cluster, and what is done then."""

import os
import sys
import time
from unittest import mock

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import (
  connections,
  recovery,
  silence,
  status,
  watch,
)
from tests.estimator_mp.distributed import answering

import tensorflow as tf
from absl.testing import absltest

_WORKER = tasks_lib.Task("worker", 0)
_LOGGER = "tensorflow"


def _aborted():
  return tf.errors.AbortedError(None, None, "the session is not found")


def _uninitialized():
  return tf.errors.FailedPreconditionError(None, None, "uninitialized value")


class RecoveryTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.task = answering.FakeTask()
    self.addCleanup(self.task.close)
    self.addresses = {_WORKER: self.task.address}
    self.calls, self.lost_after = 0, 600.0

  def _run(self, fail, num_faults=1):
    """Runs training that fails some times; returns what it returns."""

    def train(num_before):
      self.assertEqual(num_before, self.calls)
      self.calls += 1
      if self.calls <= num_faults:
        fail()
      return "trained"

    return recovery.run(train, self.addresses, 30.0, self.lost_after)

  def test_what_training_returns(self):
    self.assertEqual(self._run(self.fail, 0), "trained")

  def test_a_task_that_was_started_anew(self):
    """Also if its variables are not initialized when the next step comes."""
    for error in (_aborted(), _uninitialized(), ValueError("no position")):
      with self.subTest(type(error).__name__):
        self.calls = 0

        def fail(error=error):
          self.task.start_anew()
          raise error

        with self.assertLogs(_LOGGER, "WARNING") as logged:
          self.assertEqual(self._run(fail), "trained")
        self.assertEqual(self.calls, 2)
        self.assertEqual(
          [record.getMessage() for record in logged.records],
          [
            f"the run lost worker 0 at {self.task.address} "
            f"({type(error).__name__}); training goes on from the last "
            "checkpoint"
          ],
        )

  def test_who_is_asked_to_stop_waits_for_no_task(self):
    with (
      mock.patch.object(watch, "ask_all", lambda _: {}),
      self.assertRaises(SystemExit),
    ):
      recovery.run(self.fail, self.addresses, 30.0, self.lost_after, sys.exit)

  def test_a_task_that_does_not_come_back_is_lost(self):
    """In 2 s: `lost_after`, and a question that nobody answers."""
    self.lost_after = 0.2

    def fail():
      self.task.close()
      raise _aborted()

    with (
      self.assertLogs(_LOGGER, "WARNING"),
      self.assertRaisesRegex(
        status.LostTaskError,
        f"^worker 0 at {self.task.address} .* longer than lost_after=0.2, ",
      ) as raised,
    ):
      self._run(fail)
    self.assertIsInstance(raised.exception, SystemExit)
    self.assertEqual(raised.exception.code, 138)

  def test_an_error_of_the_program_is_raised(self):
    def fail():
      raise ValueError("the model is wrong")

    with self.assertRaisesRegex(ValueError, "^the model is wrong$"):
      self._run(fail)
    self.assertEqual(self.calls, 1)

  def test_a_connection_that_broke_is_none_of_the_programs(self):
    def fail():
      try:
        raise _aborted()
      except tf.errors.AbortedError as error:
        raise RuntimeError("of a hook") from error

    with self.assertLogs(_LOGGER, "WARNING") as logged:
      self.assertEqual(self._run(fail), "trained")
    self.assertIn("a connection between tasks broke", logged.output[0])

  def test_an_error_that_comes_again_and_again_is_raised(self):
    def fail():
      raise _aborted()

    with self.assertRaises(tf.errors.AbortedError):
      self._run(fail, 100)
    self.assertEqual(self.calls, 4)


class WatchTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.task = answering.FakeTask()
    self.addCleanup(self.task.close)
    self.addresses = {_WORKER: self.task.address}

  def test_a_call_of_tensorflow_that_waits_for_a_lost_task_ends_the_process(
    self,
  ):
    with (
      mock.patch.object(watch, "_GRACE_SECONDS", 0.01),
      mock.patch.object(os, "_exit") as ended,
      self.assertLogs(_LOGGER, "WARNING"),
      watch.Watch(self.addresses, 30.0, 0.2) as watching,
    ):
      watching.check_none_is_lost()
      self.task.close()
      self._wait_for(lambda: ended.called)
      ended.assert_called_once_with(138)
      with self.assertRaises(status.LostTaskError):
        watching.check_none_is_lost()

  def test_a_step_that_waits_for_a_dead_process_is_ended(self):
    ask = status.Probe.ask
    with (
      mock.patch.object(watch, "_PAUSE_SECONDS", 0.01),
      mock.patch.object(watch, "_GRACE_SECONDS", 0.01),
      mock.patch.object(connections, "shut_down") as shut_down,
      mock.patch.object(
        status.Probe, "ask", autospec=True, side_effect=ask
      ) as asked,
      watch.Watch(self.addresses, 30.0, 600.0) as watching,
    ):
      watching.begin(watch.ask_all(self.addresses))
      before = asked.call_count
      # When it asks again, it has done all that follows from the answer before.
      self._wait_for(lambda: asked.call_count >= before + 2)
      shut_down.assert_not_called()
      self.task.start_anew()
      self._wait_for(lambda: shut_down.called)
      shut_down.assert_called_with(self.task.address)
      self.assertEqual(watching.lost(), (_WORKER,))
      watching.end()

  def _wait_for(self, condition):
    end = time.monotonic() + 60
    while not condition():
      self.assertLess(time.monotonic(), end)
      time.sleep(0.05)


_SILENT = "worker 0 at a:1"
_WAITED = "the run waits for it"
_LOST = (
  "worker 0 at a:1 has not answered for 151 s, longer than lost_after=150, and "
  "is lost; start the run again when it is back, or without it, and it goes on "
  "from the last checkpoint"
)


class SilenceTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.silent = silence.Silence(_SILENT, 30.0, 150.0, 1000.0)

  def _said(self, is_refused, last=200):
    """Returns what is said in a silence, by second."""
    seconds = range(1, last)
    found = {x: self.silent.miss(1000.0 + x, is_refused) for x in seconds}
    return {x: text for x, text in found.items() if text is not None}

  def _waits(self, *seconds):
    return {
      x: f"{_SILENT} has not answered for {x} s; {_WAITED}" for x in seconds
    }

  def test_one_that_is_silent_is_named_each_minute_until_it_is_lost(self):
    self.assertEqual(self._said(False), self._waits(31, 91) | {151: _LOST})
    self.assertTrue(self.silent.is_lost)

  def test_one_that_is_not_there_yet_is_named_after_10_seconds(self):
    expected = self._waits(11, 71, 131) | {151: _LOST}
    self.assertEqual(self._said(True), expected)

  def test_one_that_refuses_connections_is_named_at_once(self):
    self.silent.hear(1000.0)
    self.assertEqual(self._said(True), self._waits(4, 64, 124) | {151: _LOST})

  def test_one_that_is_lost_stays_lost(self):
    self._said(True)
    self.assertIsNone(self.silent.hear(1300.0))
    self.assertTrue(self.silent.is_lost)

  def test_another_sign_of_life_is_as_good_as_an_answer(self):
    self._said(False, 70)
    self.silent.forgive(1070.0)
    self.assertIsNone(self.silent.miss(1100.0, is_refused=False))
    self.assertIsNone(self.silent.hear(1101.0))

  def test_the_return_of_one_that_was_named(self):
    self.assertIsNone(self.silent.hear(1010.0))
    self._said(False, 70)
    self.assertEqual(
      self.silent.hear(1070.0), f"{_SILENT} answers again, after 60 s"
    )
    self.assertIsNone(self.silent.hear(1071.0))
    self.assertIsNone(self.silent.miss(1100.0, is_refused=False))
    self.assertFalse(self.silent.is_lost)


if __name__ == "__main__":
  absltest.main()
