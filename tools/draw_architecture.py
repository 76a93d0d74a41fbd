"""Draws the folders of estimator_mp, from what they import and what they say.

    python -m tools.draw_architecture

writes docs/pictures/architecture.png, and the table of docs/architecture.md.
An arrow goes from a folder to one that it imports. Where a way over other
folders leads there, too, there is none. Where two import each other, the one
that imports more is above.
"""

import argparse
import ast
import collections
import dataclasses
import itertools
import pathlib
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from estimator_mp.observe import drawing
from tools import code_lines, sheet

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PACKAGE = "estimator_mp"
_GUIDE = pathlib.Path("docs", "architecture.md")
_BEGIN = "<!-- folders: begin (written by tools/draw_architecture.py) -->\n"
_END = "<!-- folders: end -->"

# Modules of no folder that belong to one, or that a picture can do without.
_COMMANDS = ("compare", "plan", "train")
_LEFT_OUT = ("", "__init__", "amounts", "toolbox")

# In inches: a page, on which letters of 8 points are legible.
_PAGE, _MARGIN, _GAP, _BETWEEN_ROWS = 8.3, 0.15, 0.2, 0.3
_WIDEST, _PASSING, _INSIDE = 3.0, 0.05, 0.08
_NAME_HEIGHT, _LINE_HEIGHT, _LETTER = 0.34, 0.15, 0.062
_STEPS = ("capture", "plan", "lower", "observe")
_STEP_COLOR, _COLOR = "#dbe9f6", "#f3f4f6"


@dataclasses.dataclass(frozen=True)
class Part:
  """A folder of the package, or a module beside the folders.

  Attributes:
    name: Its name.
    summary: The first sentence of its docstring, without its name.
    comes_in: The text after "In:" in its docstring; empty if there is none.
    goes_out: The same, after "Out:".
    imports: The parts that it imports.
    num_lines: Its lines of code; see `tools.code_lines`.
  """

  name: str
  summary: str
  comes_in: str
  goes_out: str
  imports: frozenset[str]
  num_lines: int = 0


def read_parts(root: pathlib.Path) -> dict[str, Part]:
  """Returns the parts of the package, by their names.

  Args:
    root: The root of the repository.
  """
  counts: dict[str, collections.Counter[str]] = {}
  lines: collections.Counter[str] = collections.Counter()
  for path in sorted((root / _PACKAGE).rglob("*.py")):
    relative = path.relative_to(root).with_suffix("")
    name = _part_of(".".join(relative.parts))
    if name not in _LEFT_OUT:
      found = counts.setdefault(name, collections.Counter())
      source = path.read_text(encoding="utf-8")
      found.update(map(_part_of, _imports(ast.parse(source))))
      lines[name] += code_lines.code_lines(source)
  return {
    name: _part(
      name,
      _docstring(root, name),
      frozenset(
        other
        for other, count in found.items()
        if other in counts
        and other != name
        and count > counts[other].get(name, 0)
      ),
      lines[name],
    )
    for name, found in counts.items()
  }


def _part_of(module: str) -> str:
  """Returns the part that a module belongs to; "" if it is none of ours."""
  package, _, rest = module.partition(".")
  name = rest.partition(".")[0]
  if package != _PACKAGE:
    return ""
  return "cli" if name in _COMMANDS else name


def _imports(tree: ast.AST) -> Iterator[str]:
  """Yields the full names of what a file imports."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _docstring(root: pathlib.Path, name: str) -> str:
  path = root / _PACKAGE / name / "__init__.py"
  if not path.exists():
    path = root / _PACKAGE / f"{name}.py"
  tree = ast.parse(path.read_text(encoding="utf-8"))
  return ast.get_docstring(tree) or ""


def _part(
  name: str, docstring: str, imports: frozenset[str], num_lines: int
) -> Part:
  first, *others = docstring.split("\n\n")
  summary = " ".join(first.split()).removesuffix(".")
  start, _, rest = summary.partition(": ")
  if start.lower().startswith(name[:5]) and start.isalpha():
    summary = rest[:1].upper() + rest[1:]
  text = " ".join(" ".join(others).split())
  found = re.match(r"In: (.*?)\. Out: (.*?)\.(?: |$)", text)
  comes_in, goes_out = found.groups() if found else ("", "")
  return Part(name, summary, comes_in, goes_out, imports, num_lines)


def needed_imports(parts: Mapping[str, Part]) -> dict[str, frozenset[str]]:
  """Returns the imports of parts to which no longer way leads.

  Args:
    parts: The parts, none of which leads back to itself.
  """
  behind: dict[str, set[str]] = {}

  def reached(name: str) -> set[str]:
    if name not in behind:
      direct = parts[name].imports
      behind[name] = set(direct).union(*map(reached, direct))
    return behind[name]

  return {
    name: frozenset(
      other
      for other in part.imports
      if not any(other in reached(between) for between in part.imports)
    )
    for name, part in parts.items()
  }


def rows_of(imports: Mapping[str, frozenset[str]]) -> list[list[str]]:
  """Returns the parts in rows: each is above all that it imports.

  Args:
    imports: For each part, the parts that it imports.
  """
  levels: dict[str, int] = {}

  def level(name: str) -> int:
    if name not in levels:
      levels[name] = 1 + max(map(level, imports[name]), default=-1)
    return levels[name]

  top = max(map(level, imports))
  return [
    sorted(name for name in imports if levels[name] == number)
    for number in range(top, -1, -1)
  ]


Slot = str | tuple[str, str]  # A part, or an arrow that passes a row.


def _slots(
  rows: Sequence[Sequence[str]], imports: Mapping[str, frozenset[str]]
) -> list[list[Slot]]:
  """Returns what is in each row from left to right, below what it is for."""
  row_of = {name: k for k, row in enumerate(rows) for name in row}
  found: list[list[Slot]] = []
  for number, row in enumerate(rows):
    slots: list[Slot] = list(row)
    above: dict[Slot, list[float]] = {slot: [] for slot in slots}
    for name in sorted(imports):
      for other in sorted(imports[name]):
        if not row_of[name] < number <= row_of[other]:
          continue
        slot: Slot = other if row_of[other] == number else (name, other)
        if slot not in above:
          slots.append(slot)
        before = found[number - 1]
        passes = row_of[name] < number - 1
        place = before.index((name, other) if passes else name)
        above.setdefault(slot, []).append((place + 0.5) / len(before))
    slots.sort(key=lambda slot: sum(above[slot]) / (len(above[slot]) or 1))
    found.append(slots)
  return found


def _box_width(row: Sequence[Slot]) -> float:
  """Returns how wide the boxes of a row are, in inches."""
  count = sum(isinstance(slot, str) for slot in row)
  taken = _GAP * (len(row) - 1) + _PASSING * (len(row) - count)
  return min((_PAGE - 2 * _MARGIN - taken) / count, _WIDEST)


def _places(row: Sequence[Slot]) -> dict[Slot, float]:
  """Returns the middle of each slot of a row, in inches from the left."""
  box = _box_width(row)
  widths = [box if isinstance(slot, str) else _PASSING for slot in row]
  left = (_PAGE - sum(widths) - _GAP * (len(row) - 1)) / 2
  places = {}
  for slot, size in zip(row, widths, strict=True):
    places[slot] = left + size / 2
    left += size + _GAP
  return places


def draw(parts: Mapping[str, Part], directory: pathlib.Path) -> list[str]:
  """Draws parts; returns the paths of the files.

  Args:
    parts: The parts by name, as `read_parts` returns them.
    directory: An existing folder.
  """
  imports = needed_imports(parts)
  rows = _slots(rows_of(imports), imports)
  heights = [_height(parts, row) for row in rows]
  above = itertools.accumulate(heights, lambda y, h: y + h + _BETWEEN_ROWS)
  total = sum(heights) + _BETWEEN_ROWS * (len(rows) - 1)
  spans = [  # From the top of each row to its bottom.
    (total + _MARGIN - y + h, total + _MARGIN - y)
    for y, h in zip(above, heights, strict=True)
  ]
  places = [_places(row) for row in rows]
  with sheet.opened(_PAGE, total + 2 * _MARGIN) as axes:
    for name, others in imports.items():
      for other in sorted(others):
        sheet.arrow(axes, _way(name, other, places, spans))
    for row_places, span in zip(places, spans, strict=True):
      box = _box_width(list(row_places))
      for slot, x in row_places.items():
        if isinstance(slot, str):
          _draw_part(axes, parts[slot], x - box / 2, box, span)
    return sheet.save(axes, str(directory), "architecture")


def _height(parts: Mapping[str, Part], row: Sequence[Slot]) -> float:
  """Returns the height of a row, in inches."""
  box = _box_width(row)
  counts = [
    len(_lines(parts[slot], box)) for slot in row if isinstance(slot, str)
  ]
  return _NAME_HEIGHT + _LINE_HEIGHT * max(counts)


Span = tuple[float, float]  # A top and a bottom.


def _way(
  name: str,
  other: str,
  places: Sequence[Mapping[Slot, float]],
  spans: Sequence[Span],
) -> list[tuple[float, float]]:
  """Returns the points of an arrow."""
  points = []
  for row, (top, bottom) in zip(places, spans, strict=True):
    if name in row:
      points.append((row[name], bottom))
    elif (name, other) in row:
      points += [(row[name, other], top), (row[name, other], bottom)]
    elif other in row:
      points.append((row[other], top))
  return points


def _lines(part: Part, box: float) -> list[str]:
  """Returns what is written below the name of a part, without marks of code.

  Args:
    part: The part.
    box: The width of its box, in inches.
  """
  letters = int((box - 2 * _INSIDE) / _LETTER)
  return textwrap.wrap(part.summary.replace("`", ""), letters)


def _draw_part(
  axes: Any, part: Part, left: float, box: float, span: Span
) -> None:
  top, bottom = span
  color = _STEP_COLOR if part.name in _STEPS else _COLOR
  sheet.box(axes, (left, bottom), (box, top - bottom), color)
  sheet.text(axes, left + _INSIDE, top - 0.15, part.name, 9, weight="bold")
  for number, line in enumerate(_lines(part, box)):
    y = top - 0.34 - _LINE_HEIGHT * number
    sheet.text(axes, left + _INSIDE, y, line, 8, color=drawing.FAINT)


def table(parts: Mapping[str, Part]) -> str:
  """Returns the table of parts, from the top down, in Markdown.

  Args:
    parts: The parts by name, as `read_parts` returns them.
  """
  titles = "| folder | what it is | in | out | imports | lines of code |"
  lines = [titles, "|" + " --- |" * 6]
  for row in rows_of(needed_imports(parts)):
    for name in row:
      part = parts[name]
      cells = (
        f"`{name}`",
        part.summary,
        part.comes_in,
        part.goes_out,
        ", ".join(sorted(part.imports)),
        f"{part.num_lines:,}",
      )
      lines.append(f"| {' | '.join(cells)} |")
  return "\n".join(lines) + "\n"


def write_table(guide: pathlib.Path, text: str) -> None:
  """Puts a table between the marks of a guide.

  Args:
    guide: The path of the guide.
    text: The table.
  """
  before, rest = guide.read_text(encoding="utf-8").split(_BEGIN)
  after = rest.split(_END)[1]
  guide.write_text(f"{before}{_BEGIN}{text}{_END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
  """Draws the picture and writes the table.

  Args:
    arguments: Those of the command line, without the command.
  """
  parser = argparse.ArgumentParser(description="Draws the folders.")
  parser.add_argument("--root", default=str(_ROOT), help="the repository")
  root = pathlib.Path(parser.parse_args(arguments).root)
  parts = read_parts(root)
  _, drawn_twice = draw(parts, root / "docs" / "pictures")
  pathlib.Path(drawn_twice).unlink()  # Documents show the PNG.
  write_table(root / _GUIDE, table(parts))


if __name__ == "__main__":
  main()
