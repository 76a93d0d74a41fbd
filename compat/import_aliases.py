"""Makes one module importable under a second name.

`import_aliases.add("tensorflow.estimator", "tensorflow_estimator...")` makes
`import tensorflow.estimator` give the very same module object as importing the
second name does, submodules included. Nothing is imported before it is asked
for.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Sequence


class _AliasLoader(importlib.abc.Loader):
  """Puts an existing module in the place of the one being imported."""

  def __init__(self, target: str):
    self._target = target

  def create_module(
    self, spec: importlib.machinery.ModuleSpec
  ) -> types.ModuleType | None:
    return None

  def exec_module(self, module: types.ModuleType) -> None:
    # The import system hands out what it finds in sys.modules afterwards.
    sys.modules[module.__name__] = importlib.import_module(self._target)


class AliasFinder(importlib.abc.MetaPathFinder):
  """Finds the modules of `aliases`, and those below them."""

  def __init__(self) -> None:
    self.aliases: dict[str, str] = {}

  def target(self, name: str) -> str | None:
    """Returns the real name behind an alias, or None if it is not one."""
    head, tail = name, ""
    while head:
      if head in self.aliases:
        return self.aliases[head] + tail
      head, _, last = head.rpartition(".")
      tail = f".{last}{tail}"
    return None

  def find_spec(
    self,
    fullname: str,
    path: Sequence[str] | None,
    target: types.ModuleType | None = None,
  ) -> importlib.machinery.ModuleSpec | None:
    """Returns how to import an alias, or None for any other name."""
    real_name = self.target(fullname)
    if real_name is None:
      return None
    try:
      found = importlib.util.find_spec(real_name)
    except ModuleNotFoundError:
      found = None
    if found is None:
      return None
    return importlib.machinery.ModuleSpec(
      fullname,
      _AliasLoader(real_name),
      is_package=found.submodule_search_locations is not None,
    )


_FINDER = AliasFinder()


def add(alias: str, target: str) -> None:
  """Makes module `target` importable as `alias`, with all below it.

  Args:
    alias: the full name of a module that does not exist.
    target: the full name of the module to give in its place.
  """
  _FINDER.aliases[alias] = target
  if _FINDER not in sys.meta_path:
    sys.meta_path.insert(0, _FINDER)
