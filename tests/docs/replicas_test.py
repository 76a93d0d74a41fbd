"""Every command of the guide to replicas runs, and prints what it says."""

import contextlib
import io
import os
import pathlib
import re
import shlex
from unittest import mock

from estimator_mp import inspect, trace
from estimator_mp.cli import run_record, run_train, train_flags

import tensorflow as tf
from absl.testing import absltest

_GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "replicas.md"


def setUpModule():
  # The train command does so itself, once its flags are parsed.
  tf.get_logger().setLevel("FATAL")


def _commands(name: str) -> list[list[str]]:
  """Returns the arguments of each use of a command in the guide."""
  text = _GUIDE.read_text(encoding="utf-8")
  return [
    shlex.split(arguments)
    for arguments in re.findall(
      rf"^    \S+ run //estimator_mp:{name} -- (.+)", text, re.M
    )
  ]


def _main(command, *arguments: str) -> str:
  """Returns what a command prints."""
  with (
    contextlib.redirect_stdout(io.StringIO()) as output,
    contextlib.redirect_stderr(io.StringIO()) as errors,
  ):
    code = command([command.__module__, *arguments])
  assert (code, errors.getvalue()) == (0, ""), errors.getvalue()
  return output.getvalue()


def _train(argv: list[str]) -> int:
  return run_train.run_command(train_flags.parse(argv))


class GuideTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.create_tempdir().full_path)
    self.enter_context(
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(self.folder))
    )

  def test_train(self):
    (arguments,) = _commands("train")
    _main(_train, *arguments, "--train_steps=3", "--model_dir=run")
    result = run_record.read_result(str(self.folder / "run"))
    assert result is not None
    self.assertEqual(f"--mesh={result.mesh}", arguments[0])
    self.assertLen(result.devices, 6)

  def test_trace(self):
    (arguments,) = _commands("trace")
    output = _main(trace.main, *arguments)
    (picture,) = re.findall(r"\]\((.+png)\)", _GUIDE.read_text())
    self.assertTrue((self.folder / "docs" / picture).exists(), output)
    self.assertIn(" between replicas, ", output)

  def test_inspect(self):
    first, *others = _commands("inspect")
    (example,) = re.findall(
      r"^```\n(\d+ replicas; .*?)```", _GUIDE.read_text(), re.M | re.S
    )
    self.assertIn(example, _main(inspect.main, *first))
    self.assertNotEmpty(others)
    for arguments in others:
      self.assertRegex(_main(inspect.main, *arguments), r" sums? by ring; ")


if __name__ == "__main__":
  absltest.main()
