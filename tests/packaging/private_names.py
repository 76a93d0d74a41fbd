"""Private names of TensorFlow are in compat/private alone.

A check of tools/lint, which needs no TensorFlow:

    python -m unittest tests.packaging.private_names
"""

import ast
import functools
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRIVATE = "compat/private"

# Modules whose names are private, as a module or at the start of its name.
PRIVATE_MODULES = (
  "keras.src",
  "tensorflow.python",
  "tensorflow_estimator.python",
  "tf_keras.src",
)
# Of Python itself: of named tuples, and the way out of a process.
_NO_PRIVATE_NAMES = ("_asdict", "_exit", "_fields", "_make", "_replace")


def sources(*folders):
  """Paths of the Python files below folders, from the root."""
  return sorted(
    str(path.relative_to(ROOT))
    for folder in folders
    for path in (ROOT / folder).rglob("*.py")
  )


@functools.cache
def _tree(path):
  return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@functools.cache
def _names_of_library():
  library = sources("estimator_mp", "model_fns", PRIVATE)
  return set.union(*map(_defined, library))


def _own_names(path):
  """Names that a file may use because they are ours.

  A file of the library uses its own private names, a test those of the library.
  """
  if not path.startswith("tests/"):
    return _defined(path)
  return _defined(path) | _names_of_library()


@functools.cache
def _defined(path):
  """Names that a file's functions, classes and assignments define."""
  names = set()
  for node in ast.walk(_tree(path)):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
      names.add(node.name)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
      names.add(node.id)
    elif isinstance(node, ast.Attribute) and _is_own_attribute(node):
      names.add(node.attr)
  return names


def _is_own_attribute(node):
  return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _modules_named(tree):
  """Lines and names of the modules that a file imports, or has in a text."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield node.lineno, node.module or ""
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
      yield node.lineno, node.value


def _attributes(tree):
  """Lines and names of the attributes that a file asks objects for."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Attribute):
      yield node.lineno, node.attr
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
      if node.func.id in ("delattr", "getattr", "hasattr", "setattr"):
        yield from (
          (node.lineno, argument.value)
          for argument in node.args[1:2]
          if isinstance(argument, ast.Constant)
        )
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
      name = getattr(node.slice, "value", None)
      if isinstance(name, str) and ast.unparse(node.value.func) == "vars":
        yield node.lineno, name


def private_attributes(path):
  """Lines and names of private attributes in a file that are not ours."""
  own = _own_names(path)
  for line, name in _attributes(_tree(path)):
    is_private = name.startswith("_") and not name.endswith("__")
    if is_private and name not in own and name not in _NO_PRIVATE_NAMES:
      yield line, name


def _private_names(path):
  """Lines of a file with private names that are not ours."""
  for line, name in _modules_named(_tree(path)):
    if name.startswith(PRIVATE_MODULES):
      yield f"{path}:{line}: {name}"
  for line, name in private_attributes(path):
    yield f"{path}:{line}: {name}"


class PrivateNamesTest(unittest.TestCase):
  def test_they_are_all_in_one_folder(self):
    paths = sources("compat", "estimator_mp", "model_fns", "tests")
    found = [
      line
      for path in paths
      if not path.startswith((PRIVATE, "tests/compat/", "tests/packaging/"))
      for line in _private_names(path)
    ]
    self.assertEqual(found, [])

  def test_one_is_found(self):
    for source in (
      "import tensorflow.python.ops",
      "from tensorflow.python.framework import ops",
      "importlib.import_module('tensorflow_estimator.python.estimator')",
      "graph._get_function(name)",
      "getattr(estimator, '_model_fn')",
      "vars(estimator)['_model_fn']",
    ):
      with self.subTest(source), tempfile.NamedTemporaryFile("w") as file:
        file.write(source)
        file.flush()
        self.assertEqual(len(list(_private_names(file.name))), 1)


if __name__ == "__main__":
  unittest.main()
