"""The modules that a program's imports of tensorflow and numpy return."""

import builtins
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from compat.private.v1 import probability
from compat.v1 import names
from compat.v1.membership import PROGRAM
from compat.v1.numpy_view import NumpyView
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
  """Gives the program a view whenever it imports tensorflow or numpy.

  By an import statement, `__import__` and `importlib.import_module`; what
  Python's library imports for the program, such as `unittest.mock`, goes
  through them as well.

  Args:
    view: of `tf` itself.
  """
  sys.meta_path.insert(0, ViewFinder(view))
  by_statement, by_function = builtins.__import__, importlib.import_module
  views = {by_function("numpy"): NumpyView()}
  show_parameters = functools.cache(
    lambda: probability.show_parameters(PROGRAM.runs)
  )

  def to_import(name: str) -> str:
    root, dot, below = name.partition(".")
    if root == _PROBABILITY:
      by_statement(root)
      show_parameters()
    return f"{ROOT}{dot}{below}" if root in (_REAL, _INSIDES) else name

  def __import__(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
  ) -> types.ModuleType:
    rest = (globals, locals, fromlist or (), level)
    if level or not _is_shown(name) or not PROGRAM.runs(_caller(), globals):
      return by_statement(name, *rest)
    found = by_statement(to_import(name), *rest)
    return views.get(found, found)

  @functools.wraps(by_function)
  def import_module(name: str, package: str | None = None) -> types.ModuleType:
    full = importlib.util.resolve_name(name, package) if package else name
    if not _is_shown(full) or not PROGRAM.runs(_caller()):
      return by_function(name, package)
    found = by_function(to_import(full))
    return views.get(found, found)

  builtins.__import__ = __import__
  importlib.import_module = import_module


def _caller() -> types.FrameType | None:
  """Returns the frame that called the function that calls this."""
  frame = inspect.currentframe()
  for _ in range(2):
    frame = frame.f_back if frame is not None else None
  return frame


def _is_shown(name: str) -> bool:
  """Whether the program may see another module than is there."""
  return name.partition(".")[0] in (_REAL, _INSIDES, _PROBABILITY, "numpy")
