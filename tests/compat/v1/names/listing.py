"""Lists the public names of a TensorFlow, with their arguments, as text.

    train.AdamOptimizer class (learning_rate=0.001, beta1=0.9, ...)
    train.AdamOptimizer.minimize def (self, loss, global_step=None, ...)

This file runs on TensorFlow 1.15 under Python 3.7, and today.
"""

import functools
import inspect
import types

CLASS, FUNCTION, VALUE = "class", "def", "value"

# Where 1.15 keeps the modules of its public API.
_API = (
  "tensorflow._api.",
  "tensorflow_core._api.",
  "tensorflow.python.keras.api.",
  "tensorflow_core.python.keras.api.",
  "tensorflow_estimator.python.estimator.api.",
)
# Public, though they are the modules of the implementation.
_OWN_MODULES = ("app.flags", "flags")
# All with arguments by name only, which are those of the ops.
_BY_NAME_ONLY = "raw_ops."
# TensorFlow 2 and 1 again, contrib (listed by itself) and TensorFlow's insides.
_LEFT_OUT = ("compat.v1", "compat.v2", "contrib", "core", "python", "tools")


def public_names(tf):
  """Returns every public name of 1.15's `tf` outside contrib: path to value."""
  found = {}
  _walk(tf, "", found)
  return found


def _walk(module, path, found):
  for name in sorted(dir(module)):
    below = path + "." + name if path else name
    if name.startswith("_") or below in _LEFT_OUT:
      continue
    try:
      value = getattr(module, name)
    except AttributeError:  # Listed, but not there on this machine.
      continue
    if not isinstance(value, types.ModuleType):
      if not is_of_python(value):
        found[below] = value
    elif _is_public(value, below):
      _walk(value, below, found)


def _is_public(module, path):
  return module.__name__.startswith(_API) or path in _OWN_MODULES


def is_of_python(value):
  """Whether it is the `division` of `from __future__ import division`."""
  return type(value).__name__ == "_Feature"


def lines_of(values):
  """Returns the lines of a listing: of names, and of members of classes.

  Args:
    values: by the path below `tf`.
  """
  lines = []
  listed = set()
  classes = {id(value) for value in values.values() if inspect.isclass(value)}
  # The shortest name of a class, which has few dots, also has its members.
  for path in sorted(values, key=lambda path: (path.count("."), path)):
    value = values[path]
    if path.startswith(_BY_NAME_ONLY):
      lines.append("%s %s" % (path, FUNCTION))
      continue
    lines.append("%s %s" % (path, describe(value)))
    if inspect.isclass(value) and id(value) not in listed:
      listed.add(id(value))
      for name, member in sorted(members(value, classes).items()):
        lines.append("%s.%s %s" % (path, name, describe(member)))
  return sorted(set(lines))


def members(cls, classes=()):
  """Returns what a class of TensorFlow has, by name.

  Args:
    cls: the class.
    classes: ids of those whose members are listed elsewhere.
  """
  found = {}
  for one in cls.__mro__:
    if one is not cls and id(one) in classes:
      continue
    if not one.__module__.startswith(("tensorflow", "tf_keras")):
      continue
    if hasattr(one, "DESCRIPTOR"):  # A protocol buffer.
      return {}
    for name, member in vars(one).items():
      if not name.startswith("_"):
        found.setdefault(name, member)
  return found


def describe(value):
  """Returns the kind of a value and, if it is called, its arguments."""
  if isinstance(value, (classmethod, staticmethod)):
    value = value.__func__
  if inspect.isclass(value):
    return ("%s %s" % (CLASS, signature_of(value.__init__))).strip()
  if inspect.isroutine(value) or isinstance(value, functools.partial):
    return ("%s %s" % (FUNCTION, signature_of(value))).strip()
  return VALUE


def signature_of(function):
  """Returns "(x, axis=None)", or "" for what does not tell."""
  if isinstance(function, functools.partial):
    function = function.func
  try:
    parameters = inspect.signature(function).parameters.values()
  except (TypeError, ValueError):
    return ""
  texts = []
  for one in parameters:
    text = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    text += one.name
    if one.kind == one.KEYWORD_ONLY and not any("*" in x for x in texts):
      texts.append("*")
    if one.default is not one.empty:
      text += "=" + text_of(one.default)
    texts.append(text)
  return "(%s)" % ", ".join(texts)


def text_of(value):
  """Returns a default as text that is the same in two releases."""
  if isinstance(value, (list, tuple)):
    marks = "[]" if isinstance(value, list) else "()"
    return marks[0] + ", ".join(text_of(one) for one in value) + marks[1]
  if value is None or isinstance(value, (bool, int, float, str, bytes)):
    if isinstance(value, float) and value.is_integer():
      return repr(int(value))
    return repr(value)
  name = getattr(value, "name", None)
  if type(value).__name__ == "DType":
    return "tf." + name
  name = getattr(value, "__name__", None)
  return "<%s>" % (name or type(value).__name__)
