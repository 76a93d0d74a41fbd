"""The launch command: a local cluster, a process for each task.

  python -m estimator_mp.cli.launching.launch --tasks=3 -- train.py --steps=100

`--help` lists the flags.
"""

import sys

from estimator_mp.cli import commands
from estimator_mp.cli.launching import launch_flags, run_launch

from absl import flags


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  flag_values = flags.FlagValues()
  try:
    options = launch_flags.parse(argv, flag_values)
  except ValueError as error:
    return commands.refuse("launch", error)
  # Tasks have the user's settings of TensorFlow's log, not those of commands.
  return commands.ended(
    "launch",
    lambda: run_launch.run_command(options),
    flag_values[commands.DEBUG].value,
  )


if __name__ == "__main__":
  sys.exit(main(sys.argv))
