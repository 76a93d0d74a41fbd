"""The names of a package that are imported when they are first used."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
  module: str, homes: Mapping[str, str], advice: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
  """Makes the `__getattr__` and the `__dir__` of a module with such names.

  Args:
    module: the module's full name.
    homes: the full name of the module that has each name.
    advice: what the error for any other name says after a semicolon.

  Returns:
    The two functions (PEP 562).
  """

  def find(name: str) -> Any:
    if name not in homes:
      raise AttributeError(
        f"module {module!r} has no attribute {name!r}; {advice}"
      )
    found = getattr(importlib.import_module(homes[name]), name)
    setattr(sys.modules[module], name, found)
    return found

  def names() -> list[str]:
    return sorted({*vars(sys.modules[module]), *homes})

  return find, names
