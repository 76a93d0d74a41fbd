"""`pip install .` gives the three packages, and needs nothing of Bazel."""

import email
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import estimator_mp
from tests import tiers

from absl.testing import absltest

_ROOT = pathlib.Path(os.path.abspath(__file__)).parents[2]
_PACKAGES = ("compat", "estimator_mp", "model_fns")
_IMPORT = """
import sys
import compat, estimator_mp, model_fns, model_fns.datasets
from estimator_mp.machines import machine
assert machine.load("v100").links
for module in (compat, estimator_mp, model_fns, model_fns.datasets):
  print(module.__file__)
print(*sys.path)
"""


def _check_output(command, **kwargs):
  """Runs a command; what it said is in the error if it fails."""
  done = subprocess.run(
    command, capture_output=True, text=True, check=False, **kwargs
  )
  if done.returncode:
    raise AssertionError(f"{command} failed:\n{done.stdout}\n{done.stderr}")
  return done.stdout


def _source_files():
  """Paths, from the root, of what the three packages are made of."""
  return sorted(
    str(path.relative_to(_ROOT))
    for package in _PACKAGES
    for ending in ("*.py", "*.csv", "*.toml", "py.typed")
    for path in (_ROOT / package).rglob(ending)
  )


@tiers.slow
class WheelTest(absltest.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    work = pathlib.Path(absltest.get_default_test_tmpdir()) / "wheel_test"
    shutil.rmtree(work, ignore_errors=True)
    source = work / "source"
    for path in ["pyproject.toml", "README.md", "LICENSE", *_source_files()]:
      (source / path).parent.mkdir(parents=True, exist_ok=True)
      shutil.copyfile(_ROOT / path, source / path)
    # No index is asked: what builds the wheel is in the environment.
    pip = [sys.executable, "-m", "pip", "--isolated", "--no-input"]
    offline = ["--disable-pip-version-check", "--no-index", "--no-deps"]
    wheels = str(work / "wheels")
    in_place = ["--no-build-isolation", "--wheel-dir", wheels, str(source)]
    _check_output([*pip, "wheel", *offline, *in_place])
    (cls.wheel,) = glob.glob(f"{wheels}/*.whl")
    cls.installed = str(work / "installed")
    target = ["--target", cls.installed, cls.wheel]
    _check_output([*pip, "install", *offline, *target])
    cls.outside = str(work / "outside")
    os.mkdir(cls.outside)

  def _metadata(self):
    with zipfile.ZipFile(self.wheel) as wheel:
      (name,) = (n for n in wheel.namelist() if n.endswith("/METADATA"))
      return email.message_from_bytes(wheel.read(name))

  def test_holds_every_file_of_the_packages_and_no_other(self):
    with zipfile.ZipFile(self.wheel) as wheel:
      modules = [name for name in wheel.namelist() if ".dist-info/" not in name]
    self.assertCountEqual(modules, _source_files())

  def test_imports_from_outside_the_repository(self):
    environment = {
      name: value
      for name, value in os.environ.items()
      if name not in ("PYTHONPATH", "TF_USE_LEGACY_KERAS")
    }
    environment["PYTHONPATH"] = self.installed
    printed = _check_output(
      [sys.executable, "-c", _IMPORT], cwd=self.outside, env=environment
    )
    self.assertNotIn(str(_ROOT), printed)
    for package in (*_PACKAGES, "model_fns/datasets"):
      self.assertIn(f"{self.installed}/{package}/__init__.py", printed)

  def test_names_its_version_and_dependencies(self):
    metadata = self._metadata()
    self.assertEqual(metadata["Version"], estimator_mp.__version__)
    extras = {"contrib", "train"}
    self.assertLessEqual(extras, {*metadata.get_all("Provides-Extra")})
    required = metadata.get_all("Requires-Dist")
    always = {re.match(r"[\w-]+", x)[0] for x in required if "extra" not in x}
    needed = (
      "absl-py grpcio numpy tensorflow tensorflow-estimator tf-keras tomli"
    )
    self.assertEqual(always, {*needed.split()})
    self.assertIn("tensorflow>=2.15", required)  # With no upper limit.
    self.assertEqual(metadata["Requires-Python"], "<3.14,>=3.10")
    # AdaNet imports it, and TensorFlow 1.15 brought it along.
    self.assertIn('tensorboard; extra == "contrib"', required)

  def test_carries_its_license_and_authors(self):
    self.assertEqual(self._metadata()["License-Expression"], "Apache-2.0")
    self.assertEqual(self._metadata()["Author"], "The estimator_mp authors")
    with zipfile.ZipFile(self.wheel) as wheel:
      (name,) = (n for n in wheel.namelist() if n.endswith("/LICENSE"))
      text = wheel.read(name).decode()
    self.assertEqual(text, (_ROOT / "LICENSE").read_text(encoding="utf-8"))


if __name__ == "__main__":
  absltest.main()
