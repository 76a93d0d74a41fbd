"""The paths below tf.contrib that programs of that time import names from.

`from tensorflow.contrib.layers.python.layers import utils` reached into the
files of tf.contrib, which compat.contrib has in another order. So a module of
1.15 below `python` is here one that finds its names among the public ones of
its tf.contrib module.
"""

import importlib
import importlib.abc
import importlib.machinery
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compat.contrib import absent
from compat.contrib.deep.modules_of_1_15 import MODULES

_CONTRIB = "compat.contrib"

# By the path below tf.contrib: the module of compat.contrib, below it, that has
# names of that file which are not public. A module without an entry here finds
# all of its names by the rules of `DeepModule`.
HOMES: Mapping[str, str] = {
  "layers.python.layers.embedding_ops": "layers.scattered",
  "layers.python.ops.sparse_feature_cross_op": "layers.crosses",
  "lite.python.lite_constants": "lite.constants",
  "learn.python.learn.estimators.metric_key": "learn.constants",
  "opt.python.training.sign_decay": "opt.sign",
  "seq2seq.python.ops.beam_search_decoder": "seq2seq.beams",
}


# Modules whose folder had a function of their name, which hid them.
HIDDEN = frozenset({"framework.python.ops.arg_scope"})


class DeepModule(types.ModuleType):
  """Looks like a module of 1.15 below `python` in a tf.contrib module.

  A name of `slim.python.slim.nets.vgg` is looked up in the module's entry in
  HOMES; in `slim.nets.vgg`, the namespace of the public API whose name the path
  ends with; and in `slim`.
  """

  def __init__(self, path: str):
    """Makes the module.

    Args:
      path: below tf.contrib, "layers.python.layers.utils".
    """
    super().__init__(f"{_CONTRIB}.{path}")
    self.__path__: list[str] = []  # Modules below can be imported.
    self._below = path

  def __getattr__(self, name: str) -> Any:
    if name == "__all__":
      return self._public_names()
    if name.startswith("__"):
      raise AttributeError(name)
    found = self._find(name)
    vars(self)[name] = found
    return found

  def _find(self, name: str) -> Any:
    path = f"{self._below}.{name}"
    # What is called as its file is found in the file, by that name again.
    if path in MODULES and path not in HIDDEN:
      return importlib.import_module(f"{self.__name__}.{name}")
    missing = object()
    for namespace in self._namespaces():
      found = getattr(namespace, name, missing)
      if found is not missing:
        return found
    root = self._below.partition(".")[0]
    raise AttributeError(absent.message(f"{root}.{name}"))

  def _namespaces(self) -> Iterator[Any]:
    """The modules of compat.contrib to look a name up in, one after another."""
    if self._below in HOMES:
      yield importlib.import_module(f"{_CONTRIB}.{HOMES[self._below]}")
    root, _, *folders = self._below.split(".")
    module = importlib.import_module(f"{_CONTRIB}.{root}")
    for start in range(len(folders)):
      found = _namespace(module, folders[start:])
      if found is not None:
        yield found
    yield module

  def _public_names(self) -> list[str]:
    namespace = next(self._namespaces())
    return [name for name in dir(namespace) if not name.startswith("_")]

  def __dir__(self) -> list[str]:
    return self._public_names()


def _namespace(module: Any, path: Sequence[str]) -> Any:
  """Returns the namespace at a path below a module, None if there is none."""
  for name in path:
    module = getattr(module, name, None)
    if not isinstance(module, types.ModuleType):
      return None
  return module


class _DeepLoader(importlib.abc.Loader):
  def create_module(
    self, spec: importlib.machinery.ModuleSpec
  ) -> types.ModuleType:
    return DeepModule(spec.name.removeprefix(f"{_CONTRIB}."))

  def exec_module(self, module: types.ModuleType) -> None:
    pass


def spec_of(path: str) -> importlib.machinery.ModuleSpec | None:
  """Returns how to import a module of 1.15 below tf.contrib.

  Args:
    path: below tf.contrib, "layers.python.layers.utils".

  Returns:
    None if 1.15 had no such module below `python`.
  """
  if path not in MODULES:
    return None
  return importlib.machinery.ModuleSpec(
    f"{_CONTRIB}.{path}", _DeepLoader(), is_package=True
  )
