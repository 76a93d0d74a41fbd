"""Runs of the train command in this process."""

import contextlib
import io
from collections.abc import Callable

from estimator_mp.cli import commands, run_train, train_flags


def options(model_dir: str, *arguments: str) -> train_flags.TrainOptions:
  """Returns the options that flags mean, with the defaults for others."""
  common = [f"--model_dir={model_dir}", "--save_checkpoints_steps=40"]
  return train_flags.parse(["train", *common, *arguments])


def run_command(given: train_flags.TrainOptions) -> tuple[int, str, str]:
  """Returns the exit code, standard output and standard error."""
  return _run(lambda: given)


def run(model_dir: str, *arguments: str) -> tuple[int, str, str]:
  """Returns the same for flags, which may be wrong."""
  return _run(lambda: options(model_dir, *arguments))


def _run(
  parse: Callable[[], train_flags.TrainOptions],
) -> tuple[int, str, str]:
  with (
    contextlib.redirect_stdout(io.StringIO()) as output,
    contextlib.redirect_stderr(io.StringIO()) as errors,
  ):
    try:
      code = run_train.run_command(parse())
    except ValueError as error:
      code = commands.complain("train", error)
  return code, output.getvalue(), errors.getvalue()
