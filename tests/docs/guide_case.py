"""What tests of guides share: a folder, in which a guide's commands run."""

import contextlib
import io
import os
import pathlib
import re
import shlex
import sys
from collections.abc import Callable
from unittest import mock

from estimator_mp.cli import plan_flags, results, run_train, train_flags
from tests.docs import guides
from tests.estimator_mp.cli import train_runs

import tensorflow as tf
from absl.testing import parameterized


class GuideCase(parameterized.TestCase):
  """A test of a guide.

  Attributes:
    folder: Where a reader of the guide would be.
  """

  def setUp(self):
    super().setUp()
    # The commands do so themselves, once their flags are parsed.
    tf.get_logger().setLevel("FATAL")
    self.folder = pathlib.Path(self.create_tempdir().full_path)
    self.enter_context(
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(self.folder))
    )
    self.addCleanup(os.chdir, os.getcwd())
    os.chdir(self.folder)

  def train(self, arguments: list[str]) -> results.Result:
    """Runs the train command for three steps."""
    fewer = ["--train_steps=3", "--model_dir=run", "--trace_steps=none"]
    options = train_flags.TRAIN.parse(["train", *arguments, *fewer])
    with contextlib.redirect_stdout(io.StringIO()) as output:
      self.assertEqual(run_train.run_command(options), 0, output.getvalue())
    return train_runs.result(str(self.folder / "run"))

  def plan(self, guide: str) -> str:
    """Returns what planning the guide's first program prints."""
    (arguments,) = commands(guide, "plan")
    (module,) = re.findall(r"--model_fn=(\w+):", " ".join(arguments))
    (self.folder / f"{module}.py").write_text(guides.programs(guide)[0])
    with (
      mock.patch.object(sys, "path", [str(self.folder), *sys.path]),
      contextlib.redirect_stdout(io.StringIO()) as output,
    ):
      self.assertEqual(plan_flags.COMMAND.main(["plan", *arguments]), 0)
    return output.getvalue()

  def picture(self, guide: str) -> pathlib.Path:
    """Returns where a command has drawn the guide's one picture."""
    (path,) = re.findall(r"\]\((pictures\S+png)\)", guides.read(guide))
    drawn = pathlib.Path(self.folder, "docs", path)
    self.assertTrue(drawn.exists(), drawn)
    return drawn


def printed(command: Callable[[list[str]], int], *arguments: str) -> str:
  """Returns the output of a command that succeeds without a message."""
  with (
    contextlib.redirect_stdout(io.StringIO()) as output,
    contextlib.redirect_stderr(io.StringIO()) as errors,
  ):
    code = command([command.__module__, *arguments])
  assert (code, errors.getvalue()) == (0, ""), errors.getvalue()
  return output.getvalue()


def commands(guide: str, name: str) -> list[list[str]]:
  """Returns the arguments of each use of a command in a guide."""
  lines = re.findall(
    rf"^    estimator-mp {name} (.+)", guides.read(guide), re.M
  )
  return [shlex.split(line) for line in lines]
