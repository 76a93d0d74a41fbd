"""Processes that are killed and stopped: the losses of a calm run."""

import contextlib
import os
import signal
import time

import estimator_mp  # noqa: F401
from tests import tiers
from tests.estimator_mp.distributed import clusters
from tests.estimator_mp.distributed import recorded_program as program

import tensorflow as tf
from absl.testing import absltest

_PROGRAM = "tests.estimator_mp.distributed.recorded_program"
_TASKS = (("chief", 0), ("worker", 0), ("worker", 1))
_STEPS = 120
# The steps after which something happens.
_HOLDS = (17, 40, 57)
_SECONDS = 600.0


@tiers.slow
class FaultsTest(absltest.TestCase):
  def _start(self, job, index):
    holds = {program.HOLDS: ",".join(map(str, _HOLDS))}
    return self.processes.start(
      job, index, _PROGRAM, self.model_dir, str(_STEPS), **holds
    )

  def _wait_until(self, is_so):
    end = time.monotonic() + _SECONDS
    while not is_so():
      self.assertLess(time.monotonic(), end, self.processes.output("chief"))
      time.sleep(0.02)

  @contextlib.contextmanager
  def _after(self, step):
    """Waits until a step has been done; then the run waits for the body."""
    self._wait_until(lambda: self._found() and self._found()[-1][0] >= step)
    yield
    program.go_on(self.model_dir, step)

  def _wait_until_said(self, words):
    self._wait_until(lambda: words in self.processes.output("chief"))

  def _found(self):
    return program.read(self.model_dir)

  def _kill(self, process):
    process.send_signal(signal.SIGKILL)
    process.wait()

  def test_a_run_outlives_its_tasks(self):
    """A stage killed, a stage stopped, and the chief killed, in one run."""
    self.model_dir = os.path.join(self.create_tempdir().full_path, "faults")
    cluster = clusters.make_cluster(chief=1, worker=2)
    with clusters.Processes(cluster) as self.processes:
      running = {task: self._start(*task) for task in _TASKS}
      with self._after(17):
        self._kill(running["worker", 0])
        running["worker", 0] = self._start("worker", 0)
      with self._after(40):
        running["worker", 1].send_signal(signal.SIGSTOP)
      stopped = f"worker 1 at {cluster['worker'][1]}"
      self._wait_until_said(f"{stopped} has not answered")
      running["worker", 1].send_signal(signal.SIGCONT)
      with self._after(57):
        self._wait_until_said(f"{stopped} answers again")
        first_output = self.processes.output("chief")
        self._kill(running["chief", 0])
      running["chief", 0] = self._start("chief", 0)
      for job, index in _TASKS:
        code = self.processes.wait(job, index)
        self.assertEqual(code, 0, self.processes.output(job, index))
    self.assertRegex(
      first_output,
      f"the run lost worker 0 at {cluster['worker'][0]} .*; training goes on "
      "from the last checkpoint",
    )
    program.assert_calm(self, self.model_dir, _STEPS)
    newest = tf.train.latest_checkpoint(self.model_dir)
    self.assertEqual(tf.train.load_variable(newest, "global_step"), _STEPS)


if __name__ == "__main__":
  absltest.main()
