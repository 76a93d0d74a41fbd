"""train_and_evaluate by TF_CONFIG, as real processes on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
import time

from estimator_mp.cluster import ports
from tests import tiers
from tests.compat import processes

from absl.testing import absltest

_PROGRAM = os.path.join(
  os.path.dirname(os.path.abspath(__file__)), "cluster_program.py"
)
_PATIENCE_SECONDS = 600


def _addresses(count):
  return [f"127.0.0.1:{port}" for port in ports.free_ports(count)]


class Task:
  """A process of the cluster, with its output in a file."""

  def __init__(self, cluster, kind, index, log, arguments):
    config = {"cluster": cluster, "task": {"type": kind, "index": index}}
    self._log = log
    with open(log, "w") as output:
      self.process = subprocess.Popen(
        [sys.executable, "-m", "compat", _PROGRAM, *arguments],
        env=processes.environment(TF_CONFIG=json.dumps(config)),
        stdout=output,
        stderr=subprocess.STDOUT,
      )

  def output(self):
    with open(self._log) as log:
      return log.read()

  def steps(self):
    return [int(n) for n in re.findall(r"^step (\d+)$", self.output(), re.M)]

  def wait_for(self, condition, what):
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
      if self.process.poll() is not None or time.monotonic() > end:
        raise AssertionError(f"no {what}: {self.output()[-3000:]}")
      time.sleep(0.05)

  def wait(self):
    try:
      code = self.process.wait(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
      raise AssertionError(f"hangs: {self.output()[-3000:]}") from None
    if code or "finished" not in self.output():
      raise AssertionError(f"exit code {code}: {self.output()[-3000:]}")

  def stop(self):
    if self.process.poll() is None:
      self.process.kill()
    self.process.wait()


@tiers.slow
class ClusterTest(absltest.TestCase):
  def start(self, cluster, kind, index, arguments):
    log = self.create_tempfile().full_path
    task = Task(cluster, kind, index, log, arguments)
    self.addCleanup(task.stop)
    return task

  def test_killed_worker_rejoins(self):
    """Chief, worker, ps and evaluator; the worker is killed and restarted."""
    chief, ps, worker = _addresses(3)
    cluster = {"chief": [chief], "ps": [ps], "worker": [worker]}
    hurry = os.path.join(self.create_tempdir().full_path, "hurry")
    arguments = [
      f"--model_dir={self.create_tempdir().full_path}",
      "--max_steps=1500",
      "--seconds_per_step=0.2",
      f"--hurry_file={hurry}",
    ]
    tasks = {
      kind: self.start(cluster, kind, 0, arguments)
      for kind in ("ps", "chief", "worker", "evaluator")
    }
    worker = tasks["worker"]
    worker.wait_for(lambda: len(worker.steps()) > 10, "step of the worker")
    worker.process.send_signal(signal.SIGKILL)
    self.assertEqual(worker.process.wait(), -signal.SIGKILL)

    chief = tasks["chief"]
    at_kill = chief.steps()[-1]
    chief.wait_for(lambda: chief.steps()[-1] > at_kill + 10, "step alone")
    restarted = self.start(cluster, "worker", 0, arguments)
    restarted.wait_for(lambda: len(restarted.steps()) > 10, "step again")
    # However slow this machine is: only now may the training end.
    open(hurry, "w").close()

    chief.wait()
    restarted.wait()
    tasks["evaluator"].wait()
    self.assertIsNone(tasks["ps"].process.poll(), tasks["ps"].output()[-3000:])
    # The restarted worker went on from the others' step, not from 0, and one
    # global step was counted by both: neither saw all numbers.
    self.assertGreater(restarted.steps()[0], at_kill)
    self.assertGreaterEqual(chief.steps()[-1], 1490)
    self.assertLess(len(chief.steps()), 1500)
    self.assertEqual(chief.output().count("session\n"), 1)

  def test_multi_worker_mirrored(self):
    """Two workers under MultiWorkerMirroredStrategy stay in step."""
    chief, worker, evaluator = _addresses(3)
    cluster = {
      "chief": [chief],
      "worker": [worker],
      "evaluator": [evaluator],
    }
    arguments = [
      f"--model_dir={self.create_tempdir().full_path}",
      "--max_steps=60",
      "--seconds_per_step=0",
      "--hurry_file=none",
      "--multi_worker_mirrored",
    ]
    tasks = [
      self.start(cluster, kind, 0, arguments)
      for kind in ("chief", "worker", "evaluator")
    ]
    for task in tasks:
      task.wait()
    for task in tasks[:2]:
      self.assertLen(task.steps(), 60)


if __name__ == "__main__":
  absltest.main()
