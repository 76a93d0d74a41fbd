"""Compares what a command prints with what a page shows of it.

A line `...` stands for any lines, and `...` within a line for any text. Numbers
with a decimal point may differ in their last digits, as machines round in other
ways; all else is equal.
"""

import math
import re
from collections.abc import Sequence

_NUMBER = re.compile(r"(\d+\.\d+(?:e[+-]\d+)?)")
_SMALL = 1e-5
# TensorFlow's C++ log, and what only a slow machine gets.
_NEVER_SHOWN = re.compile(
  r"[IWE]\d{4} \d\d:\d\d:|WARNING: All log messages before absl::"
  r"|\S+ \S+: [IWE] |.*Building the graph"
)


def first_difference(shown: str, printed: str) -> str | None:
  """Returns the first line of a page that a command does not print there.

  Args:
    shown: The lines on the page.
    printed: All that the command printed. Lines of TensorFlow's C++ log are no
      part of it.

  Returns:
    The line; "the end" if the command prints more than that; None if they are
    equal.
  """
  lines = shown.splitlines()
  found = [x for x in printed.splitlines() if not _NEVER_SHOWN.match(x)]
  for number, line in enumerate(lines, start=1):
    if not _are_same([*lines[:number], "..."], found):
      return line
  return None if _are_same(lines, found) else "the end"


def _are_same(shown: Sequence[str], printed: Sequence[str]) -> bool:
  """Whether all lines are those shown."""
  if not shown:
    return not printed
  if shown[0] == "...":
    rests = (printed[n:] for n in range(len(printed) + 1))
    return any(_are_same(shown[1:], rest) for rest in rests)
  return (
    bool(printed)
    and is_same_line(shown[0], printed[0])
    and _are_same(shown[1:], printed[1:])
  )


def is_same_line(shown: str, printed: str, within: float = 1e-3) -> bool:
  """Whether a line is the one shown, but for digits of its numbers.

  Args:
    shown: The line on the page.
    printed: The line that a command prints.
    within: The part by which numbers with a decimal point may differ.
  """
  parts = _NUMBER.split(shown)
  words = (re.escape(x).replace(r"\.\.\.", ".*") for x in parts[::2])
  found = re.fullmatch(_NUMBER.pattern.join(words), printed)
  return found is not None and all(
    math.isclose(float(a), float(b), rel_tol=within, abs_tol=_SMALL)
    for a, b in zip(parts[1::2], found.groups(), strict=True)
  )
