"""How commands begin: the flags first, then TensorFlow, without its log."""

import contextlib
import importlib
import os
import re
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

BAD_USE = 2
_PATIENCE_SECONDS = 2.0
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# What TensorFlow 2.21 writes before it looks at the level.
_LOGGED = re.compile(rb"[IWE]\d{4} |WARNING: All log messages before absl")


def run(
  name: str, parse: Callable[[list[str]], Any], argv: list[str], module: str
) -> int:
  """Runs a command; TensorFlow is imported once its flags are right.

  Args:
    name: Its name.
    parse: Returns the options that the command and its arguments mean, and
      raises ValueError, with one line, if they mean none.
    argv: The command and its arguments.
    module: The module whose `run_command` does the rest with the options.

  Returns:
    The exit code.
  """
  try:
    options = parse(argv)
  except ValueError as error:
    return complain(name, error)
  return import_quietly(module).run_command(options)


def complain(name: str, error: object, exit_code: int = BAD_USE) -> int:
  """Prints what is wrong in one line; returns the exit code.

  Args:
    name: The command.
    error: What is wrong.
    exit_code: The exit code.
  """
  print(f"{name}: " + " ".join(str(error).split()), file=sys.stderr)
  return exit_code


def import_quietly(module: str) -> types.ModuleType:
  """Imports a module that imports TensorFlow, and turns TensorFlow's log off.

  A user who has set the level of the log, in the environment, gets it.

  Args:
    module: The name of the module.
  """
  if _LOG_LEVEL in os.environ or "tensorflow" in sys.modules:
    return importlib.import_module(module)
  os.environ[_LOG_LEVEL] = "3"
  with _without_log():
    return importlib.import_module(module)


@contextlib.contextmanager
def _without_log() -> Iterator[None]:
  """Lets a process of its own read standard error, and leave the log out.

  So a last word of TensorFlow is seen even if it ends this process.
  """
  reading, writing = os.pipe()
  reader = os.fork()
  if not reader:
    os.close(writing)
    _pass_on(reading)
    os._exit(0)
  os.close(reading)
  sys.stderr.flush()
  standard_error = os.dup(2)
  os.dup2(writing, 2)
  os.close(writing)
  try:
    yield
  finally:
    sys.stderr.flush()
    os.dup2(standard_error, 2)
    os.close(standard_error)
    _await(reader)


def _await(reader: int) -> None:
  """Waits until all was read, but not for what else writes there and stays."""
  end = time.monotonic() + _PATIENCE_SECONDS
  while not os.waitpid(reader, os.WNOHANG)[0] and time.monotonic() < end:
    time.sleep(0.005)


def _pass_on(reading: int) -> None:
  """Writes what it reads to standard error, but for lines of the log."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  with open(reading, "rb") as lines:
    for line in lines:
      if not _LOGGED.match(line):
        os.write(2, line)
