"""The script that carries wheels in pieces, tried with small wheels."""

import os
import pathlib
import shutil
import subprocess
import zipfile

from tests import tiers

from absl.testing import absltest

_CARRY = os.path.join(os.path.dirname(__file__), "carry")
_METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _write_wheel(folder, name):
  info = f"{name}-1.0.dist-info"
  contents = {
    f"{name}/__init__.py": "",
    f"{name}/data.bin": name * 3000,
    f"{info}/METADATA": _METADATA.format(name=name),
    f"{info}/WHEEL": _WHEEL,
  }
  contents[f"{info}/RECORD"] = "".join(f"{x},,\n" for x in contents)
  path = folder / f"{name}-1.0-py3-none-any.whl"
  with zipfile.ZipFile(path, "w") as wheel:
    for inner, text in contents.items():
      wheel.writestr(inner, text)
  return path


class CarryTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self._folder = pathlib.Path(self.create_tempdir().full_path)
    self._wheels = [_write_wheel(self._folder, x) for x in ("first", "second")]

  def _carry(self, *arguments):
    command = ["bash", _CARRY, *map(str, arguments)]
    return subprocess.run(
      command, cwd=self._folder, capture_output=True, text=True, check=False
    )

  def _keep_all(self, size):
    self.assertEqual(
      self._carry("pack", "pieces", size, *self._wheels).stderr, ""
    )
    for call in sorted((self._folder / "pieces").iterdir()):
      sizes = sum(x.stat().st_size for x in call.glob("*.piece*"))
      self.assertLessEqual(sizes, size)
      self.assertEqual(self._carry("keep", call, "store").returncode, 0)

  @tiers.slow
  def test_wheels_arrive_whole_and_are_installed(self):
    if shutil.which("cc") is None:
      self.skipTest("stand-ins need a C compiler, and there is none")
    self._keep_all(300)
    (self._folder / "cuda").mkdir()
    (self._folder / "cuda" / "libcudnn.so.9").touch()
    made = self._carry("make", "store", "venv", "cuda")
    self.assertEqual(made.returncode, 0, made.stderr)
    venv = self._folder / "venv"
    subprocess.run(
      [venv / "bin/python", "-c", "import first, second"], check=True
    )
    stand_ins = (venv / "stand_ins").read_text(encoding="utf-8").split()
    self.assertContainsSubset({"libcufft.so.11", "libcublas.so.12"}, stand_ins)
    self.assertNotIn("libcudnn.so.9", stand_ins)
    for library in (*stand_ins, "libcudnn.so.9"):
      self.assertTrue((venv / "cuda" / library).exists(), library)

  @tiers.slow
  def test_a_piece_that_was_lost_is_an_error(self):
    self._keep_all(300)
    max((self._folder / "store").glob("*.piece*")).unlink()
    made = self._carry("make", "store", "venv")
    self.assertEqual(made.returncode, 1)
    self.assertRegex(
      made.stderr,
      r"carry: site\.tar\.\w+ is not whole: a piece is missing; carry it again",
    )

  def test_nothing_to_do_is_an_error(self):
    said = self._carry()
    self.assertEqual(said.returncode, 1)
    self.assertStartsWith(said.stderr, "carry: say pack, keep, make or run")


if __name__ == "__main__":
  absltest.main()
