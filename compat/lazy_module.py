"""A module that is imported when it is first used."""

import importlib
import types
from typing import Any


class LazyModule(types.ModuleType):
  """Stands for another module until an attribute of it is asked for."""

  def __init__(self, name: str, target: str):
    """Makes the stand-in; nothing is imported yet.

    Args:
      name: the name under which users know the module, "tensorflow.estimator".
      target: the full name of the module to import.
    """
    super().__init__(name, f"{name}, imported from {target} when first used.")
    self._target = target

  def _load(self) -> types.ModuleType:
    module = importlib.import_module(self._target)
    # From now on attributes are found at once, without __getattr__.
    for key, value in vars(module).items():
      if not (key.startswith("__") and key.endswith("__")):
        vars(self).setdefault(key, value)
    return module

  def __getattr__(self, name: str) -> Any:
    # Python's import system asks every module for these; they need no import.
    if name in ("__path__", "__file__", "__wrapped__"):
      raise AttributeError(name)
    return getattr(self._load(), name)

  def __dir__(self) -> list[str]:
    return dir(self._load())
