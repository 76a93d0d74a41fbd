"""Code that protoc generated before 3.19 runs on today's protobuf.

Such a `..._pb2.py` writes every descriptor out, which protobuf refuses since
4.21; it also holds the whole file as one serialized descriptor. From that come
the messages here, by the function that newer generated code calls itself.
Tested on protobuf 4.25 and 7.36.
"""

import ast
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

_GENERATED = "_pb2"
_SERIALIZED = "serialized_pb"


def _descriptor_of_file(statement: ast.stmt) -> ast.expr | None:
  """Returns what `DESCRIPTOR = FileDescriptor(..., serialized_pb=X)` reads."""
  if isinstance(statement, ast.Assign) and isinstance(
    statement.value, ast.Call
  ):
    for keyword in statement.value.keywords:
      if keyword.arg == _SERIALIZED:
        return keyword.value
  return None


def _prologue(source: str) -> tuple[list[ast.stmt], ast.expr] | None:
  """Returns what precedes the file's descriptor, and its bytes' expression."""
  before: list[ast.stmt] = []
  for statement in ast.parse(source).body:
    serialized = _descriptor_of_file(statement)
    if serialized is not None:
      return before, serialized
    before.append(statement)
  return None


class _OldLoader(importlib.abc.Loader):
  """Executes a generated module's imports, then builds its messages."""

  def __init__(
    self, path: str, before: list[ast.stmt], serialized: ast.expr
  ) -> None:
    self._path = path
    self._before = before
    self._serialized = serialized

  def create_module(
    self, spec: importlib.machinery.ModuleSpec
  ) -> types.ModuleType | None:
    return None

  def exec_module(self, module: types.ModuleType) -> None:
    from google.protobuf import descriptor_pool
    from google.protobuf.internal import builder

    namespace = vars(module)
    imports = ast.Module(body=self._before, type_ignores=[])
    exec(compile(imports, self._path, "exec"), namespace)
    code = compile(ast.Expression(self._serialized), self._path, "eval")
    namespace["DESCRIPTOR"] = described = (
      descriptor_pool.Default().AddSerializedFile(eval(code, namespace))
    )
    builder.BuildMessageAndEnumDescriptors(described, namespace)
    builder.BuildTopDescriptorsAndMessages(
      described, module.__name__, namespace
    )


class OldProtobufFinder(importlib.abc.MetaPathFinder):
  """Finds the old generated modules, whosever they are: no others can run."""

  def find_spec(
    self,
    fullname: str,
    path: Sequence[str] | None,
    target: types.ModuleType | None = None,
  ) -> importlib.machinery.ModuleSpec | None:
    """Returns how to import an old generated module, or None for any other."""
    if not fullname.endswith(_GENERATED):
      return None
    spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
    if spec is None or not isinstance(
      spec.loader, importlib.machinery.SourceFileLoader
    ):
      return None
    source = spec.loader.get_source(fullname) or ""
    found = _prologue(source) if f"{_SERIALIZED}=" in source else None
    if found is None:
      return None
    spec.loader = _OldLoader(spec.loader.path, *found)
    return spec


def accept() -> None:
  """Makes old generated code importable."""
  sys.meta_path.insert(0, OldProtobufFinder())
