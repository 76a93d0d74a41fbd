"""The compare command: its output, its exit codes, its errors."""

import os
import pathlib

from estimator_mp.cli import compare_flags
from tests import tiers
from tests.estimator_mp.cli import command_runs

from absl.testing import absltest, parameterized

# What a user has in a file of his own.
PROGRAM = """
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def input_fn(params):
  x = np.random.RandomState(3).rand(32, 4).astype(np.float32)
  data = tf.data.Dataset.from_tensor_slices(({"x": x}, x[:, :1]))
  return data.repeat().batch(params["batch_size"])


def model_fn(features, labels, mode, params):
  net = v1.layers.dense(features["x"], 8, tf.tanh, name="first")
  net = tf.nn.dropout(net, params.get("rate", 0.0))
  net = v1.layers.dense(net, 1, name="second")
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_global_step()
  train_op = v1.train.AdamOptimizer(0.01, epsilon=1e-4).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def no_input(params):
  return 1 / 0


def no_feature(params):
  return input_fn(params).map(lambda x, y: ({"z": x["x"]}, y))


def broken_data(params):
  def records():
    yield [0.0] * 4, [0.0]
    raise OSError("the camera is off")

  kinds = (tf.float32, tf.float32)
  data = tf.data.Dataset.from_generator(records, kinds, ((4,), (1,)))
  return data.batch(1).map(lambda x, y: ({"x": x}, y))
"""
_THEIRS = (
  "--model_fn=their_compared:model_fn",
  "--input_fn=their_compared:input_fn",
  "--mesh=data:2,stage:2",
)


_EIGHT = '--params={"batch_size": 8}'


def run_main(*arguments):
  """Returns the exit code, standard output and standard error."""
  return command_runs.run(compare_flags.COMMAND.main, *arguments)


class CommandTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    folder = self.create_tempdir().full_path
    pathlib.Path(folder, "their_compared.py").write_text(PROGRAM)
    self.enter_context(
      absltest.mock.patch.dict(os.environ, BUILD_WORKING_DIRECTORY=folder)
    )

  def test_a_program_of_this_directory(self):
    code, output, errors = run_main(
      *_THEIRS, _EIGHT, "--num_micro_batches=2", "--steps=2"
    )
    self.assertEqual((code, errors), (0, ""))
    first, *lines = output.splitlines()
    self.assertEqual(
      first,
      "plain and sharded on data:2,stage:2 with 2 micro-batch(es), from initial"
      " values, on the same 2 batch(es)",
    )
    self.assertRegex(
      lines[1],
      "^step  plain loss +sharded +differs by  gradient norm +sharded +differs"
      " by  variables differ by  most of all$",
    )
    self.assertRegex(
      lines[-1],
      r"^equal: losses, gradient norms and 15 variables of 2 step\(s\), to \S+ "
      r"\(tolerance 1e-05\)$",
    )

  def test_what_parts(self):
    params = '--params={"batch_size": 8, "rate": 0.5}'
    parted = [*_THEIRS, params, "--steps=1", "--mesh=model:2"]
    code, output, errors = run_main(*parted)
    self.assertEqual((code, errors), (1, ""))
    self.assertRegex(
      output.splitlines()[-1],
      r"^not equal: from step 1 on they differ, by \S+ \(tolerance 1e-05\); "
      r"random ops \(dropout/",
    )
    code, _, _ = run_main(*parted, "--tolerance=0.999")
    self.assertEqual(code, 1)
    # A batch that is cut draws what the whole one does.
    code, _, _ = run_main(*_THEIRS, params, "--steps=1")
    self.assertEqual(code, 0)

  @tiers.slow
  def test_a_model_of_this_project(self):
    code, output, errors = run_main(
      "--steps=1", "--num_micro_batches=4", "--restart_each_step"
    )
    self.assertEqual((code, errors), (0, ""))
    self.assertIn("hidden1/kernel/Adam_1", output)

  @parameterized.parameters(
    (
      ["--input_fn=a:b"],
      "--input_fn is given without --model_fn; give the mod",
    ),
    (
      ["--model_fn=a:b"],
      "--model_fn=a:b needs --input_fn: its training data, ",
    ),
    (
      [*_THEIRS, "--model=mlp"],
      "--model is for .*=their_compared:model_fn is ",
    ),
    ([*_THEIRS, "--input_fn=f"], "--input_fn=f is not module:function; write "),
    (
      ["--tolerance=1"],
      "tolerance=1.0 is out of range; use .* 0 up to 1, such",
    ),
    (
      [*_THEIRS, "--input_fn=their_compared:no_input"],
      "--input_fn=their_compared:no_input raised ZeroDivisionError: division"
      r".*their_compared\.py, line \d+\); fix that first$",
    ),
    (
      [*_THEIRS, "--params={}"],
      "--input_fn=their_compared:input_fn raised KeyError: 'batch_size' ",
    ),
    (
      [*_THEIRS, "--input_fn=their_compared:no_feature", _EIGHT],
      "--model_fn=their_compared:model_fn raised KeyError: 'x' "
      r"\(.*their_compared\.py, line \d+\); check --params, and",
    ),
  )
  def test_error(self, arguments, expected):
    code, output, errors = run_main(*arguments)
    self.assertEqual((code, output), (2, ""))
    self.assertRegex(errors, f"^compare: {expected}")
    self.assertLen(errors.splitlines(), 1)

  def test_a_dataset_that_raises(self):
    arguments = [
      *_THEIRS,
      "--input_fn=their_compared:broken_data",
      "--mesh=stage:2",
    ]
    expected = (
      "compare: reading the input failed: OSError: the camera is off "
      r"\(.*their_compared\.py, line \d+\); fix input_fn, or the data\n$"
    )
    code, _, errors = run_main(*arguments, "--params={}")
    self.assertEqual(code, 1)
    self.assertRegex(errors, f"^{expected}")
    _, _, errors = run_main(*arguments, "--params={}", "--debug")
    self.assertRegex(errors, rf"^Traceback \(most recent [\s\S]*\n{expected}")


if __name__ == "__main__":
  absltest.main()
