"""Runs a user's program as `__main__`, with tf.estimator installed."""

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

from compat import children, namesake
from compat.errors import CompatError
from compat.installation import install


def _parser(command: str) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=command,
    usage=(
      f"{command} [--contrib | --v1 ...] PROGRAM.py [ARG ...]\n"
      f"       {command} [--contrib | --v1 ...] -m MODULE [ARG ...]"
    ),
    description=(
      "Runs a Python program as it is, with the tf.estimator that TensorFlow "
      "2.16 removed. Its arguments, output and exit code are its own."
    ),
    allow_abbrev=False,
  )
  parser.add_argument(
    "--contrib", action="store_true", help="bring back tf.contrib as well"
  )
  parser.add_argument(
    "--v1",
    action="store_true",
    help="show the program TensorFlow 1.15's tf, with tf.contrib",
  )
  parser.add_argument(
    "--v1_packages",
    default="",
    metavar="NAME,...",
    help="with --v1: installed packages that belong to the program",
  )
  parser.add_argument(
    "--v2_control_flow",
    action="store_true",
    help="with --v1: loops and conditions are those of TensorFlow 2",
  )
  parser.add_argument(
    "--resource_variables",
    action="store_true",
    help="with --v1: variables are those of TensorFlow 2",
  )
  parser.add_argument(
    "-m",
    dest="as_module",
    action="store_true",
    help="run a module, found as Python's own -m finds it",
  )
  parser.add_argument("program", help="the program's file, or the module")
  parser.add_argument(
    "arguments", nargs=argparse.REMAINDER, help="the program's arguments"
  )
  return parser


def run() -> None:
  """Is the command estimator-mp-run."""
  main(sys.argv[1:], "estimator-mp-run")


def main(arguments: Sequence[str], command: str) -> None:
  """Installs tf.estimator, then runs the program that the arguments name.

  Args:
    arguments: those of the command line, without the command.
    command: what was typed before them.

  Raises:
    SystemExit: with code 2 if the arguments are wrong, 1 if tf.estimator cannot
      be installed, or as the program ends itself.
  """
  parser = _parser(command)
  parsed = parser.parse_args(arguments)
  if not parsed.as_module and not os.path.exists(parsed.program):
    parser.error(f"there is no file {parsed.program!r}")
  for option in ("v1_packages", "v2_control_flow", "resource_variables"):
    if getattr(parsed, option) and not parsed.v1:
      parser.error(f"--{option} is for programs of TensorFlow 1; add --v1")
  packages = [name for name in parsed.v1_packages.split(",") if name]
  if parsed.as_module:
    packages.append(parsed.program.partition(".")[0])
  try:
    install(
      contrib=parsed.contrib,
      v1=parsed.v1,
      v1_packages=packages,
      v2_control_flow=parsed.v2_control_flow,
      resource_variables=parsed.resource_variables,
    )
  except CompatError as error:
    sys.exit(f"{command}: {error}")
  run_as_main(parsed.program, parsed.as_module, parsed.arguments)


def run_as_main(
  program: str, as_module: bool, arguments: Sequence[str]
) -> None:
  """Runs a program as `__main__`, as the interpreter would.

  Args:
    program: its file, or the module.
    as_module: whether it is a module.
    arguments: its arguments.
  """
  sys.argv = [program, *arguments]
  # As the interpreter does it: a program imports from beside itself first, a
  # module from the working directory.
  file = os.path.abspath(program)
  folder = os.getcwd() if as_module else os.path.dirname(file)
  sys.path[0] = folder
  namesake.leave_to_program(folder)
  children.also_call(namesake.leave_to_program, folder)
  if as_module:
    runpy.run_module(program, run_name="__main__", alter_sys=True)
  else:
    runpy.run_path(program, run_name="__main__")
