"""docs/migrating.md says what is so: its program runs, its names exist."""

import os
import re
import types

import compat

from absl.testing import absltest

compat.install(contrib=True)
from tests.compat import processes  # noqa: E402

import tensorflow as tf  # noqa: E402

_GUIDE = os.path.join(processes.REPOSITORY, "docs", "migrating.md")


def public_names(module):
  """Returns the names of tf.contrib that a module of compat.contrib brings."""
  return sorted(
    name
    for name, value in vars(module).items()
    if not name.startswith("_")
    and name not in ("Any", "Callable", "Mapping", "Sequence")
    and (not isinstance(value, types.ModuleType) or name == "nest")
  )


class MigratingTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    with open(_GUIDE) as guide:
      self.guide = guide.read()

  def test_program_runs(self):
    programs = re.findall(r"^ *```python\n(.*?)^ *```", self.guide, re.M | re.S)
    self.assertLen(programs, 1)
    program = re.sub(r"^ {3}", "", programs[0], flags=re.M)
    result = processes.run("-c", program)
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertIn("'global_step': ", result.stdout)

  def test_contrib_names(self):
    begin = self.guide.index("<!-- contrib: begin")
    table = self.guide[begin : self.guide.index("<!-- contrib: end")]
    rows = re.findall(r"^\| ([a-z_]+) \| (`.*`) \|$", table, re.M)
    listed = {module: re.findall(r"`(\w+)`", names) for module, names in rows}
    brought = {
      module: public_names(getattr(tf.contrib, module))
      for module in dir(tf.contrib)
    }
    self.maxDiff = None
    self.assertEqual(listed, brought)


if __name__ == "__main__":
  absltest.main()
