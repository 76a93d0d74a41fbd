"""The modules that belong to the TensorFlow 1 program."""

import functools
import glob
import os
import sysconfig
import types
from collections.abc import Iterable, Mapping
from typing import Any

_INSTALLED = ("site-packages", "dist-packages")
# Ours, which may lie beside a program that is run from a checkout.
_OURS = ("compat", "estimator_mp", "model_fns")
# The program itself: in its process, and in one that multiprocessing spawned.
_MAIN = ("__main__", "__mp_main__")


class Membership:
  """Tells the modules of a program from all others.

  A module belongs to it unless it is Python's own, ours, or of an installed
  package; and if it is of an installed package that was named. Code that is in
  no module's file (`exec`), and Python's own (`importlib`, `pickle`, `mock`),
  works for the code that called it.
  """

  def __init__(self) -> None:
    """Makes a program that no installed package belongs to."""
    self._packages: list[str] = []
    self._known: dict[tuple[Any, Any], bool | None] = {}

  def add(self, packages: Iterable[str]) -> None:
    """Adds installed packages to the program.

    Args:
      packages: names of packages or modules, "bert" or "nets.resnet".
    """
    self._packages += packages
    self._known.clear()

  def runs(
    self,
    frame: types.FrameType | None,
    namespace: Mapping[str, Any] | None = None,
  ) -> bool:
    """Returns whether code at work is the program's, or works for it.

    Args:
      frame: of a function or module.
      namespace: the globals of its module, where they may be others than the
        frame's.
    """
    included = self._includes(namespace or {})
    while included is None and frame is not None:
      included = self._includes(frame.f_globals)
      frame = frame.f_back
    return bool(included)

  def includes(self, namespace: Mapping[str, Any]) -> bool:
    """Returns whether the module of these globals belongs to the program.

    Args:
      namespace: the globals of a module, as functions and imports have them.
    """
    return bool(self._includes(namespace))

  def _includes(self, namespace: Mapping[str, Any]) -> bool | None:
    """The same, and None for what belongs to whoever calls it."""
    name = namespace.get("__name__")
    if name in _MAIN and namespace.get("__spec__") is not None:
      name = namespace["__spec__"].name  # As `python -m` found it.
    key = (name, namespace.get("__file__"))
    if key not in self._known:
      self._known[key] = self._decide(*key)
    return self._known[key]

  def _decide(self, name: Any, path: Any) -> bool | None:
    if name in _MAIN:
      return True
    if not isinstance(name, str) or not isinstance(path, str):
      return None  # Made by a program at work, or part of the interpreter.
    if any(f"{name}.".startswith(f"{one}.") for one in self._packages):
      return True
    if name.partition(".")[0] in _OURS:
      return False
    folder = _root(name, path)
    if _is_installed(folder):
      return False
    return None if _is_pythons(folder) else True


def _root(name: str, path: str) -> str:
  """Returns the folder, on Python's path, in which a module was found."""
  levels = name.count(".") + 1
  if os.path.basename(path).startswith("__init__."):
    levels += 1
  path = os.path.abspath(path)
  for _ in range(levels):
    path = os.path.dirname(path)
  return path


@functools.cache
def _is_installed(folder: str) -> bool:
  """Whether pip put the modules of a folder there."""
  if set(_INSTALLED) & set(folder.split(os.sep)):
    return True
  # By `pip install --target`.
  return bool(glob.glob(os.path.join(glob.escape(folder), "*.dist-info")))


@functools.cache
def _is_pythons(folder: str) -> bool:
  """Whether the modules of a folder came with Python."""
  standard = sysconfig.get_paths()
  own = (standard["stdlib"], standard["platstdlib"])
  return f"{folder}{os.sep}".startswith(tuple(f"{one}{os.sep}" for one in own))


PROGRAM = Membership()
