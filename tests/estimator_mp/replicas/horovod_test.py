"""Two processes of Horovod, with two devices each, train as one device does.

Horovod is no dependency of this repository: docs/horovod.md says how to give
this test a Python that has it.
"""

import dataclasses
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys

import estimator_mp

import numpy as np
from absl.testing import absltest, parameterized

_ROOT = os.path.abspath(
  os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)
)
_PYTHON = os.environ.get("HOROVOD_PYTHON", sys.executable)
_LAUNCHER = "horovodrun --gloo -np 2 -H localhost:2"
_WORKER = "tests.estimator_mp.replicas.horovod_worker"
_PROCESSES = range(2)
# A collective that a process misses makes the others wait for ever.
_PATIENCE_SECS = 600
_TOLERANCE = 1e-5
_STEPS = 30


def _run(launcher, run, folder):
  """Runs the worker, and returns what it printed."""
  command = [_PYTHON, "-m", _WORKER, f"--run={run}", f"--folder={folder}"]
  environment = {
    **os.environ,
    "PATH": os.pathsep.join(
      [os.path.dirname(_PYTHON), os.environ.get("PATH", os.defpath)]
    ),
    "HOME": folder,  # For the files of horovodrun itself.
    "PYTHONPATH": _ROOT,
    "TF_CPP_MIN_LOG_LEVEL": "3",
  }
  process = subprocess.Popen(
    [*shlex.split(launcher), *command],
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    start_new_session=True,
  )
  try:
    output, _ = process.communicate(timeout=_PATIENCE_SECS)
  except subprocess.TimeoutExpired:
    # horovodrun ends its processes in turn.
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate()
    raise AssertionError(f"{run} did not end:\n{output}") from None
  if process.returncode:
    raise AssertionError(f"{run} failed:\n{output}")
  return output


def _load(folder, name, rank):
  with np.load(os.path.join(folder, f"{name}_{rank}.npz")) as arrays:
    return dict(arrays)


def _guide():
  with open(
    os.path.join(_ROOT, "docs", "horovod.md"), encoding="utf-8"
  ) as file:
    return file.read()


class GuideTest(absltest.TestCase):
  """Runs without Horovod."""

  def test_commands_are_those_of_this_test(self):
    guide = _guide()
    commands = re.findall(r"^ +(horovodrun .*)$", guide, re.M)
    self.assertEqual(commands, [f"{_LAUNCHER} python train.py"])
    self.assertIn(
      "--test_env=HOROVOD_PYTHON=/path/to/venv/bin/python //tests:horovod",
      guide,
    )


@absltest.skipIf(
  "HOROVOD_PYTHON" not in os.environ
  and importlib.util.find_spec("horovod") is None,
  "Horovod is not installed, and HOROVOD_PYTHON names no Python that has it",
)
class HorovodTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path

  def test_training_gives_the_plain_losses_and_variables(self):
    _run("", "plain", self.folder)
    _run(_LAUNCHER, "train", self.folder)
    plain = _load(self.folder, "plain", 0)
    self.assertLess(plain["losses"][-1], plain["losses"][0] / 3)
    for name in ("stages", "pipeline"):
      for rank in _PROCESSES:
        with self.subTest(name, rank=rank):
          found = _load(self.folder, name, rank)
          self.assertLen(found["losses"], _STEPS)
          np.testing.assert_allclose(
            found["losses"], plain["losses"], rtol=_TOLERANCE
          )
          # One for each of eight variables, on its own device, and the loss.
          self.assertEqual(found["reductions"].sum(), 9)
          self.assertLen(found["reductions"], 2)
          self.assertGreater(found["reductions"].min(), 1)
          self._assert_same_variables(found, plain)

  def _assert_same_variables(self, found, plain):
    names = [name for name in plain if name.startswith("variable/")]
    self.assertGreater(len(names), 8)
    for name in names:
      scale = np.abs(plain[name]).max()
      np.testing.assert_allclose(
        found[name], plain[name], atol=_TOLERANCE * scale, err_msg=name
      )

  def test_gradients_of_all_kinds_are_reduced(self):
    _run(_LAUNCHER, "collectives", self.folder)
    for rank in _PROCESSES:
      found = _load(self.folder, "collectives", rank)
      self.assertEqual(found["loss"], 9)
      for kind, factor in (("mean", 1), ("sum", 2)):
        with self.subTest(kind, rank=rank):
          expected = {
            "0": np.full([2, 3], 3),
            "1": [1.5, 3],
            "3": np.ones([3, 4]),
            "4": [1.5, 3],
            "5": [3, 3],
          }
          for index, value in expected.items():
            np.testing.assert_array_equal(
              found[f"{kind}{index}"], factor * np.asarray(value)
            )
          self.assertNotIn(f"{kind}2", found)
          np.testing.assert_array_equal(found[f"{kind}3/indices"], [0, 1, 2])
          self.assertEqual(found[f"{kind}5"].dtype, np.float16)
      message = str(_load(self.folder, "differ", rank)["message"])
      self.assertEqual(
        message,
        "the variables or gradients of processes [1] are not those of process "
        "0 (names, shapes or dtypes), so that they would wait for each other "
        "forever; build the same model in all processes",
      )

  @absltest.skipIf(
    "aggregation"
    not in {x.name for x in dataclasses.fields(estimator_mp.ShardingConfig)},
    "ShardingConfig has no field `aggregation`",
  )
  def test_the_program_of_the_guide_runs(self):
    _run(_LAUNCHER, "guide", self.folder)
    for rank, checkpoint in enumerate(["model.ckpt-20", ""]):
      found = _load(self.folder, "guide", rank)
      self.assertEqual(str(found["checkpoint"]), checkpoint)


if __name__ == "__main__":
  absltest.main()
