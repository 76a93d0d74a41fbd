"""The trace command: what a training step really does, as a picture.

  bazel run //estimator_mp:trace -- --mesh=stage:3 --num_micro_batches=8 \
      --schedule=1f1b --out=/tmp/trace

It trains the train command's model for some steps, keeps nothing of it, and
draws the last step. `--help` lists the flags.
"""

import sys

from estimator_mp.cli import commands, train_flags


def main(argv: list[str]) -> int:
  """Runs the command.

  Args:
    argv: The command and its arguments.

  Returns:
    The exit code: 0; 2 if an option or the data is wrong.
  """
  return commands.run(
    "trace", train_flags.parse_trace, argv, "estimator_mp.cli.run_trace"
  )


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
