"""Which modules belong to the TensorFlow 1 program."""

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

_INSTALLED = ("site-packages", "dist-packages")
# Ours, which may lie beside a program that is run from a checkout.
_OURS = ("compat", "estimator_mp", "model_fns")


class Membership:
  """Tells the modules of a program from all others.

  A module belongs to it if it is `__main__`, is in one of the packages that
  were named, or lies below one of the folders and was not installed there. Our
  own packages do not.
  """

  def __init__(self) -> None:
    """Makes a program of no folder and no package."""
    self._packages: list[str] = []
    self._folders: list[str] = []
    self._known: dict[tuple[Any, Any], bool] = {}

  def add(
    self, packages: Iterable[str] = (), folder: str | None = None
  ) -> None:
    """Adds to the program.

    Args:
      packages: names of packages or modules, "bert" or "nets.resnet".
      folder: a path; what is installed below it (a virtual environment) stays
        out.
    """
    self._packages += packages
    if folder is not None:
      self._folders.append(os.path.realpath(folder) + os.sep)
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
    if any(f"{name}.".startswith(f"{one}.") for one in self._packages):
      return True
    if not isinstance(path, str):  # Typed in, or of no file.
      return bool(name == "__main__")
    if str(name).partition(".")[0] in _OURS:
      return False
    path = os.path.realpath(path)
    return any(
      path.startswith(folder) and _is_own(path.removeprefix(folder))
      for folder in self._folders
    )


def _is_own(path: str) -> bool:
  """Whether a path within the folder of a program was not installed there."""
  return not set(_INSTALLED) & set(path.split(os.sep))


PROGRAM = Membership()


def folder_of_main() -> str | None:
  """Returns the folder of the running program; None for one without a file."""
  path = getattr(sys.modules.get("__main__"), "__file__", None)
  return os.path.dirname(os.path.abspath(path)) if path else None
