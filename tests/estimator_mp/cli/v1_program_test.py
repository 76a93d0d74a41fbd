"""An unedited program of TensorFlow 1, docs/migrating.md's, with --v1.

It trains, is planned and compared, and is sharded by an added line.
"""

import os
import pathlib
import re
import shlex

import estimator_mp
from tests import tiers
from tests.compat import processes

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_REPOSITORY = pathlib.Path(estimator_mp.__file__).resolve().parents[1]

_GUIDE = (_REPOSITORY / "docs" / "migrating.md").read_text()
(_PROGRAM,) = re.findall(
  r"^```python\n(import numpy.*?)^```", _GUIDE, re.M | re.S
)
# What the guide says to type, by the name of the command.
_COMMANDS = {
  command.split()[1]: shlex.split(command)
  for command in re.findall(r"^ *(estimator-mp .*--v1 .*)$", _GUIDE, re.M)
}
# The command that pip makes of pyproject.toml's entry, and what to give it.
_RUN = ("-c", "from compat.program import run; run()")
(_RUN_ARGUMENTS,) = re.findall(r"^ *estimator-mp-run (--v1 .*)$", _GUIDE, re.M)
(_ADDED_LINE,) = re.findall(
  r"^ *(estimator_mp\.shard_estimator.*)$", _GUIDE, re.M
)


class V1ProgramTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = self.create_tempdir().full_path
    self.write(_PROGRAM)

  def write(self, program):
    pathlib.Path(self.folder, "train.py").write_text(program)

  def run_command(self, *arguments):
    environment = processes.environment(BUILD_WORKING_DIRECTORY=None)
    return processes.run(*arguments, cwd=self.folder, env=environment)

  def trained(self, model_dir):
    """Returns the losses that a run logs, and its last variables."""
    arguments = [*_RUN, *shlex.split(_RUN_ARGUMENTS)]
    done = self.run_command(*arguments, f"--model_dir={model_dir}")
    self.assertEqual(done.returncode, 0, done.stderr)
    losses = re.findall(r"loss = ([\d.e-]+)", done.stderr)
    self.assertLen(losses, 2)
    return losses, os.path.join(self.folder, model_dir)

  @tiers.slow
  def test_one_added_line(self):
    losses, plain = self.trained("plain")
    head, call, tail = _PROGRAM.partition("  estimator.train(")
    self.write(f"import estimator_mp\n{head}  {_ADDED_LINE}\n{call}{tail}")
    again, sharded = self.trained("sharded")
    self.assertEqual(losses, again)
    names = [name for name, _ in tf.train.list_variables(plain)]
    self.assertIn("hidden_1/weights/Adam", names)
    for name in names:
      np.testing.assert_array_equal(
        tf.train.load_variable(plain, name),
        tf.train.load_variable(sharded, name),
        name,
      )

  @tiers.slow
  def test_compare(self):
    _, *arguments = _COMMANDS["compare"]
    done = self.run_command("-m", "estimator_mp", *arguments)
    self.assertRegex(done.stdout, r"equal: .* to 0\.0e\+00 ", done.stderr)
    self.assertEqual(done.returncode, 0)

  @tiers.slow
  def test_plan(self):
    _, *arguments = _COMMANDS["plan"]
    done = self.run_command("-m", "estimator_mp", *arguments)
    self.assertRegex(
      done.stdout, r"2 +/device:CPU:2  table, logits", done.stderr
    )
    self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
  absltest.main()
