"""README's programs run, and its commands name targets that exist."""

import contextlib
import io
import os
import re

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.cli import train_flags

import numpy as np
import tensorflow as tf
from absl import flags
from absl.testing import absltest

_ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


def _read(path):
  with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
    return file.read()


def _input_fn():
  """What README's programs leave out: twenty numbers for each example."""
  rng = np.random.RandomState(3)
  inputs = rng.randn(64, 20).astype(np.float32)
  targets = inputs[:, :1] * 2 + inputs[:, 1:2]
  data = tf.data.Dataset.from_tensor_slices(({"x": inputs}, targets))
  return data.repeat().batch(16)


def _model_fn(features, labels, mode):
  """The model_fn that the sharding guide shards."""
  net = features["x"]
  for _ in range(3):
    net = tf.compat.v1.layers.dense(net, 16, tf.nn.relu)
  loss = tf.reduce_mean((tf.compat.v1.layers.dense(net, 1) - labels) ** 2)
  train_op = tf.compat.v1.train.AdagradOptimizer(0.1).minimize(
    loss, tf.compat.v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class ReadmeTest(absltest.TestCase):
  def test_every_program_runs(self):
    programs = re.findall(r"```python\n(.*?)```", _read("README.md"), re.S)
    self.assertLen(programs, 2)
    for number, program in enumerate(programs):
      model_dir = self.create_tempdir().full_path
      names = {"model_dir": model_dir, "input_fn": _input_fn}
      with (
        self.subTest(program=number),
        contextlib.redirect_stdout(io.StringIO()),
      ):
        exec(compile(program, f"README program {number}", "exec"), names)
        checkpoint = tf.train.load_checkpoint(model_dir)
        self.assertEqual(checkpoint.get_tensor("global_step"), 20)
        mesh = names["config"].create_mesh()
        self.assertIsInstance(mesh, estimator_mp.Mesh)

  def test_every_program_of_the_guides_runs(self):
    self._run_programs("docs/sharding.md", 7)
    self._run_programs("docs/pipeline.md", 6)
    self._run_programs("docs/replicas.md", 3)

  def _run_programs(self, guide, count):
    programs = re.findall(r"```python\n(.*?)```", _read(guide), re.S)
    self.assertLen(programs, count)
    for number, program in enumerate(programs):
      names = {
        "estimator_mp": estimator_mp,
        "tf": tf,
        "model_fn": _model_fn,
        "input_fn": _input_fn,
        "model_dir": self.create_tempdir().full_path,
      }
      with self.subTest(guide, program=number):
        exec(compile(program, f"{guide} {number}", "exec"), names)
        config = names["config"]
        estimator = names.get("estimator") or tf.estimator.Estimator(
          names["sharded"],
          config=estimator_mp.run_config(config, names["model_dir"]),
        )
        hook = toolbox.PlacementVerificationHook()
        estimator.train(_input_fn, steps=1, hooks=[hook])
        self.assertLen(hook.observed, len({*config.create_mesh().devices}))

  def test_every_bazel_target_exists(self):
    documents = _read("README.md") + _read("CONTRIBUTING.md")
    targets = set(re.findall(r"//([\w/]+):(\w+)", documents))
    self.assertNotEmpty(targets)
    for package, name in targets:
      self.assertIn(f'name = "{name}"', _read(f"{package}/BUILD"))

  def test_every_flag_of_the_train_command_exists(self):
    known = flags.FlagValues()
    train_flags.define_flags(known)
    commands = re.findall(r"//estimator_mp:train -- (.+)", _read("README.md"))
    self.assertLen(commands, 4)
    for command in commands:
      for name in re.findall(r"--(\w+)", command):
        if name != "help":
          self.assertIn(name, known, command)


if __name__ == "__main__":
  absltest.main()
