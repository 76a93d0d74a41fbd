"""The train command: one model, its layers on several devices, one Estimator.

  bazel run //estimator_mp:train -- --mesh=stage:3 --train_steps=600

`--help` lists the flags. `run_train.train(options)` is the same for programs.
"""

import signal
import sys

from estimator_mp import command_flags, train_flags

from absl import app, flags


def main(argv: list[str]) -> int:
  """Runs the command; the flags have been parsed.

  Args:
    argv: The command, alone.

  Returns:
    The exit code; see `run_train.run_command`.
  """
  del argv
  # TensorFlow takes seconds to import, and all flags are known to be right.
  from estimator_mp import run_train

  signal.signal(signal.SIGINT, signal.default_int_handler)
  run_train.show_log(flags.FLAGS["verbosity"])
  return run_train.run_command(train_flags.options_from_flags())


def _parse(argv: list[str]) -> list[str]:
  try:
    rest = train_flags.parse_flags(argv)
    train_flags.check_options(train_flags.options_from_flags())
  except ValueError as error:
    sys.exit(command_flags.complain("train", error))
  if not flags.FLAGS["verbosity"].present:
    command_flags.hush_tensorflow()
  return rest


def run_app() -> None:
  """Parses the command line, runs the command and exits."""
  # Until something is to be saved, Ctrl-C just ends the process.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  train_flags.define_flags()
  try:
    app.run(main, flags_parser=_parse)
  except KeyboardInterrupt:
    sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
  run_app()
