"""Runs of the train command in this process."""

import json
import os
from collections.abc import Callable

from estimator_mp.cli import commands, results, run_train, train_flags
from tests.estimator_mp.cli import command_runs


def options(model_dir: str, *arguments: str) -> train_flags.TrainOptions:
  """Returns the options that flags mean, with the defaults for others."""
  common = [f"--model_dir={model_dir}", "--save_checkpoints_steps=40"]
  return train_flags.TRAIN.parse(["train", *common, *arguments])


def run_command(given: train_flags.TrainOptions) -> tuple[int, str, str]:
  """Returns the exit code, standard output and standard error."""
  return command_runs.run(lambda _: _ended(lambda: given))


def run(model_dir: str, *arguments: str) -> tuple[int, str, str]:
  """Returns the same for flags, which may be wrong."""
  return command_runs.run(
    lambda _: _ended(lambda: options(model_dir, *arguments))
  )


def _ended(given: Callable[[], train_flags.TrainOptions]) -> int:
  return commands.run_to_end("train", lambda: run_train.run_command(given()))


def result(model_dir: str) -> results.Result:
  """Returns the result that a run has written."""
  with open(os.path.join(model_dir, "result.json")) as file:
    return results.Result(**json.load(file))


def output(model_dir: str, *arguments: str) -> str:
  """Returns what a run prints, which ends well."""
  code, printed, errors = run(model_dir, *arguments)
  assert (code, errors) == (0, ""), errors
  return printed
