"""Runs of the train command in this process."""

import contextlib
import io

from estimator_mp.cli import run_train, train_flags

from absl import flags


def options(model_dir: str, *arguments: str) -> train_flags.TrainOptions:
  """Returns the options that flags mean, with the defaults for others."""
  values = flags.FlagValues()
  train_flags.define_flags(values)
  common = [f"--model_dir={model_dir}", "--save_checkpoints_steps=40"]
  train_flags.parse_flags(["train", *common, *arguments], values)
  return train_flags.options_from_flags(values)


def run_command(given: train_flags.TrainOptions) -> tuple[int, str, str]:
  """Returns the exit code, standard output and standard error."""
  with (
    contextlib.redirect_stdout(io.StringIO()) as output,
    contextlib.redirect_stderr(io.StringIO()) as errors,
  ):
    code = run_train.run_command(given)
  return code, output.getvalue(), errors.getvalue()
