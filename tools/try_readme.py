"""Follows README as a newcomer does, and names the first difference.

    python3 -m tools.try_readme [--test]

It knows README only: block by block it writes the files, runs the commands in
order, and compares what they print with what README shows. The newcomer has a
clone of HEAD, an empty virtual environment, an empty home and no Bazel; pip and
npm find packages where they find them for you. Commands that name the clone
(`.`, `./bazelw`) run in it, all others in another folder, beside the files.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tools import shown_output, tutorials

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_TESTS = "./bazelw test"
# The programs that bazelw finds on the path: here they do not work.
_BAZELS = ("bazel", "bazelisk", "bazel-4")
# The environment variables that a newcomer has not set.
_SET_BY_US = re.compile(
  r"BAZEL|BUILD_|CUDA_|MP_|PYTHON(?!_BIN_PATH$)|TF_|VIRTUAL_ENV|XDG_\w+_HOME"
)
# Where packages come from is no part of a home, but files of it may say so.
_REGISTRIES = {
  "PIP_CONFIG_FILE": ".config/pip/pip.conf",
  "NPM_CONFIG_USERCONFIG": ".npmrc",
}


class DifferenceError(Exception):
  """README does not say what happens; the message says where, and what does."""


def try_readme(root: pathlib.Path, left_out: Sequence[str] = ()) -> None:
  """Follows the README of a repository, in a clone of its HEAD.

  Args:
    root: The repository.
    left_out: Starts of commands that are not run.

  Raises:
    DifferenceError: A command fails, or prints other than README shows.
  """
  with _newcomer(root) as newcomer:
    page = (newcomer.clone / "README.md").read_text(encoding="utf-8")
    steps = [
      step
      for step in tutorials.read(page)
      if not _command(step).startswith(tuple(left_out))
    ]
    follow(steps, newcomer.folder, newcomer.run)


def follow(
  steps: Iterable[tutorials.Words | tutorials.Write | tutorials.Run],
  folder: pathlib.Path,
  run: Callable[[str], str],
) -> None:
  """Does the steps of a page, one after the other.

  Args:
    steps: Those of `tutorials.read`.
    folder: Where its files are written.
    run: Runs a command; returns what it prints.

  Raises:
    DifferenceError: A command prints other than the page shows.
  """
  for step in steps:
    if isinstance(step, tutorials.Write):
      (folder / step.path).write_text(step.text, encoding="utf-8")
    elif isinstance(step, tutorials.Run):
      printed = run(step.command)
      shown = step.output or "..."
      line = shown_output.first_difference(shown, printed)
      if line is not None:
        raise DifferenceError(
          f"{step.command} does not print what is shown: {line}\n"
          f"It prints:\n{printed.rstrip()}"
        )


def is_in_clone(command: str) -> bool:
  """Whether a command names the clone, or a file of it."""
  return any(x == "." or x.startswith("./") for x in shlex.split(command))


def _command(step: tutorials.Words | tutorials.Write | tutorials.Run) -> str:
  """Returns the command of a step; an empty one if it has none."""
  return step.command if isinstance(step, tutorials.Run) else ""


@dataclasses.dataclass(frozen=True)
class _Newcomer:
  """Someone who has README, and what it asks for.

  Attributes:
    clone: Of the repository.
    folder: Where the newcomer's own files are.
    environment: That of all commands.
  """

  clone: pathlib.Path
  folder: pathlib.Path
  environment: Mapping[str, str]

  def run(self, command: str) -> str:
    """Runs a command as README shows it; returns what it prints."""
    print(f"    {command}", end="", flush=True)
    started = time.monotonic()
    done = subprocess.run(
      ["bash", "-c", command],
      cwd=self.clone if is_in_clone(command) else self.folder,
      env=self.environment,
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      errors="replace",
      check=False,
    )
    print(f"  # {time.monotonic() - started:.0f} s", flush=True)
    if done.returncode:
      raise DifferenceError(
        f"{command} ends with exit code {done.returncode}. "
        f"It prints:\n{done.stdout.rstrip()}"
      )
    return done.stdout


@contextlib.contextmanager
def _newcomer(root: pathlib.Path) -> Iterator[_Newcomer]:
  """Yields a newcomer to a repository; nothing of it is left afterwards."""
  with tempfile.TemporaryDirectory(prefix="try_readme.") as name:
    place = pathlib.Path(name)
    newcomer = _Newcomer(
      place / "clone", place / "own", environment(place, os.environ)
    )
    for folder in ("bin", "home", "own"):
      (place / folder).mkdir()
    for bazel in _BAZELS:
      (place / "bin" / bazel).write_text("#!/bin/sh\nexit 1\n")
      (place / "bin" / bazel).chmod(0o755)
    for command in (
      ["git", "clone", "--quiet", str(root), str(newcomer.clone)],
      [sys.executable, "-m", "venv", str(place / "venv")],
    ):
      subprocess.run(command, check=True)
    try:
      yield newcomer
    finally:
      if (place / "home/.cache/bazel").exists():
        newcomer.run("./bazelw shutdown")


def environment(place: pathlib.Path, ours: Mapping[str, str]) -> dict[str, str]:
  """Returns the environment of a newcomer.

  Args:
    place: The folder with the newcomer's home, programs and environment.
    ours: The environment of this process.
  """
  home = pathlib.Path(ours.get("HOME", place))
  registries = {
    name: str(home / path)
    for name, path in _REGISTRIES.items()
    if (home / path).exists()
  }
  kept = {x: y for x, y in ours.items() if not _SET_BY_US.match(x)}
  path = [str(place / "bin"), str(place / "venv/bin"), ours["PATH"]]
  return {
    **registries,
    **kept,
    "HOME": str(place / "home"),
    "PATH": os.pathsep.join(path),
    # README shows what a machine without GPUs prints.
    "CUDA_VISIBLE_DEVICES": "-1",
  }


def main(arguments: list[str] | None = None) -> int:
  """Follows the README of this repository; returns the exit code.

  Args:
    arguments: Those of the command line, without the command.
  """
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument(
    "--test", action="store_true", help=f"do not leave out {_TESTS}"
  )
  left_out = [] if parser.parse_args(arguments).test else [_TESTS]
  try:
    try_readme(_ROOT, left_out)
  except DifferenceError as error:
    print(f"README: {error}")
    return 1
  return 0


if __name__ == "__main__":
  sys.exit(main())
