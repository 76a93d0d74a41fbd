"""README does what it says; what it and its pages name exists."""

import re
import shlex
import subprocess
import sys

from estimator_mp.cli import train_flags
from tests import tiers
from tests.compat import processes
from tests.docs import guide_case, guides
from tools import try_readme, tutorials

import tensorflow as tf
from absl.testing import absltest

_WITH_TARGETS = (
  "README.md",
  "CONTRIBUTING.md",
  "docs/architecture.md",
  "docs/benchmarks.md",
  "docs/building.md",
  "docs/features.md",
  "docs/models.md",
  "docs/train.md",
)
_COMMANDS = {
  "estimator-mp": [sys.executable, "-m", "estimator_mp"],
  "python": [sys.executable],
}


class ReadmeTest(guide_case.GuideCase):
  @tiers.slow
  def test_what_it_says_block_by_block(self):
    """As tools/try_readme does, with this Python and its packages."""
    steps = tutorials.read(guides.read("README.md"))
    own = [step for step in steps if not self._is_in_clone(step)]
    ran = []

    def run(command):
      ran.append(command)
      return self._run(command)

    try_readme.follow(own, self.folder, run)
    self.assertLen(ran, 3)
    checkpoint = tf.train.load_checkpoint(str(self.folder / "runs/example"))
    self.assertEqual(checkpoint.get_tensor("global_step"), 200)

  def _is_in_clone(self, step):
    is_run = isinstance(step, tutorials.Run)
    return is_run and try_readme.is_in_clone(step.command)

  def _run(self, command):
    """Returns what a command prints."""
    environment = processes.environment(
      BUILD_WORKING_DIRECTORY=None, TF_CPP_MIN_LOG_LEVEL=None
    )
    name, *arguments = shlex.split(command)
    done = subprocess.run(
      [*_COMMANDS[name], *arguments],
      cwd=self.folder,
      env=environment,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      check=False,
    )
    self.assertEqual(done.returncode, 0, done.stdout)
    return done.stdout

  def test_every_bazel_target_exists(self):
    documents = "".join(map(guides.read, _WITH_TARGETS))
    targets = set(re.findall(r"//([\w/]+):(\w+)", documents))
    self.assertNotEmpty(targets)
    for package, name in targets:
      self.assertIn(f'"{name}"', guides.read(f"{package}/BUILD"))

  def test_every_flag_of_the_train_command_exists(self):
    commands = guide_case.commands("docs/train.md", "train")
    self.assertLen(commands, 5)
    for arguments in commands:
      if "--help" not in arguments:
        train_flags.TRAIN.parse(["train", *arguments])


if __name__ == "__main__":
  absltest.main()
