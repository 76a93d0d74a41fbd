"""What the tests of tutorials share: their commands, and what those print."""

import shlex
import sys

from estimator_mp.cli.launching import network
from tools import shown_output

_COMMANDS = {
  "estimator-mp": [sys.executable, "-m", "estimator_mp"],
  "estimator-mp-run": [sys.executable, "-m", "compat"],
  "python": [sys.executable],
}


def arguments(command):
  """Returns a command of a page as this checkout and machine can run it."""
  # Where no network of its own is permitted, this one is trusted.
  if " launch " in command and network.reason_against() is not None:
    command = command.replace(" launch ", " launch --network=host ")
    command += " --trusted_network"
  name, *rest = shlex.split(command)
  return [*_COMMANDS[name], *rest]


def missing(shown, printed):
  """Returns the lines of a block that are not printed in its order."""
  rest = iter(_lines(printed))
  lines = [line for line in _lines(shown) if line not in ("", "...")]
  return [
    line
    for line in lines
    if not any(shown_output.is_same_line(line, x, within=0.1) for x in rest)
  ]


def _lines(text):
  return [" ".join(line.split()) for line in text.splitlines()]
