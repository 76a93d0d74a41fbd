"""Runs of three tasks, and that they have the losses of one process."""

import dataclasses
import os

from tests.estimator_mp.distributed import program

import numpy as np
from absl.testing import absltest

MODULE = "tests.estimator_mp.distributed.program"
TASKS = (("chief", 0), ("worker", 0), ("worker", 1))
_RTOL = 1e-5


class EqualRunsCase(absltest.TestCase):
  """A test of three tasks that run `MODULE` with a file of runs."""

  def make_runs(self, *names):
    """Returns runs of some kinds of meshes, and the file that names them."""
    stages = {"mesh": "stage:3", "num_micro_batches": 4}
    hybrid = {"mesh": "data:2,stage:2", "num_micro_batches": 2}
    table = {"mesh": "model:3", "split": program.split_table()}
    every = {
      "stages": ("digits", stages, False),
      "hybrid": ("digits", hybrid, False),
      "parts": ("deepfm", table, False),
      "inputs": ("mlp_sgd", {"mesh": "data:3"}, True),
    }
    made = []
    for name in names:
      model, sharding, by_task = every[name]
      folder = self._model_dir(name)
      made.append(program.Run(model, folder, sharding, reads_by_task=by_task))
    path = os.path.join(self.create_tempdir().full_path, "runs.json")
    program.write_runs(path, made)
    return made, path

  def assert_equal(self, made):
    """Asserts that runs had the losses and metrics of one process.

    That has the same mesh, so that dropout drops the same.
    """
    for run in made:
      with self.subTest(**run.sharding):
        self._assert_equal(run)

  def _assert_equal(self, run):
    losses, metrics = program.read_results(run)
    alone = dataclasses.replace(run, model_dir=self._model_dir("alone"))
    expected, expected_metrics = program.execute(alone)
    self.assertLen(expected, run.steps)
    np.testing.assert_allclose(losses, expected, rtol=_RTOL)
    self.assertCountEqual(metrics, expected_metrics)
    for name, value in expected_metrics.items():
      np.testing.assert_allclose(metrics[name], value, rtol=_RTOL, err_msg=name)

  def _model_dir(self, name):
    return os.path.join(self.create_tempdir().full_path, name)
