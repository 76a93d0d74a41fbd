"""Completion: a shell that knows commands, flags and their choices.

  eval "$(estimator-mp completion bash)"

shtab writes it from an argparse parser; here one is made of the flags.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_mp.cli import commands

from absl import flags

SHELLS = ("bash", "zsh", "tcsh")


def main(
  name: str,
  arguments: Sequence[str],
  of_name: Mapping[str, commands.Command[Any]],
) -> int:
  """Prints the completion of a shell.

  Args:
    name: The program.
    arguments: The shell.
    of_name: The program's commands.

  Returns:
    The exit code.
  """
  if len(arguments) != 1 or arguments[0] not in SHELLS:
    shells = ", ".join(SHELLS)
    return commands.complain(
      name, f"completion takes the name of a shell: {shells}"
    )
  try:
    import shtab
  except ModuleNotFoundError:
    return commands.complain(
      name, "completion needs shtab; pip install 'estimator-mp[completion]'"
    )
  print(shtab.complete(_parser(name, of_name), arguments[0]))
  return 0


def _parser(
  name: str, of_name: Mapping[str, commands.Command[Any]]
) -> argparse.ArgumentParser:
  """Returns a parser that has all commands and flags, to be read by shtab."""
  parser = argparse.ArgumentParser(prog=name)
  parser.add_argument("--version", action="store_true", help="the versions")
  added = parser.add_subparsers()
  for command_name, command in of_name.items():
    defined = flags.FlagValues()
    command.define_flags(defined)
    of_command = added.add_parser(command_name, help=command.summary)
    for flag in defined:
      _add(of_command, defined[flag])
  of_completion = added.add_parser("completion", help="for a shell")
  of_completion.add_argument("shell", choices=SHELLS)
  return parser


def _add(parser: argparse.ArgumentParser, flag: flags.Flag) -> None:
  """Adds a flag to a parser; a switch can be said to be off, too."""
  text = (flag.help or "").replace("%", "%%")
  if flag.boolean:
    names = (f"--{flag.name}", f"--no{flag.name}")
    for name in names:
      parser.add_argument(name, action="store_true", help=text)
    return
  choices = getattr(flag.parser, "choices", None) or None
  parser.add_argument(f"--{flag.name}", choices=choices, help=text)
