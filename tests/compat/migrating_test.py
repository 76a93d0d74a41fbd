"""The programs in docs/migrating.md and docs/tensorflow1.md run."""

import os
import re
import textwrap

from tests import tiers
from tests.compat import processes

from absl.testing import absltest, parameterized

_DOCS = os.path.join(processes.REPOSITORY, "docs")


class MigratingTest(parameterized.TestCase):
  @tiers.slow
  @parameterized.parameters(
    tiers.sample(
      [("migrating.md", "'global_step': "), ("tensorflow1.md", "(1, 2)")]
    )
  )
  def test_program_runs(self, page, printed):
    with open(os.path.join(_DOCS, page), encoding="utf-8") as guide:
      text = guide.read()
    programs = re.findall(r"^ *```python\n(.*?)^ *```", text, re.M | re.S)
    # Another one is for --v1: tests/estimator_mp/cli/v1_program_test.py.
    (program,) = (one for one in programs if "compat.install(" in one)
    result = processes.run("-c", textwrap.dedent(program))
    self.assertEqual(result.returncode, 0, result.stderr)
    self.assertIn(printed, result.stdout)


if __name__ == "__main__":
  absltest.main()
