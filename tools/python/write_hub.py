"""Writes a Bazel package for each distribution of a virtualenv.

Run by the `py_hub` repository rule with the virtualenv's interpreter:

    python3 tools/python/write_hub.py --lock=FILE --out=DIR

DIR/NAME holds what the lock says of a distribution (version and checksums), and
a py_library `NAME` with that of the distribution and of all that it requires.
So a new version of one package reruns the tests that use it, and no others.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from importlib import metadata

_BUILD = """load("@rules_python//python:defs.bzl", "py_library")

exports_files(["lock.txt"], visibility = ["//:__subpackages__"])

py_library(
    name = "{name}",
    data = [{data}],
    visibility = ["//visibility:public"],
)
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Distributions that hold the package of another name.
_SAME = {"tensorflow": "tensorflow_cpu"}


def label(name: str) -> str:
  """A distribution's name, as a label spells it."""
  return re.sub(r"[-_.]+", "_", name).lower()


def entries(lock: str) -> dict[str, str]:
  """The entries of a lock, by distribution.

  Args:
    lock: Text of a requirements file with hashes.

  Returns:
    A requirement with its hashes, by label.
  """
  found = {}
  for entry in lock.replace("\\\n", " ").splitlines():
    name = _NAME.match(entry)
    if name and "'never'" not in entry:
      found[label(name.group())] = entry
  return found


def requirements(name: str) -> Iterator[str]:
  """Yields the labels of what an installed distribution requires.

  Args:
    name: Its label.
  """
  for requirement in metadata.distribution(name).requires or ():
    required = _NAME.match(requirement)
    if required and "extra ==" not in requirement:
      yield label(required.group())


def closure(name: str, locked: Mapping[str, str]) -> list[str]:
  """The labels of a distribution and of all that it requires, sorted.

  Args:
    name: Its label.
    locked: `entries` of the lock. What the lock leaves out is not followed.
  """
  found, left = set(), [name]
  while left:
    one = left.pop()
    one = _SAME.get(one, one) if one not in locked else one
    if one in locked and one not in found:
      found.add(one)
      # The lock may have it for another Python, or another system.
      with contextlib.suppress(metadata.PackageNotFoundError):
        left.extend(requirements(one))
  return sorted(found)


def main() -> None:
  """Writes the packages."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--lock", required=True, help="Requirements file.")
  parser.add_argument("--out", required=True, help="Folder of the packages.")
  args = parser.parse_args()
  with open(args.lock, encoding="utf-8") as file:
    locked = entries(file.read())
  for name in {*locked, *_SAME}:
    folder = os.path.join(args.out, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock.txt"), "w", encoding="utf-8") as file:
      file.write(locked.get(name, "") + "\n")
    data = ", ".join(f'"//{x}:lock.txt"' for x in closure(name, locked))
    with open(os.path.join(folder, "BUILD"), "w", encoding="utf-8") as file:
      file.write(_BUILD.format(name=name, data=data))


if __name__ == "__main__":
  main()
