"""Writes outside_contrib.txt, contrib.txt, and modules.txt: the names of 1.15.

    v115/bin/python -m tests.compat.v1.names.record

from the root of the repository, in the environment of ../record.py.
"""

import importlib
import os
import pkgutil
import types

from tests.compat.v1.names import listing

import tensorflow as tf

_CONTRIB = ("tensorflow.contrib.", "tensorflow_core.contrib.")
# Modules in modules of contrib whose names programs use.
_NAMESPACES = (
  "bayesflow.monte_carlo",
  "compiler.jit",
  "compiler.xla",
  "distributions.bijectors",
  "eager.metrics",
  "framework.nest",
  "learn.datasets",
)
# Wrappers of ops, which raw_ops has.
_GENERATED = "tensorflow.python.ops.gen_"
_HERE = os.path.dirname(os.path.abspath(__file__))


def _write(file, lines):
  with open(os.path.join(_HERE, file), "w") as listed:
    listed.write("".join(line + "\n" for line in lines))
  print(file, len(lines), "lines")


def _contrib_modules():
  """Returns the modules of contrib, by name."""
  import tensorflow.contrib as contrib

  modules = {
    name: value
    for name, value in _attributes(contrib)
    if isinstance(value, types.ModuleType)
    and value.__name__.startswith(_CONTRIB)
  }
  for one in pkgutil.iter_modules(contrib.__path__):
    if one.ispkg and one.name not in modules:
      try:
        path = "tensorflow.contrib." + one.name
        modules[one.name] = importlib.import_module(path)
      except Exception as error:  # pylint: disable=broad-except
        print("tf.contrib.%s: %r" % (one.name, error))
  return modules


def _contrib_names():
  """Returns the names in contrib's modules, by the path below tf.contrib."""
  values = {}
  modules = _contrib_modules()
  for path in _NAMESPACES:
    module, _, name = path.partition(".")
    modules[path] = getattr(modules[module], name)
  for path, module in modules.items():
    names = _names_in(module)
    values.update(("%s.%s" % (path, name), names[name]) for name in names)
  return values


def _attributes(module):
  return [(name, getattr(module, name)) for name in dir(module)]


def _names_in(module):
  return {
    name: value
    for name, value in _attributes(module)
    if not name.startswith("_")
    and not isinstance(value, types.ModuleType)
    and not listing.is_of_python(value)
    and not str(getattr(value, "__module__", "")).startswith(_GENERATED)
  }


def _modules():
  """Returns the modules of tensorflow.python, without tests."""
  import tensorflow.python as python

  found = [
    one.name
    for one in pkgutil.walk_packages(python.__path__, "tensorflow.python.")
  ]
  return [name for name in sorted(found) if not name.endswith("_test")]


def main():
  """Writes the files."""
  assert tf.__version__ == "1.15.5", tf.__version__
  names = listing.public_names(tf)
  _write("outside_contrib.txt", listing.lines_of(names))
  contrib = _contrib_names()
  lines = [
    "%s %s" % (path, listing.describe(contrib[path])) for path in contrib
  ]
  _write("contrib.txt", sorted(lines))
  _write("modules.txt", _modules())


if __name__ == "__main__":
  main()
