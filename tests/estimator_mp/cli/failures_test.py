"""Which errors a command tells in a line, and which keep their traceback."""

import estimator_mp  # noqa: F401
from estimator_mp.cli import (
  checkpoints,
  commands,
  compare_flags,
  failures,
  inspect_flags,
  train_flags,
)
from estimator_mp.cli.prediction import predict_flags, serve_flags
from estimator_mp.cli.sizing import capacity_flags
from estimator_mp.config import sharding_config
from tests.estimator_mp.cli import command_runs

import tensorflow as tf
from absl import flags
from absl.testing import absltest, parameterized

_GENERATOR = """Graph execution error:

2 root error(s) found.
  (0) INVALID_ARGUMENT: ValueError: bad record 3
Traceback (most recent call last):

  File "/lib/site-packages/tensorflow/python/ops/script_ops.py", line 269, in f
    ret = func(*args)

  File "/mine/program.py", line 14, in records
    raise ValueError("bad record 3")

ValueError: bad record 3


\t [[{{node PyFunc}}]]
\t [[IteratorGetNext]]
  (1) INVALID_ARGUMENT: ValueError: bad record 3
"""
_DATA = """Graph execution error:

Detected at node 'IteratorGetNext' defined at (most recent call last):
    File "/mine/program.py", line 25, in <module>
Node: 'IteratorGetNext'
2 root error(s) found.
  (0) DATA_LOSS: corrupted record at 0 (Is this even a TFRecord file?)
\t [[{{node IteratorGetNext}}]]
0 successful operations.
"""
_STEP = """Graph execution error:

Detected at node 'MatMul' defined at (most recent call last):
    File "/mine/program.py", line 25, in <module>
Node: 'MatMul'
{{function_node __wrapped__MatMul}} Matrix size-incompatible: [1,2]\t [[x]]
"""


def _raised(make):
  """Returns an error as it is caught."""
  try:
    raise make
  except Exception as error:
    return error


def _own_error():
  try:
    sharding_config.ShardingConfig(num_micro_batches=0)
  except ValueError as error:
    return error
  raise AssertionError


class LineTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "a_dataset_that_raises",
      tf.errors.InvalidArgumentError(None, None, _GENERATOR),
      "reading the input failed: ValueError: bad record 3 (/mine/program.py,"
      " line 14); fix input_fn, or the data",
    ),
    (
      "data_that_cannot_be_read",
      tf.errors.DataLossError(None, None, _DATA),
      "reading the input failed: corrupted record at 0 (Is this even a TFRecord"
      " file?); fix input_fn, or the data",
    ),
    (
      "an_op_that_fails",
      tf.errors.InvalidArgumentError(None, None, _STEP),
      "a step failed: Matrix size-incompatible: [1,2]; --debug shows where",
    ),
    (
      "a_loss_that_is_no_number",
      tf.estimator.NanLossDuringTrainingError(),
      "a step failed: NaN loss during training.; --debug shows where",
    ),
    (
      "a_class_of_this_project",
      checkpoints.CheckpointError("choose another"),
      "choose another",
    ),
    ("the_program_s_own", ValueError("of the program"), None),
    ("a_mistake_in_python", KeyError("x"), None),
    ("a_file_of_the_program", FileNotFoundError("data.csv"), None),
  )
  def test_line(self, error, expected):
    self.assertEqual(failures.line_of(_raised(error)), expected)

  def test_what_this_project_checks(self):
    error = _own_error()
    self.assertIs(type(error), ValueError)
    self.assertEqual(failures.line_of(error), str(error))


class EndTest(absltest.TestCase):
  def _run(self, error, debug):
    def fail():
      raise error

    return command_runs.run(lambda _: commands.ended("train", fail, debug))

  def test_the_traceback_is_for_debug_only(self):
    error = checkpoints.CheckpointError("choose another")
    self.assertEqual(
      self._run(error, False), (1, "", "train: choose another\n")
    )
    code, _, errors = self._run(error, True)
    first, *_, last = errors.splitlines()
    self.assertEqual(code, 1)
    self.assertEqual(first, "Traceback (most recent call last):")
    self.assertEqual(last, "train: choose another")

  def test_an_error_of_the_program_stays_its_own(self):
    with self.assertRaisesRegex(ValueError, "^of the program$"):
      self._run(ValueError("of the program"), False)

  def test_each_command_has_the_flag(self):
    for command in (
      capacity_flags.COMMAND,
      compare_flags.COMMAND,
      inspect_flags.COMMAND,
      predict_flags.COMMAND,
      serve_flags.COMMAND,
      train_flags.TRACE,
      train_flags.TRAIN,
    ):
      values = flags.FlagValues()
      command.define_flags(values)
      values.mark_as_parsed()
      with self.subTest(command.name):
        self.assertIn("--debug", command.help(values))


if __name__ == "__main__":
  absltest.main()
