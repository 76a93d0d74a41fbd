"""Which modules belong to the TensorFlow 1 program."""

import functools
import glob
import os
import sysconfig
from collections.abc import Iterable, Mapping
from typing import Any

_INSTALLED = ("site-packages", "dist-packages")
# Ours, which may lie beside a program that is run from a checkout.
_OURS = ("compat", "estimator_mp", "model_fns")


class Membership:
  """Tells the modules of a program from all others.

  A module belongs to it unless it is Python's own, ours, or of an installed
  package; and if it is of an installed package that was named.
  """

  def __init__(self) -> None:
    """Makes a program that no installed package belongs to."""
    self._packages: list[str] = []
    self._known: dict[tuple[Any, Any], bool] = {}

  def add(self, packages: Iterable[str]) -> None:
    """Adds installed packages to the program.

    Args:
      packages: names of packages or modules, "bert" or "nets.resnet".
    """
    self._packages += packages
    self._known.clear()

  def includes(self, namespace: Mapping[str, Any]) -> bool:
    """Returns whether the module of these globals belongs to the program.

    Args:
      namespace: the globals of a module, as functions and imports have them.
    """
    name = namespace.get("__name__")
    if name == "__main__" and namespace.get("__spec__") is not None:
      name = namespace["__spec__"].name  # As `python -m` found it.
    key = (name, namespace.get("__file__"))
    known = self._known.get(key)
    if known is None:
      known = self._known[key] = self._decide(*key)
    return known

  def _decide(self, name: Any, path: Any) -> bool:
    if name == "__main__":
      return True
    if not isinstance(name, str) or not isinstance(path, str):
      return False  # Made by a program at work, or part of the interpreter.
    if any(f"{name}.".startswith(f"{one}.") for one in self._packages):
      return True
    is_ours = name.partition(".")[0] in _OURS
    return not is_ours and not _is_installed(_root(name, path))


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
  """Whether pip put the modules of a folder there, or Python came with them."""
  if set(_INSTALLED) & set(folder.split(os.sep)):
    return True
  if glob.glob(os.path.join(glob.escape(folder), "*.dist-info")):
    return True  # By `pip install --target`.
  standard = sysconfig.get_paths()
  own = (standard["stdlib"], standard["platstdlib"])
  return f"{folder}{os.sep}".startswith(tuple(f"{one}{os.sep}" for one in own))


PROGRAM = Membership()
