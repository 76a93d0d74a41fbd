"""The plan command: its output, its files, the guide, the errors."""

import json
import os
import pathlib
import re
import shlex
import sys
from unittest import mock

import estimator_mp
from estimator_mp.cli import main, plan_flags
from estimator_mp.config import placement_file
from tests import tiers
from tests.estimator_mp.cli import command_runs, user_programs

from absl.testing import absltest

# A program of the guide's model.
_TRAIN = """
import argparse

import my_model
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--units", type=int)
params = {"units": [parser.parse_args().units] * 2}


def input_fn():
  ids = np.zeros([64, 20], np.int32)
  data = tf.data.Dataset.from_tensor_slices(({"ids": ids}, ids[:, :1]))
  return data.repeat().batch(32)


tf.estimator.Estimator(my_model.model_fn, params=params).train(input_fn)
"""


_MACHINE = """
name = "one"
[device]
kind = "GPU"
flops = { float32 = 1e12 }
memory_bytes = 1e9
memory_bandwidth = 1e11
launch_seconds = 1e-6
[[links]]
level = "host"
devices = 2
bandwidth = 1e9
latency = 1e-6
"""
_THEIRS, _X = "--model_fn=their_program:model_fn", "--features=x:float32[?,10]"


def run_main(*arguments):
  """Returns the exit code, standard output and standard error."""
  return command_runs.run(plan_flags.COMMAND.main, *arguments)


class CommandTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.folder = str(user_programs.working_directory(self))
    program = pathlib.Path(self.folder, "their_program.py")
    program.write_text(user_programs.MODULE)

  def test_a_program_of_this_directory(self):
    code, output, errors = run_main(
      _THEIRS,
      _X,
      "--labels=float32[?,1]",
      '--params={"units": 6}',
      '--placement=[["^first/", 1], [".", 0]]',
      "--mesh=stage:2",
      "--out=pictures",
    )
    self.assertEqual((code, errors), (0, ""))
    self.assertContainsInOrder(
      [
        "their_program:model_fn on stage:2",
        "0      /device:CPU:0  second           7  ",
        "1      /device:CPU:1  first           66  ",
        "sent between devices each training step: ",
        "  /device:CPU:1 -> /device:CPU:0: ",
      ],
      output,
    )
    folder = os.path.join(self.folder, "pictures")
    names = [f"placement.{x}" for x in ("png", "svg", "dot", "json")]
    self.assertCountEqual(os.listdir(folder), names)
    for name in names:
      self.assertIn(os.path.join(folder, name), output)
    mesh = estimator_mp.Mesh.create("stage:2")
    saved = placement_file.load_placement(folder, mesh)
    self.assertEqual(saved.ops["first/kernel"], 1)
    facts = json.loads(pathlib.Path(folder, "placement.json").read_text())
    self.assertLen(facts["step"]["devices"], 2)
    self.assertGreater(facts["step"]["devices"][1]["flops"], 0)

  def test_json(self):
    machine = pathlib.Path(self.folder, "one.toml")
    machine.write_text(_MACHINE)
    arguments = (_THEIRS, _X, "--labels=float32[?,1]", "--mesh=stage:2")
    code, output, errors = run_main(
      *arguments, "--batch_size=64", f"--machine={machine}", "--json"
    )
    self.assertEqual((code, errors), (0, ""))
    facts = json.loads(output)
    self.assertEqual((facts["num_examples"], facts["mesh"]), (64, "stage:2"))
    self.assertEqual(facts["machine"]["name"], "one")

  def test_a_program_s_model_dir_stays_as_it_is(self):
    program = user_programs.SCRIPT.replace(
      "RunConfig(", "RunConfig(model_dir='run', "
    )
    pathlib.Path(self.folder, "train.py").write_text(program)
    self.addCleanup(os.chdir, os.getcwd())
    code, output, errors = run_main(
      "--mesh=stage:2", "--", "train.py", "--units=6"
    )
    self.assertEqual((code, errors), (0, ""))
    self.assertStartsWith(
      output, "train.py --units=6 on stage:2, a batch of 8 examples\n"
    )
    self.assertFalse(pathlib.Path(self.folder, "run").exists())

  def test_inspect_is_its_former_name(self):
    code, output, errors = command_runs.run(
      lambda words: main.main([words[0], "inspect", *words[1:]]),
      "--mesh=stage:2",
    )
    self.assertEqual((code, errors), (0, "inspect: the command is plan now\n"))
    self.assertStartsWith(output, "cifar10_cnn on stage:2, ")


class GuideTest(absltest.TestCase):
  @tiers.slow
  def test_every_command_of_the_guide_runs(self):
    root = pathlib.Path(__file__).parents[3]
    guide = (root / "docs" / "plan.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    folder = pathlib.Path(self.create_tempdir().full_path)
    (folder / "my_model.py").write_text(program)
    (folder / "train.py").write_text(_TRAIN)
    joined = guide.replace("\\\n", " ")
    commands = re.findall(r"^    estimator-mp plan(.*)", joined, re.M)
    self.assertLen(commands, 7)
    self.addCleanup(os.chdir, os.getcwd())
    with (
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(folder)),
      mock.patch.object(sys, "path", list(sys.path)),
    ):
      for command in commands:
        arguments = shlex.split(command)
        code, output, errors = run_main(*arguments)
        self.assertEqual((code, errors), (0, ""), command)
        self.assertIn("sent between devices each training step: ", output)
    self.assertTrue((folder / "docs" / "pictures" / "placement.png").exists())
    self.assertIn("](pictures/placement.png)", guide)


class DefaultsTest(absltest.TestCase):
  def test_without_flags_it_shows_this_projects_model(self):
    code, output, errors = run_main()
    self.assertEqual((code, errors), (0, ""))
    self.assertContainsInOrder(
      [
        "cifar10_cnn on stage:3",
        "stage  device",
        "0      /device:CPU:0  block1/conv1",
        "2      /device:CPU:2  block3/logits",
        "sent between devices each training step: ",
      ],
      output,
    )


if __name__ == "__main__":
  absltest.main()
