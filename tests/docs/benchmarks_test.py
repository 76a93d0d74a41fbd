"""docs/benchmarks.md has a section for each benchmark, with its command."""

import os
import re

from absl.testing import absltest

_ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


def _read(path):
  with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
    return file.read()


class BenchmarksTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    sections = _read("docs/benchmarks.md").split("\n## ")[1:]
    self._sections = dict(section.split("\n", 1) for section in sections)

  def test_each_benchmark_has_a_section_with_its_command(self):
    build = _read("tests/benchmarks/BUILD")
    names = re.findall(r'py_binary\(\s*name = "(\w+)"', build)
    self.assertNotEmpty(names)
    self.assertSameElements(names, self._sections)
    for name, text in self._sections.items():
      commands = re.findall(r"\./bazelw run //tests/benchmarks:(\w+)", text)
      self.assertContainsSubset([name], commands)
      self.assertContainsSubset(commands, names)
      self.assertIn("bound", text, name)

  def test_every_flag_of_a_command_exists(self):
    options = _read("estimator_mp/config/sharding_options.py")
    for name, text in self._sections.items():
      program = _read(f"tests/benchmarks/{name}.py")
      for flag in re.findall(r"--(\w+)", text):
        self.assertIn(f'"{flag}"', program, name)
        is_own = re.search(rf'DEFINE_\w+\(\s*"{flag}"', program)
        self.assertTrue(is_own or f"\n  {flag}: " in options, flag)


if __name__ == "__main__":
  absltest.main()
