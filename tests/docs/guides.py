"""The documents, and the programs that they show."""

import pathlib
import re
import runpy
import sys
from typing import Any
from unittest import mock

import estimator_mp  # noqa: F401, before TensorFlow

import tensorflow as tf
from absl import flags

_ROOT = pathlib.Path(__file__).parents[2]


def pages() -> list[str]:
  """Returns the paths of README and of all pages of docs."""
  found = sorted((_ROOT / "docs").glob("*.md"))
  return ["README.md", *(str(path.relative_to(_ROOT)) for path in found)]


def read(path: str) -> str:
  """Returns a document of the repository."""
  return (_ROOT / path).read_text(encoding="utf-8")


def programs(path: str) -> list[str]:
  """Returns the programs in Python of a document.

  A block of the language `diff` is one too: the last program before it that has
  the lines which it shows, with its changes.
  """
  found: list[str] = []
  blocks = re.findall(
    r'^```(python|diff)(?: title="[^"]+")?\n(.*?)^```', read(path), re.M | re.S
  )
  for language, text in blocks:
    found.append(_changed(found, text) if language == "diff" else text)
  return found


def _changed(whole: list[str], changes: str) -> str:
  """Returns the last of some programs that changes fit, with these."""
  hunks = [hunk.splitlines(True) for hunk in re.split("(?m)^@@\n", changes)]
  replaced = [
    tuple(
      "".join(line[1:] for line in lines if line[0] in signs)
      for signs in (" -\n", " +\n")
    )
    for lines in hunks
  ]
  for program in reversed(whole):
    if all(program.count(old) == 1 for old, _ in replaced):
      for old, new in replaced:
        program = program.replace(old, new)
      return program
  raise ValueError(f"no program has the lines of {changes}")


def run(program: str, name: str = "program") -> dict[str, Any]:
  """Runs a program of a document as it stands, in a file of its own.

  Args:
    program: Its text.
    name: That of the file, in the working directory.

  Returns:
    The names that it defines.
  """
  path = pathlib.Path(re.sub(r"\W+", "_", name) + ".py").absolute()
  path.write_text(program, encoding="utf-8")
  tf.compat.v1.reset_default_graph()
  known = [*flags.FLAGS]
  with mock.patch.object(sys, "argv", [path.name]):
    try:
      return runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:  # That of absl's app.run.
      if end.code:
        raise
      return {}
    finally:
      # Another program of this process may define flags of the same names.
      for flag in set(flags.FLAGS).difference(known):
        delattr(flags.FLAGS, flag)


def before_training(path: str, number: int) -> dict[str, Any]:
  """Runs a program up to where it trains.

  One that makes nothing but a `config` does so for the page's first program.

  Returns:
    The names that it defines.
  """
  program = programs(path)[number]
  if re.search("(?m)^config = ", program) and "\nestimator = " not in program:
    head, rest = re.split(
      "(?ms)^config = .*?^(?=estimator = )", programs(path)[0]
    )
    program = head + program + rest
  return run(program.partition("\nestimator.train(")[0], f"{path} {number}")
