"""A user's own model needs none of the packages of this project's models."""

from tests import tiers
from tests.compat import processes
from tests.estimator_mp.cli import user_programs

from absl.testing import absltest, parameterized

# Python finds none of them.
_RUN = """
import sys
for name in ("matplotlib", "scipy", "sklearn", "tqdm"):
  sys.modules[name] = None
from estimator_mp.cli.main import run
run()
"""
_INSTALL = "pip install 'estimator-mp[train]'"


class WithoutExtrasTest(parameterized.TestCase):
  def _run(self, *arguments):
    folder = self.create_tempdir()
    folder.create_file("train.py", user_programs.SCRIPT)
    return processes.run(
      *("-c", _RUN, *arguments),
      cwd=folder.full_path,
      env=processes.environment(BUILD_WORKING_DIRECTORY=None),
    )

  @tiers.slow
  @parameterized.parameters(
    ("plan", r"(?m)^1 +/device:CPU:1 +second "),
    ("compare", r"(?m)^equal: losses, "),
  )
  def test_own_program(self, command, expected):
    done = self._run(command, "--mesh=stage:2", "--", "train.py", "--units=6")
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertRegex(done.stdout, expected)

  @tiers.slow
  @parameterized.parameters(
    ("train",), ("train", "--model=dlrm"), ("compare",), ("trace",)
  )
  def test_models_of_this_project_ask_for_the_extra(self, *arguments):
    done = self._run(*arguments)
    self.assertEqual(done.returncode, 2, done.stderr)
    self.assertLen(done.stderr.splitlines(), 1)
    self.assertIn(_INSTALL, done.stderr)


if __name__ == "__main__":
  absltest.main()
