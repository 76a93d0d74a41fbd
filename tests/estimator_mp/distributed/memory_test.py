"""A model that does not fit one process trains in three of the same memory."""

import os
import re
import sys

from tests import tiers
from tests.compat import processes
from tests.estimator_mp.distributed import large_program

import numpy as np
from absl.testing import absltest

_LAUNCH = ("estimator_mp", "launch")
_PROGRAM = "tests.estimator_mp.distributed.large_program"
# The weights of the model, its slots and gradients are 576 MiB, and Python and
# TensorFlow with a server more than 400.
_LIMIT = "800MiB"
_FAILED = "|".join(
  [
    "MemoryError",
    "ResourceExhaustedError",
    "bad_alloc",
    "OOM when allocating",
    r"pthread_create\(\) failed",
  ]
)


@tiers.slow
class MemoryTest(absltest.TestCase):
  def _launch(self, num_tasks, mesh, *flags):
    """Trains in a local cluster; returns the exit code, and what it printed."""
    model_dir = os.path.join(self.create_tempdir().full_path, "model")
    finished = processes.run(
      *("-m", *_LAUNCH, f"--tasks={num_tasks}", *flags, "--"),
      *(sys.executable, "-m", _PROGRAM, model_dir, mesh, "36", "1024"),
    )
    return finished.returncode, finished.stdout + finished.stderr

  def _losses(self, output):
    found = re.search(r"^\[chief 0\] losses (.+)$", output, re.MULTILINE)
    self.assertIsNotNone(found, output[-4000:])
    return [float(loss) for loss in found[1].split()]

  def test_stages_train_what_one_process_cannot(self):
    code, output = self._launch(1, "plain", f"--mem_limit={_LIMIT}")
    self.assertNotEqual(code, 0)
    self.assertRegex(output, _FAILED)
    code, output = self._launch(3, "stage:3", f"--mem_limit={_LIMIT}")
    self.assertEqual(code, 0, output[-4000:])
    losses = self._losses(output)
    code, output = self._launch(1, "plain")
    self.assertEqual(code, 0, output[-4000:])
    self.assertLen(losses, large_program.STEPS)
    np.testing.assert_allclose(losses, self._losses(output), rtol=1e-5)


if __name__ == "__main__":
  absltest.main()
