"""Names of Python 3.7's standard library that later Pythons have not.

Programs of TensorFlow 1, and the packages that they use, were written for
Python 3.7 and before. A name that the running Python lacks is added to its
module, for the whole process: it has the meaning that it always had, and what
does without it goes on doing so.
"""

import base64
import collections
import collections.abc
import html
import importlib
import importlib.util
import inspect
import math
import sys
import threading
import time
import types
from collections.abc import Mapping
from typing import Any

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def getargspec(func: Any) -> ArgSpec:
  """Returns the arguments of a function without keyword-only ones.

  Gone from `inspect` in Python 3.11.

  Args:
    func: a Python function or method.

  Raises:
    ValueError: if it has keyword-only arguments or annotations.
  """
  found = inspect.getfullargspec(func)
  if found.kwonlyargs or found.annotations:
    raise ValueError(
      f"{func!r} has keyword-only arguments or annotations, which "
      "inspect.getargspec cannot tell; call inspect.getfullargspec"
    )
  return ArgSpec(found.args, found.varargs, found.varkw, found.defaults)


def _load_source(name: str, pathname: str, file: Any = None) -> Any:
  """Runs a file as a module of a name, as imp.load_source did."""
  del file  # It was the open file, and is opened again.
  spec = importlib.util.spec_from_file_location(name, pathname)
  if spec is None or spec.loader is None:
    raise ImportError(f"{pathname!r} is no file of Python", name=name)
  module = importlib.util.module_from_spec(spec)
  sys.modules[name] = module
  spec.loader.exec_module(module)
  return module


def _imp() -> types.ModuleType:
  """The part of `imp`, gone in 3.12, that programs used."""
  module = types.ModuleType("imp", "What programs used of Python 3.7's imp.")
  vars(module).update(
    load_source=_load_source,
    new_module=types.ModuleType,
    reload=importlib.reload,
  )
  return module


# By the module: what it has to have. In the order of the releases without it.
NAMES: Mapping[str, Mapping[str, Any]] = {
  "time": {"clock": time.perf_counter},  # 3.8
  "cgi": {"escape": html.escape},  # 3.8
  "base64": {  # 3.9
    "decodestring": base64.decodebytes,
    "encodestring": base64.encodebytes,
  },
  "fractions": {"gcd": math.gcd},  # 3.9
  "threading": {"Thread.isAlive": threading.Thread.is_alive},  # 3.9
  "collections": {  # 3.10
    name: getattr(collections.abc, name) for name in collections.abc.__all__
  },
  "inspect": {"ArgSpec": ArgSpec, "getargspec": getargspec},  # 3.11
}

# Whole modules, by name.
MODULES: Mapping[str, Any] = {"imp": _imp}  # 3.12


def supply() -> None:
  """Adds each name that this Python has not."""
  for module_name, names in NAMES.items():
    if importlib.util.find_spec(module_name) is None:
      continue  # cgi has gone, and with it what asks for its names.
    for path, value in names.items():
      owner: Any = importlib.import_module(module_name)
      class_name, _, name = path.rpartition(".")
      if class_name:
        owner = getattr(owner, class_name)
      if not hasattr(owner, name):
        setattr(owner, name, value)
  for name, make in MODULES.items():
    if name not in sys.modules and importlib.util.find_spec(name) is None:
      sys.modules[name] = make()
