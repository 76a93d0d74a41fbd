"""The inspect command: its output, its files, the guide, the errors."""

import json
import os
import pathlib
import re
import shlex
import sys
from unittest import mock

import estimator_mp
from estimator_mp.cli import inspect_flags
from estimator_mp.config import placement_file
from tests.estimator_mp.cli import command_runs

from absl.testing import absltest, parameterized

# What a user has in a file of their own.
PROGRAM = """
import tensorflow as tf
from absl import flags

v1 = tf.compat.v1
flags.DEFINE_string("mesh", "mine", "A flag that the command has too.")
number = 3


def model_fn(features, labels, mode, params):
  assert flags.FLAGS.mesh == "mine"
  net = v1.layers.dense(features["x"], params["units"], name="first")
  net = v1.layers.dense(net, 1, name="second")
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def no_spec(features):
  v1.layers.dense(features["x"], 1)
  return 5
"""


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


_THEIRS, _X = "--model_fn=their_program:model_fn", "--features=x:float32[?,10]"


def run_main(*arguments):
  """Returns the exit code, standard output and standard error."""
  return command_runs.run(inspect_flags.COMMAND.main, *arguments)


class CommandTest(parameterized.TestCase):
  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.folder = absltest.get_default_test_tmpdir()
    pathlib.Path(cls.folder, "their_program.py").write_text(PROGRAM)
    pathlib.Path(cls.folder, "broken_program.py").write_text("\n1 / 0\n")
    cls._directory = os.environ.get("BUILD_WORKING_DIRECTORY")
    os.environ["BUILD_WORKING_DIRECTORY"] = cls.folder

  @classmethod
  def tearDownClass(cls):
    super().tearDownClass()
    del os.environ["BUILD_WORKING_DIRECTORY"]
    if cls._directory is not None:
      os.environ["BUILD_WORKING_DIRECTORY"] = cls._directory

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
    self.assertLen(facts["costs"], 2)
    self.assertGreater(facts["costs"][1]["flops"], 0)

  @parameterized.parameters(
    (
      ["--mesh=stage:9"],
      "the model has 4 layer(s) with weights, fewer than the",
    ),
    (
      ["--v1_packages=bert"],
      "--v1_packages is for programs of TensorFlow 1; gi",
    ),
    (["--v1"], "--v1 is given without --model_fn; give the"),
    (
      ["--labels=int32[?]"],
      "--labels is given without --model_fn; give the mo",
    ),
    (
      [_THEIRS],
      f"{_THEIRS} needs --features: its features, such as --features",
    ),
    (
      [_THEIRS, "--features=x"],
      "--features=x: 'x' is not name:dtype[dimension",
    ),
    (
      [_THEIRS, _X, "--params=[1]"],
      "--params=[1] is not a JSON object; write ",
    ),
    (
      ["--model_fn=their_program", _X],
      "--model_fn=their_program is not module",
    ),
    (
      ["--model_fn=absent:f", _X],
      "--model_fn=absent:f: there is no module abs",
    ),
    (
      ["--model_fn=their_program:f", _X],
      "--model_fn=their_program:f: module their_program has no function f; it "
      "has model_fn, no_spec",
    ),
    (
      ["--model_fn=their_program:number", _X],
      "--model_fn=their_program:number: module their_program has something ",
    ),
    (
      ["--model_fn=broken_program:f", _X],
      "importing broken_program raised ZeroDivisionError: division by zero (",
    ),
    ([_THEIRS, "--features=y:bool[]"], f"{_THEIRS} raised KeyError: 'x' ("),
    (
      ["--model_fn=their_program:no_spec", _X, "--labels=int32[?]"],
      "model_fn takes no labels, but labels were given; leave them out",
    ),
    (
      ["--model_fn=their_program:no_spec", _X],
      "--model_fn=their_program:no_spec returned 5; a model_fn returns an Esti",
    ),
  )
  def test_bad_use_is_one_line_and_exit_code_2(self, arguments, message):
    code, output, errors = run_main(*arguments)
    self.assertEqual((code, output), (2, ""))
    self.assertStartsWith(errors, f"inspect: {message}")
    self.assertLen(errors.splitlines(), 1)


class GuideTest(absltest.TestCase):
  def test_every_command_of_the_guide_runs(self):
    root = pathlib.Path(__file__).parents[3]
    guide = (root / "docs" / "inspect.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    folder = pathlib.Path(self.create_tempdir().full_path)
    (folder / "my_model.py").write_text(program)
    (folder / "train.py").write_text(_TRAIN)
    joined = guide.replace("\\\n", " ")
    commands = re.findall(
      r"^    .*(?:estimator_mp:|estimator-mp )inspect(.*)", joined, re.M
    )
    self.assertLen(commands, 5)
    self.addCleanup(os.chdir, os.getcwd())
    with (
      mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=str(folder)),
      mock.patch.object(sys, "path", list(sys.path)),
    ):
      for command in commands:
        arguments = shlex.split(command.removeprefix(" -- "))
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
