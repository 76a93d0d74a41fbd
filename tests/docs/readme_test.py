"""README's programs run, and its commands name targets that exist."""

import contextlib
import io
import re

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import train_flags
from tests import tiers
from tests.docs import guides

import tensorflow as tf
from absl import flags
from absl.testing import absltest


class ReadmeTest(absltest.TestCase):
  @tiers.slow
  def test_every_program_runs(self):
    programs = guides.programs("README.md")
    self.assertLen(programs, 2)
    for number, program in enumerate(programs):
      model_dir = self.create_tempdir().full_path
      names = {"model_dir": model_dir, "input_fn": guides.input_fn}
      with (
        self.subTest(program=number),
        contextlib.redirect_stdout(io.StringIO()),
      ):
        exec(compile(program, f"README program {number}", "exec"), names)
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
    documents = guides.read("README.md") + guides.read("CONTRIBUTING.md")
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
      r"//estimator_mp:train -- (.+)", guides.read("README.md")
    )
    self.assertLen(commands, 5)
    for command in commands:
      for name in re.findall(r"--(\w+)", command):
        if name != "help":
          self.assertIn(name, known, command)


if __name__ == "__main__":
  absltest.main()
