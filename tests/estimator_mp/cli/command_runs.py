"""Runs of commands in this process."""

import contextlib
import io
import sys
from collections.abc import Callable
from unittest import mock


def run(
  main: Callable[[list[str]], int], *arguments: str
) -> tuple[int, str, str]:
  """Returns the exit code, standard output and standard error."""
  with (
    contextlib.redirect_stdout(io.StringIO()) as output,
    contextlib.redirect_stderr(io.StringIO()) as errors,
    # A command leaves a user's program no arguments.
    mock.patch.object(sys, "argv", list(sys.argv)),
  ):
    code = main(["command", *arguments])
  return code, output.getvalue(), errors.getvalue()
