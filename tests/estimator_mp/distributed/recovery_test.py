"""Which errors of training are faults of the cluster, and what is done then."""

import math
import os
import sys
import time
from unittest import mock

from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import connections, recovery, status, watch
from tests import tiers
from tests.estimator_mp.distributed import answering, clocks

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

  @tiers.slow
  def test_a_task_that_is_away_is_waited_for(self):
    clock, ask_all = clocks.Clock(), watch.ask_all
    back_at = 0.0

    def fail():
      nonlocal back_at
      back_at = clock.now + 150
      raise _aborted()

    def answers(addresses):
      return ask_all(addresses) if clock.now >= back_at else {}

    with (
      mock.patch.object(recovery, "time", clock),
      mock.patch.object(watch, "ask_all", answers),
    ):
      self.assertEqual(self._run(fail), "trained")
    self.assertEqual(clock.now, back_at)

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
        f"^worker 0 at {self.task.address} has not answered for . s, longer "
        "than lost_after=0.2, and is lost; start the run again when it is "
        "back, or without it, and it goes on from the last checkpoint$",
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

  @tiers.slow
  def test_a_silent_task_is_named_and_so_is_its_return(self):
    clock = clocks.Clock()

    def is_named():
      clock.now += 31
      return logged.records

    with (
      mock.patch.object(watch, "time", clock),
      self.assertLogs(_LOGGER, "WARNING") as logged,
      watch.Watch(self.addresses, 30.0, math.inf),
    ):
      with self.task.stopped():
        self._wait_for(is_named)
      self._wait_for(lambda: "again" in logged.output[-1])
    first, *_, second = (record.getMessage() for record in logged.records)
    name = f"^worker 0 at {self.task.address} "
    self.assertRegex(
      first, name + r"has not answered for \d+ s; the run waits for it$"
    )
    self.assertRegex(second, name + r"answers again, after \d+ s$")

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


if __name__ == "__main__":
  absltest.main()
