"""Which errors were raised on purpose, and which are mistakes of the code."""

from estimator_mp.cli import checkpoints, commands, own_errors
from tests.estimator_mp.cli import command_runs

from absl.testing import absltest, parameterized

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


class OwnErrorsTest(parameterized.TestCase):
  @parameterized.parameters("compat.a", "estimator_mp.cli.a", "model_fns.a")
  def test_what_a_raise_of_this_project_says(self, module):
    for text in _ON_PURPOSE:
      with self.subTest(text):
        self.assertTrue(own_errors.is_deliberate(_caught(text, module)))

  def test_a_mistake_of_this_project_is_none(self):
    for text in (*_MISTAKES, "raise KeyError('x')", "[][1]"):
      with self.subTest(text):
        error = _caught(text, "estimator_mp.a")
        self.assertFalse(own_errors.is_deliberate(error))
        self.assertEqual(own_errors.raised_in(error), "estimator_mp")

  def test_nothing_that_a_program_raises_is(self):
    for text in (*_ON_PURPOSE, *_MISTAKES):
      with self.subTest(text):
        error = _caught(text, "theirs.estimator_mp")
        self.assertFalse(own_errors.is_deliberate(error))

  def test_a_class_of_this_project_is_wherever_it_is_raised(self):
    error = checkpoints.CheckpointError("choose another")
    self.assertTrue(own_errors.is_deliberate(error))


class CommandTest(absltest.TestCase):
  def test_a_mistake_keeps_its_traceback(self):
    """It was told in a line, as if an option were wrong, until --debug."""

    def fail(argv):
      del argv
      raise _caught("int('x')", "estimator_mp.a")

    for run in (
      lambda argv: commands.ended("train", lambda: fail(argv)),
      lambda _: commands.refuse("train", _caught("int('x')", "compat.a")),
    ):
      with self.assertRaisesRegex(ValueError, "^invalid literal for int"):
        command_runs.run(run)

  def test_what_is_wrong_with_options_is_a_line(self):
    error = _caught("raise ValueError('use 2')", "estimator_mp.a")
    self.assertEqual(
      command_runs.run(lambda _: commands.refuse("train", error)),
      (2, "", "train: use 2\n"),
    )


if __name__ == "__main__":
  absltest.main()
