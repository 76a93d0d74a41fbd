"""The names of a package that are imported when they are first used.

Its module has their imports once, for type checkers:

    if typing.TYPE_CHECKING:
      from package.mesh import Mesh as Mesh

    __getattr__, __dir__, __all__ = lazy_names(__name__, "...")
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(
  module: str, advice: str = "it has {names}"
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
  """Makes `__getattr__`, `__dir__` and `__all__` of a module with such names.

  Args:
    module: the module's full name.
    advice: what the error for any other name says after a semicolon.

  Returns:
    The two functions (PEP 562), and the names.
  """
  homes = {
    alias.name: imported.module
    for block in ast.parse(inspect.getsource(sys.modules[module])).body
    if isinstance(block, ast.If)
    for imported in block.body
    if isinstance(imported, ast.ImportFrom)
    for alias in imported.names
  }

  def find(name: str) -> Any:
    if name not in homes:
      raise AttributeError(
        f"module {module!r} has no attribute {name!r}; "
        + advice.format(names=", ".join(homes))
      )
    found = getattr(importlib.import_module(str(homes[name])), name)
    setattr(sys.modules[module], name, found)
    return found

  def names() -> list[str]:
    return sorted({*vars(sys.modules[module]), *homes})

  return find, names, [*homes]
