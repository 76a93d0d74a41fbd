"""docs/benchmarks.md has a section for each benchmark, with its command."""

import os
import re

from estimator_mp.config import sharding_options
from tests.benchmarks import figures, page

from absl.testing import absltest

# It runs the others, and writes their tables.
_ALL = "all"
_ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


def _read(path):
  with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
    return file.read()


def _targets():
  build = _read("tests/benchmarks/BUILD")
  return re.findall(r'^ +(?:name = )?"(\w+)",$', build, re.M)


class BenchmarksTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    sections = _read("docs/benchmarks.md").split("\n## ")[1:]
    self._sections = dict(section.split("\n", 1) for section in sections)

  def test_each_benchmark_has_a_section_with_its_command(self):
    names = _targets()
    self.assertNotEmpty(names)
    self.assertContainsSubset([_ALL, *self._sections], names)
    for name, text in self._sections.items():
      commands = re.findall(r"\./bazelw run //tests/benchmarks:(\w+)", text)
      self.assertContainsSubset([name], commands)
      self.assertContainsSubset(commands, names)
      self.assertIn("bound", text, name)

  def test_all_of_them_are_run_by_one_command_in_the_order_of_the_page(self):
    program = _read("tests/benchmarks/run_all.py")
    listed = re.search(r"\nBENCHMARKS = \((.*?)\n\)", program, re.DOTALL)
    names = re.findall(r'"(\w+)"', listed.group(1))
    self.assertSequenceEqual(names, [*self._sections])
    for name in names:
      self.assertIn("figures.save(", _read(f"tests/benchmarks/{name}.py"), name)

  def test_each_section_has_a_block_that_the_command_can_write(self):
    for name, text in self._sections.items():
      block = page.read_block(text, name)
      rows = [line for line in block.splitlines() if line.startswith("|")]
      for row in rows:
        self.assertEqual(row.count(" | "), 3, f"{name}: {row}")
      if rows:
        self.assertIn(f"`./bazelw run //tests/benchmarks:{name}", block)
      self.assertNotIn(figures.FAULT, block, name)

  def test_every_flag_of_a_command_exists(self):
    options = sharding_options.ShardingOptions.__doc__
    for name, text in self._sections.items():
      program = _read(f"tests/benchmarks/{name}.py")
      for flag in re.findall(r"--(\w+)", text):
        self.assertIn(f'"{flag}"', program, name)
        is_own = re.search(rf'DEFINE_\w+\(\s*"{flag}"', program)
        self.assertTrue(is_own or f"\n    {flag}: " in options, flag)


if __name__ == "__main__":
  absltest.main()
