"""README does what it says; what it and its pages name exists."""

import contextlib
import io
import os
import pathlib
import re
import shlex
import subprocess
import sys

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import train_flags
from tests import tiers
from tests.docs import guides

import tensorflow as tf
from absl import flags
from absl.testing import absltest

_WITH_TARGETS = (
  "README.md",
  "CONTRIBUTING.md",
  "docs/building.md",
  "docs/features.md",
  "docs/models.md",
  "docs/train.md",
)


class ReadmeTest(absltest.TestCase):
  @tiers.slow
  def test_what_it_says_block_by_block(self):
    """In a folder of its own, as a reader would."""
    text = guides.read("README.md")
    program, added = guides.programs("README.md")
    plan, equal = re.findall(r"\n\n```\n(.*?)\n```", text, re.S)
    inspect, compare = re.findall(r"^    estimator-mp (.+)", text, re.M)
    self.folder = pathlib.Path(self.create_tempdir().full_path)
    (self.folder / "train.py").write_text(program)
    self.assertIn(plan, self._run("-m", "estimator_mp", *shlex.split(inspect)))
    printed = self._run("-m", "estimator_mp", *shlex.split(compare))
    said, _, _ = equal.partition(", to ")
    self.assertStartsWith(printed.splitlines()[-1], said)
    model_dir = str(self.folder / "runs/example")
    self.assertIsNone(tf.train.latest_checkpoint(model_dir))
    before, train, after = program.partition("estimator.train(")
    (self.folder / "train.py").write_text(f"{before}{added}{train}{after}")
    self._run("train.py")
    checkpoint = tf.train.load_checkpoint(model_dir)
    self.assertEqual(checkpoint.get_tensor("global_step"), 200)

  def _run(self, *arguments):
    """Returns what Python prints."""
    paths = [str(pathlib.Path(estimator_mp.__file__).parents[1]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("BUILD_WORKING_DIRECTORY", None)
    done = subprocess.run(
      [sys.executable, *arguments],
      cwd=self.folder,
      env=environment,
      capture_output=True,
      text=True,
      check=False,
    )
    self.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout

  @tiers.slow
  def test_the_program_of_models_runs(self):
    (program,) = guides.programs("docs/models.md")
    model_dir = self.create_tempdir().full_path
    names = {"model_dir": model_dir, "input_fn": guides.input_fn}
    with contextlib.redirect_stdout(io.StringIO()):
      exec(compile(program, "docs/models.md", "exec"), names)
    checkpoint = tf.train.load_checkpoint(model_dir)
    self.assertEqual(checkpoint.get_tensor("global_step"), 20)
    mesh = names["config"].create_mesh()
    self.assertIsInstance(mesh, estimator_mp.Mesh)

  @tiers.newest_only
  def test_every_program_of_the_guides_runs(self):
    self._run_programs("docs/sharding.md", 7)
    self._run_programs("docs/pipeline.md", 10)
    self._run_programs("docs/replicas.md", 3)
    self._run_programs("docs/model_axis.md", 3)

  def _run_programs(self, guide, count):
    programs = guides.programs(guide)
    self.assertLen(programs, count)
    for number, program in enumerate(programs):
      names = {
        "estimator_mp": estimator_mp,
        "tf": tf,
        "model_fn": guides.model_fn,
        "input_fn": guides.input_fn,
        "model_dir": self.create_tempdir().full_path,
      }
      with self.subTest(guide, program=number):
        exec(compile(program, f"{guide} {number}", "exec"), names)
        config = names["config"]
        estimator = names.get("estimator") or tf.estimator.Estimator(
          names["sharded"],
          config=estimator_mp.run_config(
            config, names["model_dir"], checkpoint_save_graph_def=False
          ),
        )
        hook = toolbox.PlacementVerificationHook()
        estimator.train(guides.input_fn, steps=1, hooks=[hook])
        self.assertLen(hook.observed, len({*config.create_mesh().devices}))

  def test_every_bazel_target_exists(self):
    documents = "".join(map(guides.read, _WITH_TARGETS))
    targets = set(re.findall(r"//([\w/]+):(\w+)", documents))
    self.assertNotEmpty(targets)
    for package, name in targets:
      # tests/suite.bzl makes NAME_all beside NAME.
      name = name.removesuffix("_all")
      self.assertIn(f'name = "{name}"', guides.read(f"{package}/BUILD"))

  def test_every_flag_of_the_train_command_exists(self):
    known = flags.FlagValues()
    train_flags.TRAIN.define_flags(known)
    commands = re.findall(
      r"//estimator_mp:train -- (.+)", guides.read("docs/train.md")
    )
    self.assertLen(commands, 5)
    for command in commands:
      for name in re.findall(r"--(\w+)", command):
        if name != "help":
          self.assertIn(name, known, command)


if __name__ == "__main__":
  absltest.main()
