"""Packages in which parts of tf.contrib live on.

They are optional: who uses such a name installs its package, and an error says
how.
"""

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from compat.contrib import absent

_REQUIREMENTS = {
  "tensorflow_probability": "tensorflow-probability",
  "tf_slim": "tf-slim==1.1.0",
}


def find(path: str, wanted_by: str) -> Any:
  """Returns what stands at a path, importing its package.

  Args:
    path: a module, "tf_slim.nets", or a name in one, "tf_slim:conv2d".
    wanted_by: the name below tf.contrib that it serves, for the error.

  Raises:
    ImportError: if the package is not installed; the message says how to.
  """
  module, _, name = path.partition(":")
  try:
    found = importlib.import_module(module)
  except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    if package not in _REQUIREMENTS:
      raise
    raise ImportError(
      f"tf.contrib.{wanted_by} lives on in the package {package}: "
      f"pip install {_REQUIREMENTS[package]}",
      name=package,
    ) from error
  return getattr(found, name) if name else found


def getter(
  module: str,
  places: Mapping[str, str],
  submodules: Collection[str] = (),
) -> Callable[[str], Any]:
  """Returns a `__getattr__` for a module of compat.contrib.

  Args:
    module: the module's `__name__`.
    places: by name, the path where it is found when it is first asked for; see
      `find`.
    submodules: those to import when they are first asked for.
  """
  otherwise = absent.getter(module, submodules)
  own = importlib.import_module(module)
  below = module.removeprefix("compat.contrib.")

  def get(name: str) -> Any:
    if name not in places:
      return otherwise(name)
    found = find(places[name], f"{below}.{name}")
    vars(own)[name] = found
    return found

  return get
