"""What a module of the program gets when it imports tensorflow."""

import builtins
import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from compat.private.v1 import probability
from compat.v1 import names
from compat.v1.membership import PROGRAM
from compat.v1.view import ROOT, View

_REAL = "tensorflow"
# 1.15 was installed as this package, and `tensorflow` showed it.
_INSIDES = "tensorflow_core"

_PROBABILITY = "tensorflow_probability"

# Below these paths a program sees what is there, not a view of it.
_NO_VIEW = ("compat.v2", "contrib", "core", "tools")
# TensorFlow's insides; their Keras is that of the view.
_PYTHON, _KERAS = "python", "python.keras"


class _ViewLoader(importlib.abc.Loader):
  """Puts a view, or a real module, in the place of the one being imported."""

  def __init__(self, module: types.ModuleType):
    self._module = module

  def create_module(
    self, spec: importlib.machinery.ModuleSpec
  ) -> types.ModuleType | None:
    return None

  def exec_module(self, module: types.ModuleType) -> None:
    # The import system hands out what it finds in sys.modules afterwards.
    sys.modules[module.__name__] = self._module


class ViewFinder(importlib.abc.MetaPathFinder):
  """Finds the namespaces of a view as modules, "tensorflow_v1.nn"."""

  def __init__(self, view: View):
    """Makes the finder of `view` and of all namespaces in it."""
    self._view = view

  def find_spec(
    self,
    fullname: str,
    path: Sequence[str] | None,
    target: types.ModuleType | None = None,
  ) -> importlib.machinery.ModuleSpec | None:
    """Returns how to import a namespace, or None for any other name.

    Raises:
      ImportError: if 1.15's `tf` has no such namespace any more; the message
        says what to use.
    """
    root, _, below = fullname.partition(".")
    if root != ROOT:
      return None
    return importlib.machinery.ModuleSpec(
      fullname, _ViewLoader(self._module(below)), is_package=True
    )

  def _module(self, below: str) -> types.ModuleType:
    if any(_is_at(below, path) for path in _NO_VIEW):
      return importlib.import_module(f"{_REAL}.{below}")
    found: Any = self._view
    for name in filter(None, below.split(".")):
      found = getattr(found, name, None)
    if isinstance(found, types.ModuleType):
      return found
    if _is_at(below, _PYTHON) and not _is_at(below, _KERAS):
      return importlib.import_module(f"{_REAL}.{below}")
    raise ImportError(names.advice(below), name=f"{_REAL}.{below}")


def _is_at(below: str, path: str) -> bool:
  """Whether a path is another one, or goes on from there."""
  return f"{below}.".startswith(f"{path}.")


def redirect(view: View) -> None:
  """Gives the program's modules a view whenever they import tensorflow.

  Args:
    view: of `tf` itself.
  """
  sys.meta_path.insert(0, ViewFinder(view))
  original = builtins.__import__
  show_parameters = functools.cache(
    lambda: probability.show_parameters(PROGRAM.includes)
  )

  def import_module(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
  ) -> types.ModuleType:
    if level == 0 and globals is not None and name.startswith(_REAL):
      root, dot, below = name.partition(".")
      if root in (_REAL, _INSIDES) and PROGRAM.includes(globals):
        name = f"{ROOT}{dot}{below}"
      elif root == _PROBABILITY and PROGRAM.includes(globals):
        original(root)
        show_parameters()
    return original(name, globals, locals, fromlist or (), level)

  builtins.__import__ = import_module
