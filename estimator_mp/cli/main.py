"""The command estimator-mp: the first argument is the command to run.

  estimator-mp train --mesh=stage:3 --train_steps=600

A command is imported when it is asked for, and TensorFlow once its flags are
right.
"""

import difflib
import importlib
import os
import signal
import sys
from typing import Any

import estimator_mp
from estimator_mp.cli import commands

# Each is in a module of this folder that knows its flags, and their help.
COMMANDS = {
  "train": "train_flags.TRAIN",
  "plan": "plan_flags.COMMAND",
  "compare": "compare_flags.COMMAND",
  "trace": "train_flags.TRACE",
  "measure": "measure_flags.COMMAND",
  "launch": "launching.launch_flags.COMMAND",
  "predict": "prediction.predict_flags.COMMAND",
  "serve": "prediction.serve_flags.COMMAND",
}
# Former names, for one release.
_RENAMED = {"inspect": "plan"}
_HELP = frozenset(["--help", "-h", "help"])
_CLOSED_PIPE = 128 + signal.SIGPIPE
_AFTER_COMMANDS = """
COMMAND --help lists the flags of a command, --version prints the versions.

Exit codes: 0 on success, 1 if the run failed, 2 if a flag or its value is
wrong, 130 and 143 after Ctrl-C and SIGTERM, 138 if a task of the cluster was
lost, 141 if the reader of the output has closed it."""


def command(name: str) -> commands.Command[Any]:
  """Returns a command.

  Args:
    name: One of `COMMANDS`.
  """
  module, _, attribute = COMMANDS[name].rpartition(".")
  flags = importlib.import_module(f"estimator_mp.cli.{module}")
  chosen: commands.Command[Any] = getattr(flags, attribute)
  return chosen


def main(argv: list[str]) -> int:
  """Runs a command.

  Args:
    argv: The program, the name of the command, and its flags.

  Returns:
    The exit code.
  """
  if len(argv) < 2 or argv[1] in _HELP:
    print(_help())
    return 0 if len(argv) > 1 else commands.BAD_USE
  name, *arguments = argv[1:]
  if name == "--version":
    print(_versions())
    return 0
  if name in _RENAMED:
    print(f"{name}: the command is {_RENAMED[name]} now", file=sys.stderr)
    name = _RENAMED[name]
  if name not in COMMANDS:
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return commands.print_error(
      commands.PROGRAM_NAME,
      f"{name} is not a command; {hint}--help lists the commands",
    )
  return command(name).main([name, *arguments])


def run() -> None:
  """Runs the command of this process's command line, and exits."""
  # Until something is to be saved, Ctrl-C just ends the process.
  signal.signal(signal.SIGINT, signal.SIG_DFL)
  try:
    code = main(sys.argv)
    sys.stdout.flush()
  except BrokenPipeError:
    # Python flushes once more at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code = _CLOSED_PIPE
  except KeyboardInterrupt:
    code = 128 + signal.SIGINT
  sys.exit(code)


def _help() -> str:
  lines = [
    "Model parallelism for tf.estimator programs.",
    "",
    f"usage: {commands.PROGRAM_NAME} COMMAND [--flag=value ...]",
    "",
  ]
  for name in COMMANDS:
    summary = " ".join(command(name).summary.split())
    first, _, _ = summary.rstrip(".").partition(":")
    lines.append(f"  {name:<10} {first[0].lower()}{first[1:]}")
  return "\n".join([*lines, _AFTER_COMMANDS])


def _versions() -> str:
  """Returns the versions of this package, of TensorFlow and of Python."""
  from importlib import metadata  # Only now: it takes 0.05 s.

  others = []
  for package in ("tensorflow", "tensorflow-cpu"):
    try:
      others.append(f"{package} {metadata.version(package)}")
    except metadata.PackageNotFoundError:
      continue
  python = ".".join(map(str, sys.version_info[:3]))
  version = f"{commands.PROGRAM_NAME} {estimator_mp.__version__}"
  return f"{version} ({', '.join([*others, f'Python {python}'])})"
