"""The guide to capacity finds, trains and draws what it says."""

import contextlib
import io
import os
import pathlib
import re
import shlex
from unittest import mock

from estimator_mp.cli.sizing import capacity_flags
from tests import tiers
from tests.docs import guides

from absl.testing import absltest

_GUIDE = "docs/capacity.md"


@tiers.slow
class GuideTest(absltest.TestCase):
  def _run(self, arguments):
    folder = self.create_tempdir().full_path
    with (
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=folder),
      contextlib.redirect_stdout(io.StringIO()) as output,
    ):
      code = capacity_flags.COMMAND.main(["capacity", *shlex.split(arguments)])
    self.assertEqual(code, 0, output.getvalue())
    return output.getvalue(), pathlib.Path(folder)

  def test_the_commands_do_what_the_guide_says(self):
    planned, measured = re.findall(
      r"^    \S+ run //estimator_mp:capacity -- (.+)",
      guides.read(_GUIDE),
      re.M,
    )
    # More stages take minutes; how they grow is in capacity_command_test.
    less = "--stages=1 --memory_per_device=128MiB"
    output, folder = self._run(f"{planned} {less}")
    self.assertIn("transformer, 128MiB per device", output)
    self.assertTrue((folder / "docs/pictures/capacity/capacity.png").exists())
    output, _ = self._run(f"{measured} --stages=2")
    self.assertRegex(output, r"\ntrained on 2 stages: loss \d")
    self.assertNotIn("does not fit", output)


if __name__ == "__main__":
  absltest.main()
