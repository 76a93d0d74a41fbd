"""How tasks that only serve learn that the run has ended."""

import threading
import time

import estimator_mp  # noqa: F401
from estimator_mp.cluster import tasks as tasks_lib
from estimator_mp.distributed import ending, status
from tests.estimator_mp.distributed import clusters

import tensorflow as tf
from absl.testing import absltest

_CHIEF = tasks_lib.Task("chief", 0)
_WORKER = tasks_lib.Task("worker", 0)
_LONG = 600.0


def _clusters():
  """Returns a new cluster, as its chief and as its worker see it."""
  addresses = clusters.make_cluster(chief=1, worker=1)
  jobs = {job: tuple(of_job) for job, of_job in addresses.items()}
  return tasks_lib.Cluster(jobs, _CHIEF), tasks_lib.Cluster(jobs, _WORKER)


def _serve(cluster):
  jobs = {job: list(of_job) for job, of_job in cluster.jobs.items()}
  return tf.distribute.Server(jobs, cluster.task.job, cluster.task.index)


class _Waiting(threading.Thread):
  """A worker that waits for the end of a run."""

  def __init__(self, *arguments):
    super().__init__(daemon=True)
    self.error = None
    self._arguments = arguments
    self.start()

  def run(self):
    try:
      ending.Run(*self._arguments).wait()
    except status.TaskError as error:
      self.error = error


class EndingTest(absltest.TestCase):
  def test_a_worker_ends_when_it_is_told_of_its_run(self):
    chief, worker = _clusters()
    at_chief, at_worker = _serve(chief), _serve(worker)
    first = _Waiting(at_worker.target, worker, 1, _LONG)
    ending.Run(at_chief.target, chief, 1, _LONG).tell()
    first.join(_LONG)
    self.assertFalse(first.is_alive())
    second = _Waiting(at_worker.target, worker, 2, _LONG)
    # A chief that was started again ends the run that had ended before.
    ending.Run(at_chief.target, chief, 1, _LONG).tell()
    second.join(1.5)
    self.assertTrue(second.is_alive())
    ending.Run(at_chief.target, chief, 2, _LONG).tell()
    second.join(_LONG)
    self.assertFalse(second.is_alive())
    # A worker that was started again begins with the first run.
    ending.Run(at_worker.target, worker, 1, _LONG).wait()
    self.assertIsNone(first.error or second.error)

  def test_a_worker_gives_up_a_chief_that_never_comes(self):
    chief, worker = _clusters()
    at_worker = _serve(worker)
    with self.assertRaisesRegex(
      status.TaskError,
      f"^chief 0 at {chief.address(_CHIEF)} .* worker 0 for 0.2 s; .*startup_t",
    ):
      ending.Run(at_worker.target, worker, 1, 0.2).wait()

  def test_the_chief_does_not_wait_for_a_worker_that_is_gone(self):
    chief, worker = _clusters()
    at_chief = _serve(chief)
    started = time.monotonic()
    with self.assertLogs("tensorflow", "WARNING") as logged:
      ending.Run(at_chief.target, chief, 1, _LONG).tell()
    self.assertLess(time.monotonic() - started, 60)
    self.assertIn(
      f"worker 0 at {worker.address(_WORKER)} did not answer when the run "
      "ended; end it by hand if it is still there",
      logged.output[0],
    )


if __name__ == "__main__":
  absltest.main()
