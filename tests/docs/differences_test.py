"""Every difference that the page names has the test that it names."""

import glob
import os
import re

from absl.testing import absltest

_ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


def _read(path):
  with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
    return file.read()


def _test_source(name):
  pattern = os.path.join("tests", "estimator_mp", "**", f"{name}.py")
  (path,) = glob.glob(pattern, root_dir=_ROOT, recursive=True)
  return _read(path)


class DifferencesTest(absltest.TestCase):
  def test_every_named_test_exists(self):
    page = _read("docs/differences.md")
    named = re.findall(r"`(\w+_test)(?:\.(\w+))?(?:\.(\w+))?`", page)
    self.assertGreater(len(named), 15)
    for file, test_case, method in named:
      source = _test_source(file)
      if test_case:
        self.assertRegex(source, rf"(?m)^class {test_case}\(")
      if method:
        self.assertRegex(source, rf"(?m)^  def {method}\(")

  def test_every_row_names_a_test(self):
    rows = [
      line
      for line in _read("docs/differences.md").splitlines()
      if line.startswith("| ") and not line.endswith(("| test |", "- |"))
    ]
    self.assertGreater(len(rows), 12)
    for row in rows:
      self.assertRegex(row.split("|")[-2], r"_test")


if __name__ == "__main__":
  absltest.main()
