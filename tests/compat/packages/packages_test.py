"""Packages of TensorFlow 1's time run unedited as on 1.15.5, and sharded.

The packages are no dependencies of this repository. The test installs them,
without theirs, into a folder of its own; PACKAGES names one that has them:

    pip install --no-deps --target=FOLDER \\
        -r tests/compat/packages/requirements.txt
    PACKAGES=FOLDER python -m tests.compat.packages.packages_test

run.py says how 1.15.5 recorded what they have to give.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile

from tests.compat import processes
from tests.compat.packages import installed

import numpy as np
from absl.testing import absltest, parameterized

_HERE = os.path.dirname(os.path.abspath(__file__))
_RELATIVE = 1e-4

# By the program: the packages that belong to it, with commas between them.
_PROGRAMS = {
  "adanet_ensembles": "adanet",
  "bert_classifier": "bert",
  "deepctr_models": "deepctr",
  "gan_networks": "tensorflow_gan",
  "hub_modules": "tensorflow_hub",
  "kfac_network": "kfac",
  "layers": "",
  "opennmt_models": "opennmt",
  "ranking_models": "tensorflow_ranking",
  "slim_networks": "",
  "sonnet_network": "sonnet",
  "tabnet_network": "",
  "tensor2tensor_models": "tensor2tensor",
}


@functools.cache
def _run(program, *mesh):
  """What a program gives on today's TensorFlow, through `compat --v1`."""
  # The same kernels on every CPU: convolutions without oneDNN round otherwise,
  # and ten steps of batch normalization make 1e-4 of that.
  environment = processes.environment(TF_ENABLE_ONEDNN_OPTS="1")
  environment["PYTHONPATH"] += os.pathsep + installed.folder()
  with tempfile.NamedTemporaryFile(suffix=".json") as out:
    result = subprocess.run(
      [
        *(sys.executable, "-m", "compat", "--v1"),
        f"--v1_packages={_PROGRAMS[program]}",
        *("-m", "tests.compat.packages.run", program, out.name, *mesh),
      ],
      env=environment,
      capture_output=True,
      text=True,
      check=False,
    )
    if result.returncode:
      raise AssertionError(f"{program} {mesh} failed:\n{result.stderr[-9999:]}")
    return _read(out.name)


def _recorded(program):
  return _read(os.path.join(_HERE, "recorded", f"{program}.json"))


def _read(path):
  """The results of the models, by name."""
  with open(path) as file:
    found = json.load(file)
  # What the program was told: today's TensorFlow as well.
  assert found.pop("tensorflow") == "1.15.5", path
  return found


class PackagesTest(parameterized.TestCase):
  @parameterized.named_parameters((name, name) for name in _PROGRAMS)
  def test_gives_what_1_15_gave(self, program):
    found, recorded = _run(program), _recorded(program)
    self.assertCountEqual(found, recorded)
    for model, wanted in recorded.items():
      with self.subTest(model):
        self.assertSame(found[model], wanted)

  def assertSame(self, found, wanted):
    self.assertCountEqual(found, wanted)
    self.assertEqual(found["variables"], wanted["variables"])
    self.assertLen(found["losses"], 10)
    _assert_close(found["losses"], wanted["losses"], "losses")
    for kind in ("metrics", "predictions"):
      self.assertCountEqual(found.get(kind, ()), wanted.get(kind, ()))
      for name, value in wanted.get(kind, {}).items():
        _assert_close(found[kind][name], value, name)

  @parameterized.named_parameters((name, name) for name in _PROGRAMS)
  def test_sharded_is_plain_bit_for_bit(self, program):
    sharded, plain = _run(program, "stage:3"), _run(program)
    for model, wanted in plain.items():
      for kind, value in wanted.items():
        with self.subTest(f"{model}_{kind}"):
          self.assertEqual(sharded[model][kind], value)


def _assert_close(found, wanted, name):
  """Compares numbers, arrays of the same shape, or lists of such arrays."""
  if isinstance(wanted, list) and len({np.shape(one) for one in wanted}) > 1:
    for one, wanted_one in zip(found, wanted, strict=True):
      _assert_close(one, wanted_one, name)
    return
  found, wanted = np.asarray(found), np.asarray(wanted)
  if wanted.dtype.kind == "f":
    scale = np.max(np.abs(wanted), initial=1e-6)
    np.testing.assert_allclose(
      found, wanted, rtol=_RELATIVE, atol=_RELATIVE * scale, err_msg=name
    )
  else:
    np.testing.assert_array_equal(found, wanted, err_msg=name)


if __name__ == "__main__":
  absltest.main()
