"""Which errors a command tells in a line, and which keep their traceback."""

import estimator_mp  # noqa: F401
from estimator_mp.cli import (
  commands,
  deliberate_errors,
  failures,
  model_dirs,
)
from tests.estimator_mp.cli import command_runs

import tensorflow as tf
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


class LineTest(parameterized.TestCase):
  @parameterized.parameters(
    (
      tf.errors.InvalidArgumentError(None, None, _GENERATOR),
      "reading the input failed: ValueError: bad record 3 (/mine/program.py,"
      " line 14); fix input_fn, or the data",
    ),
    (
      tf.errors.DataLossError(None, None, _DATA),
      "reading the input failed: corrupted record at 0 (Is this even a TFRecord"
      " file?); fix input_fn, or the data",
    ),
    (
      tf.errors.InvalidArgumentError(None, None, _STEP),
      "a step failed: Matrix size-incompatible: [1,2]; --debug shows where",
    ),
    (
      tf.estimator.NanLossDuringTrainingError(),
      "a step failed: NaN loss during training.; --debug shows where",
    ),
    (model_dirs.ModelDirError("choose another"), "choose another"),
    (ValueError("of the program"), None),
    (KeyError("x"), None),
    (FileNotFoundError("data.csv"), None),
  )
  def test_line(self, error, expected):
    self.assertEqual(failures.error_line(_raised(error)), expected)


class EndTest(absltest.TestCase):
  def _run(self, error, debug):
    def fail():
      raise error

    return command_runs.run(lambda _: commands.run_to_end("train", fail, debug))

  def test_the_traceback_is_for_debug_only(self):
    error = model_dirs.ModelDirError("choose another")
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


_ON_PURPOSE = (
  "raise ValueError('use 2')",
  "try:\n  int('x')\nexcept ValueError as e:\n  raise ValueError('2') from e",
  "with open('/dev/null'):\n  raise ValueError('use 2')",
  "try:\n  raise ValueError('use 2')\nfinally:\n  print('', end='')",
)
_MISTAKES = (
  "int('x')",
  "a, b = [1]",
  "[].index(1)",
  "list(zip([1], [], strict=True))",
  "try:\n  int('x')\nexcept ValueError:\n  raise",
)


def _caught(text, module):
  """Returns the error that a program of a module raises."""
  try:
    exec(text, {"__name__": module})
  except Exception as error:
    return error
  raise AssertionError(text)


class DeliberateErrorsTest(parameterized.TestCase):
  @parameterized.parameters("compat.a", "estimator_mp.cli.a", "model_fns.a")
  def test_what_a_raise_of_this_project_says(self, module):
    for text in _ON_PURPOSE:
      with self.subTest(text):
        self.assertTrue(deliberate_errors.is_deliberate(_caught(text, module)))

  def test_a_mistake_of_this_project_is_none(self):
    for text in (*_MISTAKES, "raise KeyError('x')", "[][1]"):
      with self.subTest(text):
        error = _caught(text, "estimator_mp.a")
        self.assertFalse(deliberate_errors.is_deliberate(error))
        self.assertEqual(deliberate_errors.raised_in(error), "estimator_mp")

  def test_nothing_that_a_program_raises_is(self):
    for text in (*_ON_PURPOSE, *_MISTAKES):
      with self.subTest(text):
        error = _caught(text, "theirs.estimator_mp")
        self.assertFalse(deliberate_errors.is_deliberate(error))

  def test_a_class_of_this_project_is_wherever_it_is_raised(self):
    error = model_dirs.ModelDirError("choose another")
    self.assertTrue(deliberate_errors.is_deliberate(error))

  def test_a_mistake_keeps_its_traceback(self):
    """It was told in a line, as if an option were wrong, until --debug."""

    def fail(argv):
      del argv
      raise _caught("int('x')", "estimator_mp.a")

    for run in (
      lambda argv: commands.run_to_end("train", lambda: fail(argv)),
      lambda _: commands.print_misuse("train", _caught("int('x')", "compat.a")),
    ):
      with self.assertRaisesRegex(ValueError, "^invalid literal for int"):
        command_runs.run(run)


if __name__ == "__main__":
  absltest.main()
