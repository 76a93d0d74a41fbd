"""The train command: one model, its layers on several devices, one Estimator.

  bazel run //estimator_mp:train -- --mesh=stage:3 --train_steps=600

`--help` lists the flags. `run_train.train(options)` is the same for programs.
"""

import importlib
import signal
import sys

from estimator_mp.cli import commands, train_flags

from absl import app, flags


def main(options: train_flags.TrainOptions) -> int:
  """Runs the command.

  Args:
    options: What its flags mean.

  Returns:
    The exit code; see `run_train.run_command` and `commands.ended`.
  """
  verbosity = flags.FLAGS["verbosity"]
  load = (
    importlib.import_module if verbosity.present else commands.import_quietly
  )
  run_train = load(train_flags.TRAIN.module)
  signal.signal(signal.SIGINT, signal.default_int_handler)
  run_train.show_log(verbosity)
  return commands.ended(
    "train",
    lambda: int(run_train.run_command(options)),
    flags.FLAGS[commands.DEBUG].value,
  )


def _parse(argv: list[str]) -> train_flags.TrainOptions:
  try:
    return train_flags.parse(argv, flags.FLAGS)
  except ValueError as error:
    sys.exit(commands.refuse("train", error))


def run_app() -> None:
  """Parses the command line, runs the command and exits."""
  # Until something is to be saved, Ctrl-C just ends the process.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  try:
    app.run(main, flags_parser=_parse)
  except KeyboardInterrupt:
    sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
  run_app()
