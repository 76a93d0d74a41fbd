"""Counts the code lines of the Python files of folders.

    python3 tools/code_lines.py estimator_mp tests/estimator_mp

A code line holds a token that is neither a comment nor of a docstring; imports
count. A text of several lines that is no docstring counts with all of them.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import pathlib
import tokenize
from collections.abc import Iterable, Mapping, Sequence

_WITHOUT_CODE = frozenset(
  [
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
  ]
)
_WITH_DOCSTRING = (
  ast.AsyncFunctionDef,
  ast.ClassDef,
  ast.FunctionDef,
  ast.Module,
)


def code_lines(source: str) -> int:
  """Returns how many lines of a Python file hold code.

  Args:
    source: The text of the file.

  Raises:
    SyntaxError: If it is no Python.
  """
  docstrings = {*_docstrings(ast.parse(source))}
  lines: set[int] = set()
  for token in tokenize.generate_tokens(io.StringIO(source).readline):
    if token.type not in _WITHOUT_CODE and token.start not in docstrings:
      lines.update(range(token.start[0], token.end[0] + 1))
  return len(lines)


def _docstrings(tree: ast.AST) -> Iterable[tuple[int, int]]:
  """Yields where the tokens of docstrings start: line and column."""
  for node in ast.walk(tree):
    if not isinstance(node, _WITH_DOCSTRING) or not node.body:
      continue
    first = node.body[0]
    if (
      isinstance(first, ast.Expr)
      and isinstance(first.value, ast.Constant)
      and isinstance(first.value.value, str)
    ):
      yield first.value.lineno, first.value.col_offset


def count(folders: Sequence[str]) -> dict[str, tuple[int, int]]:
  """Returns the files and the code lines of folders and those below them.

  Args:
    folders: Paths of folders. A file below two of them counts once.

  Returns:
    For each folder that has Python files of its own, in order: how many, and
    their code lines.

  Raises:
    NotADirectoryError: If a path is no folder.
  """
  found: dict[str, tuple[int, int]] = {}
  for folder in folders:
    if not os.path.isdir(folder):
      raise NotADirectoryError(
        f"{folder!r} is no folder; give folders with Python files, such as "
        "estimator_mp"
      )
    for path in sorted({x.parent for x in pathlib.Path(folder).rglob("*.py")}):
      files = sorted(path.glob("*.py"))
      lines = sum(code_lines(_text(file)) for file in files)
      found[str(path)] = len(files), lines
  return found


def _text(path: pathlib.Path) -> str:
  with tokenize.open(path) as file:  # In the file's own encoding.
    return file.read()


def table(found: Mapping[str, tuple[int, int]]) -> str:
  """Returns a table for people: a line for each folder, and the total.

  Args:
    found: The result of `count`.
  """
  files = sum(files for files, _ in found.values())
  lines = sum(lines for _, lines in found.values())
  rows = {**found, "total": (files, lines)}
  width = max(map(len, ["folder", *rows]))
  return "\n".join(
    [f"{'folder':<{width}}  files   lines"]
    + [f"{x:<{width}}  {rows[x][0]:5,}  {rows[x][1]:6,}" for x in rows]
  )


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the table.

  Args:
    arguments: Those of the command line, without the command.
  """
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("folders", nargs="+", help="such as estimator_mp")
  folders = parser.parse_args(arguments).folders
  base = os.environ.get("BUILD_WORKING_DIRECTORY", "")  # Of `bazel run`.
  try:
    print(table(count([os.path.join(base, folder) for folder in folders])))
  except NotADirectoryError as error:
    parser.error(str(error))


if __name__ == "__main__":
  main()
