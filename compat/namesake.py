"""The program's own module `compat`, in a process that has this package, too.

A program that cannot be edited may have a compat.py beside it. The modules of
its folder then import that one, and this package, estimator_mp and model_fns go
on importing this package.
"""

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Mapping, Sequence

_OURS = __name__.partition(".")[0]
# What the program's is called among Python's modules.
_ITS_OWN = f"program_{_OURS}"
# This package, and those that are installed with it.
_USERS = (_OURS, "estimator_mp", "model_fns")


class _Finder(importlib.abc.MetaPathFinder):
  """Finds the program's own module, under the name that it has here."""

  def __init__(self, found: importlib.machinery.ModuleSpec):
    self._found = found

  def find_spec(
    self,
    fullname: str,
    path: Sequence[str] | None,
    target: types.ModuleType | None = None,
  ) -> importlib.machinery.ModuleSpec | None:
    """Returns how to import it, or None for any other name."""
    if fullname != _ITS_OWN:
      return None
    folders = self._found.submodule_search_locations
    if self._found.has_location:
      return importlib.util.spec_from_file_location(
        fullname,
        str(self._found.origin),
        submodule_search_locations=folders,
      )
    spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
    spec.submodule_search_locations = list(folders or ())
    return spec


def find(folder: str) -> importlib.machinery.ModuleSpec | None:
  """Returns the module of our name in a folder, None if there is none but ours.

  Args:
    folder: where the program is.
  """
  found = importlib.machinery.PathFinder.find_spec(_OURS, [folder])
  if found is None:
    return None
  ours = os.path.dirname(os.path.realpath(__file__))
  # Bazel makes folders of links to files.
  places = [os.path.dirname(os.path.realpath(found.origin or ""))]
  places += map(os.path.realpath, found.submodule_search_locations or ())
  return None if ours in places else found


def leave_to_program(folder: str) -> None:
  """Lets a program that has a module of our name import that one.

  Args:
    folder: where the program is.
  """
  found = find(folder)
  if found is None:
    return
  sys.meta_path.insert(0, _Finder(found))
  original = builtins.__import__

  def __import__(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
  ) -> types.ModuleType:
    root, dot, below = name.partition(".")
    if root == _OURS and level == 0:
      root = _ITS_OWN if _is_programs(globals or {}, folder) else root
      name = f"{root}{dot}{below}"
    return original(name, globals, locals, fromlist or (), level)

  builtins.__import__ = __import__


def _is_programs(module: Mapping[str, object], folder: str) -> bool:
  """Whether a module, of which these are the globals, is in the folder."""
  path = os.path.abspath(str(module.get("__file__")))
  # An environment may be in the folder, too, and this package in that.
  is_user = str(module.get("__name__")).partition(".")[0] in _USERS
  return path.startswith(f"{folder}{os.sep}") and not is_user
