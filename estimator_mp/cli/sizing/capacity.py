"""The capacity command: the largest model that fits devices of a given memory.

  python -m estimator_mp.cli.sizing.capacity --model=transformer \
      --memory_per_device=256MiB --stages=1,2,4,8

`--help` lists the flags; docs/capacity.md says what is planned and measured.
"""

import sys

from estimator_mp.cli import commands
from estimator_mp.cli.launching import network
from estimator_mp.cli.sizing.capacity_flags import COMMAND


def main(argv: list[str]) -> int:
  """Runs the command; returns its exit code.

  Args:
    argv: The command and its arguments.
  """
  try:
    options = COMMAND.parse(argv)
    if options.measure:  # Before TensorFlow, which has threads.
      network.enter_or_refuse("leave out --measure")
  except ValueError as error:
    return commands.complain(COMMAND.name, error)
  return COMMAND.run(options)


if __name__ == "__main__":
  sys.exit(main(sys.argv))
