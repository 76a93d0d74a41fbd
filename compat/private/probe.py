"""Which private names the installed TensorFlow has, beside a table of them.

    python -m compat.private.probe

takes ten seconds, and ends with exit code 1 if one is gone. `names.csv` has the
private names that compat uses, and those that the wheels it stands on import
from `tensorflow.python`: the first and the last TensorFlow that has each, and
who uses it. A name of a class is one that its instances have. On TensorFlow
2.15.1 to 2.22.0rc0, tests/compat/private/write_names.py wrote the table.
"""

import csv
import dataclasses
import functools
import importlib
import inspect
import pathlib
import sys
from collections.abc import Iterable
from typing import Any, TypeAlias

from compat import keras_advice, legacy_keras, versions

TABLE = pathlib.Path(__file__).with_name("names.csv")
COLUMNS = ("module", "name", "from", "to", "used_by")
Release: TypeAlias = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class PrivateName:
  """A private name of TensorFlow, or of a wheel beside it.

  Attributes:
    module: the module or class that has it, in full.
    name: the name there.
    first: the first release of TensorFlow, (major, minor), that has it; None if
      none from 2.15 on does.
    last: the last one, which may be the newest that was tested.
    used_by: the wheels and files that use it, with spaces between.
  """

  module: str
  name: str
  first: Release | None
  last: Release | None
  used_by: str

  def is_expected(self, release: Release) -> bool:
    """Returns whether the table says that a release of TensorFlow has it."""
    if self.first is None or self.last is None:
      return False
    return self.first <= min(release, versions.NEWEST_TESTED) <= self.last


def read() -> list[PrivateName]:
  """Returns the table."""
  with TABLE.open(encoding="utf-8", newline="") as file:
    return [
      PrivateName(
        row["module"],
        row["name"],
        versions.parse(row["from"]) if row["from"] else None,
        versions.parse(row["to"]) if row["to"] else None,
        row["used_by"],
      )
      for row in csv.DictReader(file)
    ]


def is_there(module: str, name: str) -> bool:
  """Returns whether the installed packages have a name.

  Args:
    module: a module or class, in full.
    name: what it, or its instances, may have.
  """
  try:
    place = _found(module)
    if hasattr(place, name):
      return True
    if inspect.isclass(place):
      return any(name in _set_by(cls) for cls in place.__mro__)
    _found(f"{module}.{name}")
  except (AttributeError, ImportError):
    return False
  return True


@functools.cache
def _found(place: str) -> Any:
  """Returns a module, or what a module or class has."""
  try:
    return importlib.import_module(place)
  except ImportError:
    parent, _, name = place.rpartition(".")
    if not parent:
      raise
    return getattr(_found(parent), name)


@functools.cache
def _set_by(cls: type) -> frozenset[str]:
  """Returns the attributes that the methods of a class give its instances."""
  codes = (
    function.__code__
    for function in vars(cls).values()
    if inspect.isfunction(function)
  )
  return frozenset(name for code in codes for name in code.co_names)


def compare(
  release: Release, names: Iterable[PrivateName]
) -> tuple[list[PrivateName], list[PrivateName]]:
  """Compares names with the installed packages.

  Args:
    release: the TensorFlow that is installed, (major, minor).
    names: of the table.

  Returns:
    Those that are gone, and those that are there though the table says not.
  """
  gone: list[PrivateName] = []
  new: list[PrivateName] = []
  for one in names:
    there, expected = is_there(one.module, one.name), one.is_expected(release)
    if there != expected:
      (new if there else gone).append(one)
  return gone, new


def main() -> None:
  """Says which names are gone, and which are new."""
  legacy_keras.choose_before_import()
  keras_advice.withhold_before_import()
  version = importlib.import_module("tensorflow").__version__
  names = read()
  gone, new = compare(versions.parse(version), names)
  for what, found in (("gone", gone), ("new", new)):
    for one in found:
      print(f"{what}: {one.module}.{one.name}, used by {one.used_by}")
  print(
    f"TensorFlow {version}: of {len(names)} private names, {len(gone)} are "
    f"gone and {len(new)} new."
  )
  sys.exit(bool(gone))


if __name__ == "__main__":
  main()
