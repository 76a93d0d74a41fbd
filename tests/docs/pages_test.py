"""What pages name exists: tests, options, a block for each benchmark."""

import glob
import os
import re

import estimator_mp
from benchmarks import figures, page
from tests.docs import guides

from absl.testing import absltest

_ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


def _test_source(name):
  pattern = os.path.join("tests", "estimator_mp", "**", f"{name}.py")
  (path,) = glob.glob(pattern, root_dir=_ROOT, recursive=True)
  return guides.read(path)


class DifferencesTest(absltest.TestCase):
  def test_every_named_test_exists(self):
    page = guides.read("docs/differences.md")
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
      for line in guides.read("docs/differences.md").splitlines()
      if line.startswith("| ") and not line.endswith(("| test |", "- |"))
    ]
    self.assertGreater(len(rows), 12)
    for row in rows:
      self.assertRegex(row.split("|")[-2], r"_test")


_PAGE = "docs/coming_from.md"


class ComingFromTest(absltest.TestCase):
  def test_what_is_said_here_is_an_option(self):
    rows = re.findall(r"^\| .*? \| (.*) \|$", guides.read(_PAGE), re.M)
    meshes = re.findall(r"`((?:data|stage|model):[\w:,]+)`", "".join(rows))
    self.assertGreater(len(meshes), 10)
    for mesh in meshes:
      estimator_mp.ShardingConfig(mesh=mesh)
    known = estimator_mp.ShardingConfig.__dataclass_fields__
    options = re.findall(r"`(\w+)=[\[\"\d]", "".join(rows))
    self.assertGreater(len(options), 10)
    self.assertEqual([x for x in options if x not in known], [])


class BenchmarksTest(absltest.TestCase):
  def test_each_section_has_a_table_without_a_fault(self):
    """//benchmarks:all writes it, and finds what is beyond its bound."""
    text = guides.read("docs/benchmarks.md")
    sections = text.split("\n## ")[1:]
    self.assertNotEmpty(sections)
    for section in sections:
      name, _, rest = section.partition("\n")
      block = page.read_block(rest, name)
      self.assertNotIn(figures.FAULT, block, name)
      rows = [x for x in block.splitlines() if x.startswith("| ")][2:]
      self.assertNotEmpty(rows, name)
      for row in rows:
        self.assertNotRegex(row, r"\| +\|", name)


if __name__ == "__main__":
  absltest.main()
