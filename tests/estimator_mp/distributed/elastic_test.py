"""A run that the launcher goes on with, after a task is lost for good."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import estimator_mp  # noqa: F401
from tests import tiers
from tests.compat import processes
from tests.estimator_mp.distributed import recorded_program as program

from absl.testing import absltest, parameterized

_LAUNCH = ("estimator_mp", "launch")
_PROGRAM = "tests.estimator_mp.distributed.recorded_program"
_MESH = "data:2,stage:2"
_STEPS = 30
_SECONDS = 200.0


def _pid_of_worker(index, model_dir):
  """Returns the process of a worker that trains in a folder."""
  name = f'"type": "worker", "index": {index}'.encode()
  for path in pathlib.Path("/proc").glob("[0-9]*"):
    with contextlib.suppress(OSError):
      words = (path / "cmdline").read_bytes().split(b"\0")
      environment = (path / "environ").read_bytes()
      if os.fsencode(model_dir) in words and name in environment:
        return int(path.name)
  raise ValueError(f"worker {index} has no process")


@tiers.slow
class ElasticTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("killed", signal.SIGKILL, 600), ("stopped", signal.SIGSTOP, 5)
  )
  def test_goes_on_over_the_tasks_that_are_left(self, number, lost_after):
    folder = self.create_tempdir().full_path
    model_dir = os.path.join(folder, "run")
    with subprocess.Popen(
      [
        *(sys.executable, "-m", *_LAUNCH, "--tasks=4", "--elastic"),
        *("--grace=3", "--network=host", f"--log_dir={folder}/logs"),
        *("--", "-m", _PROGRAM, model_dir, str(_STEPS), _MESH),
      ],
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      env=processes.environment(**{program.LOST_AFTER: str(lost_after)}),
      text=True,
    ) as launcher:
      try:
        self._wait_for_step(model_dir, 12, launcher)
        os.kill(_pid_of_worker(2, model_dir), number)
        output, _ = launcher.communicate(timeout=_SECONDS)
      except subprocess.TimeoutExpired:
        launcher.terminate()
        self.fail(launcher.communicate()[0][-4000:])
      finally:
        launcher.terminate()
    self.assertEqual(launcher.returncode, 0, output[-4000:])
    self.assertIn("launch: going on with 3 of 4 tasks\n", output)
    lost = "launch: chief 0 has lost another task (exit code 138)"
    self.assertEqual(lost in output, number == signal.SIGSTOP, output[-4000:])
    placement = pathlib.Path(model_dir, "placement.json").read_text()
    self.assertEqual(json.loads(placement)["mesh"], "data:1,stage:2")
    program.assert_calm(self, model_dir, _STEPS, "stage:1")

  def _wait_for_step(self, model_dir, last, launcher):
    end = time.monotonic() + _SECONDS
    while max((s for s, _ in program.read(model_dir)), default=0) < last:
      if launcher.poll() is not None or time.monotonic() > end:
        launcher.terminate()
        self.fail(launcher.communicate()[0][-4000:])
      time.sleep(0.02)


if __name__ == "__main__":
  absltest.main()
