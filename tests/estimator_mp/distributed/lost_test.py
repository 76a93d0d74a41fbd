"""The train command when a task is gone, or stopped, and does not come back."""

import signal
import subprocess
import time

import estimator_mp  # noqa: F401
from tests import tiers
from tests.estimator_mp.distributed import answering, clusters

from absl.testing import absltest

_TRAIN = ("estimator_mp", "train")
_TASKS = (("chief", 0), ("worker", 0), ("worker", 1))
_SECONDS = 200.0


@tiers.slow
class LostTest(absltest.TestCase):
  def test_the_chief_ends_and_the_other_worker_says_that_it_is_gone(self):
    made = clusters.make_cluster(chief=1, worker=2)
    flags = [
      *("--model=mlp", "--mesh=stage:3", "--train_steps=1000000"),
      *("--log_every=1", "--trace_steps=none", "--trusted_network"),
      *("--heartbeat_timeout=2", "--lost_after=6"),
      f"--model_dir={self.create_tempdir().full_path}/run",
    ]
    with clusters.Processes(made) as self.processes:
      running = {x: self.processes.start(*x, *_TRAIN, *flags) for x in _TASKS}
      self._wait_until_said("chief", 0, "step 3/")
      running["worker", 0].send_signal(signal.SIGSTOP)
      began = time.monotonic()
      code = self.processes.wait("chief", seconds=_SECONDS)
      self.assertLess(time.monotonic() - began, 60)
      said = self.processes.output("chief")
      self.assertEqual(code, 138, said)
      name = f"worker 0 at {made['worker'][0]} has not answered for"
      self.assertRegex(said, rf"{name} \d s; the run waits for it\n")
      self.assertRegex(
        said, rf"{name} \d+ s, longer than lost_after=6, and is "
      )
      self._wait_until_said(
        "worker", 1, f"chief 0 at {made['chief'][0]} has not answered for"
      )
      self.assertIsNone(running["worker", 1].poll())

  def test_the_evaluator_of_a_chief_that_is_gone_says_so_and_ends(self):
    chief = answering.FakeTask("chief")
    self.addCleanup(chief.close)
    made = clusters.make_cluster(worker=1) | {"chief": [chief.address]}
    flags = [
      *("--model=mlp", "--mesh=stage:2", "--heartbeat_timeout=2"),
      *("--lost_after=6", f"--model_dir={self.create_tempdir().full_path}"),
    ]
    with clusters.Processes(made) as self.processes:
      evaluator = self.processes.start("evaluator", 0, *_TRAIN, *flags)
      self._wait_until_said("evaluator", 0, "takes part")
      with self.assertRaises(subprocess.TimeoutExpired):
        evaluator.wait(8)
      chief.close()
      code = self.processes.wait("evaluator", seconds=_SECONDS)
      said = self.processes.output("evaluator")
    self.assertEqual(code, 138, said)
    name = f"chief 0 at {chief.address} has not answered for"
    self.assertRegex(
      said,
      rf"{name} \d s; the run waits for it\n{name} \d+ s, longer than "
      "lost_after=6, and is lost; ",
    )

  def _wait_until_said(self, job, index, words):
    end = time.monotonic() + _SECONDS
    while words not in self.processes.output(job, index):
      self.assertLess(time.monotonic(), end, self.processes.output(job, index))
      time.sleep(0.1)


if __name__ == "__main__":
  absltest.main()
