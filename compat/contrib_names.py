"""Puts compat.contrib where tf.contrib was."""

import types
from typing import Any

from compat import import_aliases
from compat.lazy_module import LazyModule

_PACKAGE = "compat.contrib"


def supply(tensorflow: types.ModuleType) -> None:
  """Adds tf.contrib, its import paths, and errors for what it has no more.

  Args:
    tensorflow: the module, of any version.
  """
  from compat.contrib import absent  # Only now: most programs do without.

  import_aliases.add("tensorflow.contrib", _PACKAGE)
  import_aliases.add("tensorflow.compat.v1.contrib", _PACKAGE)
  absent.explain_imports()
  namespaces: list[Any] = [tensorflow, tensorflow.compat.v1]
  for namespace in namespaces:
    if not hasattr(namespace, "contrib"):
      namespace.contrib = LazyModule("tensorflow.contrib", _PACKAGE)
