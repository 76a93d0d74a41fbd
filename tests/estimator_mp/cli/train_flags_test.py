"""The flags of the train command: defaults, paths, and one-line errors."""

import contextlib
import io
import os
from unittest import mock

from estimator_mp.cli import train_flags
from estimator_mp.config import options

from absl.testing import absltest, parameterized


def _parse(*arguments: str) -> train_flags.TrainOptions:
  return train_flags.TRAIN.parse(["train", *arguments])


class OptionsTest(parameterized.TestCase):
  def test_defaults(self):
    options = _parse()
    self.assertEqual(options, train_flags.TrainOptions())
    self.assertEqual(options.model, "cifar10_cnn")
    self.assertEqual(options.mesh, "stage:3")
    self.assertEqual(options.num_micro_batches, 4)

  def test_values(self):
    options = _parse(
      "--learning_rate=1e-2",
      "--train_steps=7",
      "--noverify_placement",
      "--trace_steps=10, 20",
    )
    self.assertEqual(options.trace_steps, (10, 20))
    self.assertEqual(_parse("--trace_steps=none").trace_steps, ())
    self.assertEqual(options.learning_rate, 0.01)
    self.assertEqual(options.train_steps, 7)
    self.assertFalse(options.verify_placement)

  def test_the_trace_command_is_of_one_machine(self):
    config = (
      '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]},'
      ' "task": {"type": "chief", "index": 0}}'
    )
    with mock.patch.dict(os.environ, TF_CONFIG=config):
      self.assertEqual(_parse("--startup_timeout=5").startup_timeout, 5)
      with self.assertRaisesRegex(
        ValueError, r"a cluster \(chief:1, worker:1\), .*; unset TF_CONFIG$"
      ):
        train_flags.TRACE.parse(["trace"])

  @parameterized.named_parameters(
    ("by_default", ["--model=mlp"], "/home/user/runs/mlp-digits-stage3"),
    (
      "of_a_mesh",
      ["--model=mlp", "--mesh=data:2,stage:2"],
      "/home/user/runs/mlp-digits-data2-stage2",
    ),
    ("relative", ["--model_dir=a/../b"], "/home/user/b"),
    ("absolute", ["--model_dir=/a/b"], "/a/b"),
    ("in_home", ["--model_dir=~/b"], "/home/someone/b"),
    ("remote", ["--model_dir=gs://a/b"], "gs://a/b"),
  )
  def test_model_dir(self, arguments, expected):
    """`bazel run` changes the directory and says what it was."""
    environment = {
      "BUILD_WORKING_DIRECTORY": "/home/user",
      "HOME": "/home/someone",
    }
    with mock.patch.dict(os.environ, environment):
      self.assertEqual(_parse(*arguments).model_dir, expected)

  def test_paths_without_bazel_start_at_the_working_directory(self):
    with mock.patch.dict(os.environ):
      os.environ.pop("BUILD_WORKING_DIRECTORY", None)
      options = _parse("--data_dir=x", "--export_dir=y")
    self.assertEqual(options.data_dir, os.path.join(os.getcwd(), "x"))
    self.assertEqual(options.export_dir, os.path.join(os.getcwd(), "y"))


class HelpTest(parameterized.TestCase):
  @parameterized.named_parameters(("long", "--help"), ("short", "-h"))
  def test_help_shows_every_flag_in_its_group(self, argument):
    with (
      contextlib.redirect_stdout(io.StringIO()) as output,
      self.assertRaises(SystemExit) as caught,
    ):
      _parse(argument)
    self.assertEqual(caught.exception.code, 0)
    text = output.getvalue()
    groups = ("Model and data:", "Sharding: the mesh:", "Training:", "Output:")
    self.assertContainsInOrder(groups, text)
    shown = {line.strip() for line in text.splitlines()}
    names = options.names(train_flags.TrainOptions)
    for name in (*names, "devices", "schedule", "top_k_fraction"):
      matching = [x for x in shown if x.partition("=")[0] == f"--{name}"]
      self.assertLen(matching, 1, name)


if __name__ == "__main__":
  absltest.main()
