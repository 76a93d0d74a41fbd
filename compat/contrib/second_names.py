"""Namespaces that tf.contrib had, and `tf` has: Keras and TensorFlow Lite.

`tf.contrib.keras` became `tf.keras` in 1.4, and 1.15 has both;
`tf.contrib.lite`, which 1.15 has no more, became `tf.lite` in 1.13.
"""

import functools
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

from compat.v1.view import View

import tensorflow as tf

_PACKAGE = "compat.contrib"
_ROOTS = ("keras", "lite")
# Files below tf.contrib that showed what is in the namespace.
_FOLDERS = ("api", "python")


@functools.cache
def view(root: str) -> View:
  """Returns a namespace as 1.15's `tf` has it.

  Args:
    root: "keras" or "lite".
  """
  return View(getattr(tf.compat.v1, root), root)


class _Loader(importlib.abc.Loader):
  """Puts a namespace in the place of the module that is being imported."""

  def __init__(self, namespace: types.ModuleType):
    self._namespace = namespace

  def create_module(
    self, spec: importlib.machinery.ModuleSpec
  ) -> types.ModuleType | None:
    return None

  def exec_module(self, module: types.ModuleType) -> None:
    # The import system hands out what it finds in sys.modules afterwards.
    sys.modules[module.__name__] = self._namespace


def spec_of(path: str) -> importlib.machinery.ModuleSpec | None:
  """Returns how to import a namespace in one of these.

  Args:
    path: below tf.contrib, "keras.layers" or "keras.api.keras.layers".

  Returns:
    None if there is no such namespace.
  """
  root, *below = path.split(".")
  if root not in _ROOTS:
    return None
  found = _at(view(root), _without_folders(root, below))
  if found is None:
    return None
  return importlib.machinery.ModuleSpec(
    f"{_PACKAGE}.{path}", _Loader(found), is_package=True
  )


def _without_folders(root: str, below: Sequence[str]) -> Sequence[str]:
  """Returns ["layers"] for ["api", "keras", "layers"]."""
  if not below or below[0] not in _FOLDERS:
    return below
  return below[2:] if below[1:2] == [root] else below[1:]


def _at(
  namespace: types.ModuleType, path: Sequence[str]
) -> types.ModuleType | None:
  for name in path:
    found = getattr(namespace, name, None)
    if not isinstance(found, types.ModuleType):
      return None
    namespace = found
  return namespace
