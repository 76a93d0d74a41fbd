"""The launch command: a local cluster, a process for each task.

  python -m estimator_mp.cli.launching.launch --tasks=3 -- train.py --steps=100

`--help` lists the flags.
"""

import sys

from estimator_mp.cli import commands
from estimator_mp.cli.launching import launch_flags, run_launch


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  try:
    options = launch_flags.parse(argv)
  except ValueError as error:
    return commands.complain("launch", error)
  return run_launch.run_command(options)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
