"""A user's own model needs none of the packages of this project's models."""

import os
import subprocess
import sys

from tests import tiers

from absl.testing import absltest, parameterized

# Python finds none of them.
_RUN = """
import sys
for name in ("matplotlib", "scipy", "shtab", "sklearn", "tqdm"):
  sys.modules[name] = None
from estimator_mp.cli.main import run
run()
"""
_PROGRAM = """
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def model_fn(features, labels, mode):
  net = v1.layers.dense(v1.layers.dense(features, 8), 1)
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.1).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
  arrays = np.ones([8, 4], np.float32), np.ones([8, 1], np.float32)
  return tf.data.Dataset.from_tensors(arrays).repeat()


tf.estimator.Estimator(model_fn).train(input_fn, steps=2)
"""
_INSTALL = "pip install 'estimator-mp[train]'"


class WithoutExtrasTest(parameterized.TestCase):
  def _run(self, *arguments):
    folder = self.create_tempdir()
    folder.create_file("train.py", _PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("BUILD_WORKING_DIRECTORY", None)
    return subprocess.run(
      [sys.executable, "-c", _RUN, *arguments],
      cwd=folder.full_path,
      env=environment,
      capture_output=True,
      text=True,
      check=False,
    )

  @tiers.slow
  @parameterized.parameters(
    ("inspect", r"(?m)^1 +/device:CPU:1 +dense_1 "),
    ("compare", r"(?m)^equal: losses, "),
  )
  def test_own_program(self, command, expected):
    done = self._run(command, "--mesh=stage:2", "--", "train.py")
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertRegex(done.stdout, expected)

  @tiers.slow
  @parameterized.parameters(
    ("train",), ("train", "--model=dlrm"), ("compare",), ("trace",)
  )
  def test_models_of_this_project_ask_for_the_extra(self, *arguments):
    done = self._run(*arguments)
    self.assertEqual(done.returncode, 2, done.stderr)
    self.assertLen(done.stderr.splitlines(), 1)
    self.assertIn(_INSTALL, done.stderr)

  def test_completion_asks_for_its_own(self):
    done = self._run("completion", "bash")
    self.assertEqual(done.returncode, 2)
    self.assertEqual(
      done.stderr,
      "estimator-mp: completion needs shtab; pip install "
      "'estimator-mp[completion]'\n",
    )


if __name__ == "__main__":
  absltest.main()
