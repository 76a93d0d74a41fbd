"""The public names of TensorFlow 1.15 that tensorflow.compat.v1 has not.

`SUPPLIED` has those that compat brings back, and those that take arguments of
1.15 that have gone; `REPLACED` says what to use in the place of the others.
"""

import importlib
from collections.abc import Mapping
from typing import Any

VERSION = "1.15.5"

# By the path below `tf`: "module:name" of what stands there.
SUPPLIED: Mapping[str, str] = {
  "VERSION": f"{__name__}:VERSION",
  "__version__": f"{__name__}:VERSION",
  "version.VERSION": f"{__name__}:VERSION",
}

# By the path below `tf`: what to use instead.
REPLACED: Mapping[str, str] = {}


def supplied(path: str) -> Any:
  """Returns what compat supplies under a name.

  Args:
    path: the name below `tf`, "train.Supervisor".

  Raises:
    KeyError: if compat supplies no such name.
  """
  module, _, name = SUPPLIED[path].partition(":")
  return getattr(importlib.import_module(module), name)


def below(path: str) -> list[str]:
  """Returns the names that compat supplies in a namespace, "" for `tf`."""
  start = f"{path}." if path else ""
  return [
    name.removeprefix(start)
    for name in SUPPLIED
    if name.startswith(start) and "." not in name.removeprefix(start)
  ]


def advice(path: str) -> str:
  """Returns what to say to a program that uses a name that is not there."""
  if path in REPLACED:
    return f"tf.{path} of TensorFlow {VERSION} is gone. Use {REPLACED[path]}."
  return f"TensorFlow {VERSION} had no tf.{path}, or compat does not know it."
