"""The inspect command: the partition that a model_fn would get, and its costs.

  python -m estimator_mp.inspect --model_fn=my_model:model_fn \
      --features='ids:int32[?,128]' --labels='int32[?,1]' --mesh=stage:4

`--help` lists the flags. `estimator_mp.inspect_model_fn` is the same for
programs.
"""

import sys

from estimator_mp.cli import commands, inspect_flags


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  return commands.run(
    "inspect", inspect_flags.parse, argv, "estimator_mp.cli.run_inspect"
  )


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
