"""A run that is started over some processes goes on over fewer."""

import itertools
import os
import time

import estimator_mp  # noqa: F401
from tests import tiers
from tests.estimator_mp.distributed import clusters
from tests.estimator_mp.distributed import recorded_program as program

import numpy as np
from absl.testing import absltest, parameterized

_PROGRAM = "tests.estimator_mp.distributed.recorded_program"
# The meshes, and the step at which a run of each is killed.
_RUNS = tiers.sample(
  [
    ("8_4_2", (("data:2,stage:4", 12), ("stage:4", 27), ("data:2", None))),
    ("4_3_2", (("data:2,stage:2", 12), ("stage:3", 27), ("data:2", None))),
  ]
)
_STEPS = 40
_SECONDS = 600.0


class ResizingTest(parameterized.TestCase):
  def _run(self, model_dir, mesh, last_step):
    """Trains in as many processes as the mesh has devices, until a step."""
    size = np.prod([int(axis.split(":")[1]) for axis in mesh.split(",")])
    cluster = clusters.make_cluster(chief=1, worker=int(size) - 1)
    arguments = (_PROGRAM, model_dir, _STEPS, mesh)
    holds = {program.HOLDS: str(last_step or "")}
    with clusters.Processes(cluster) as processes:
      processes.start("chief", 0, *arguments, **holds)
      for index in range(int(size) - 1):
        processes.start("worker", index, *arguments)
      if last_step is None:
        code = processes.wait("chief", seconds=_SECONDS)
        self.assertEqual(code, 0, processes.output("chief"))
        return
      end = time.monotonic() + _SECONDS
      while max((s for s, _ in program.read(model_dir)), default=0) < last_step:
        self.assertLess(time.monotonic(), end, processes.output("chief"))
        time.sleep(0.02)
      # All processes are killed here.

  @parameterized.named_parameters(_RUNS)
  def test_over_fewer_and_fewer_processes(self, meshes):
    folder = self.create_tempdir().full_path
    model_dir, calm_dir = (os.path.join(folder, x) for x in ("run", "calm"))
    for mesh, last_step in meshes:
      self._run(model_dir, mesh, last_step)
    program.train(calm_dir, _STEPS, "stage:1")
    expected, found = program.read(calm_dir), program.read(model_dir)
    self.assertEqual([step for step, _ in expected], [*range(_STEPS)])
    self.assertContainsSubset(range(_STEPS), {step for step, _ in found})
    # It was killed twice, and did steps since a checkpoint again.
    self.assertLen(_starts(found), len(meshes))
    np.testing.assert_allclose(
      [loss for _, loss in found],
      program.expected_of(found, expected),
      rtol=1e-5,
    )


def _starts(found):
  """Returns the steps that a process has begun with."""
  steps = [step for step, _ in found]
  again = [step for last, step in itertools.pairwise(steps) if step <= last]
  return [steps[0], *again]


if __name__ == "__main__":
  absltest.main()
