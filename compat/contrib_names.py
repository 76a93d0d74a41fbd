"""Puts compat.contrib where tf.contrib was."""

import types
from typing import Any

from compat import import_aliases
from compat.lazy_module import LazyModule
from compat.private import autograph

_PACKAGE = "compat.contrib"

# Paths below it that are elsewhere.
_ELSEWHERE = {
  "slim.nets": "tf_slim.nets",
  "summary.summary": f"{_PACKAGE}.summary",
}


def supply(tensorflow: types.ModuleType) -> None:
  """Adds tf.contrib, its import paths, and errors for what it has no more.

  Args:
    tensorflow: the module, of any version.
  """
  # Only now: most programs do without.
  from compat.contrib import absent

  for root in ("tensorflow.contrib", "tensorflow.compat.v1.contrib"):
    import_aliases.add(root, _PACKAGE)
    for path, module in _ELSEWHERE.items():
      import_aliases.add(f"{root}.{path}", module)
  absent.explain_imports()
  # As 1.15's were: layers and cells call them in code that it converts.
  for package in (_PACKAGE, "tf_slim"):
    autograph.leave_as_it_is(package)
  namespaces: list[Any] = [tensorflow, tensorflow.compat.v1]
  for namespace in namespaces:
    if not hasattr(namespace, "contrib"):
      namespace.contrib = LazyModule("tensorflow.contrib", _PACKAGE)
