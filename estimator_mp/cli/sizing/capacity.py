"""The capacity command: the largest model that fits devices of a given memory.

  python -m estimator_mp.cli.sizing.capacity --model=transformer \
      --memory_per_device=256MiB --stages=1,2,4,8

`--help` lists the flags; docs/capacity.md says what is planned and measured.
"""

import sys

from estimator_mp.cli import commands
from estimator_mp.cli.sizing import capacity_flags


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  return commands.run(
    "capacity",
    capacity_flags.parse,
    argv,
    "estimator_mp.cli.sizing.run_capacity",
  )


def run_app() -> None:
  """Runs the command and exits."""
  sys.exit(main(list(sys.argv)))


if __name__ == "__main__":
  run_app()
