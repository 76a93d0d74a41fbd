"""Writes the tables of docs/tensorflow1.md: which names of 1.15 are there.

    python -m tests.compat.v1.names.write

The tables are of TensorFlow 2.21. Names are 1.15.5's as record.py found them.
"""

import collections
import re
from collections.abc import Iterable, Iterator, Sequence

from tests.compat.v1.names.comparison import Found
from tests.compat.v1.names.uses import Use

_SECTION = (
  "<!-- {0}: begin (written by tests/compat/v1/names) -->\n",
  "<!-- {0}: end -->\n",
)


def with_tables(
  page: str,
  names: Sequence[Found],
  contrib: Sequence[Found],
  uses: Sequence[Use],
) -> str:
  """Returns a page with its tables written anew.

  Args:
    page: docs/tensorflow1.md.
    names: what is there outside contrib.
    contrib: what is there of contrib.
    uses: what programs use most of contrib.
  """
  tables = {
    "namespaces": _namespaces(names),
    "replaced": _replaced(names),
    "arguments": _arguments(names),
    "uses": _uses(uses),
    "contrib": _contrib(contrib),
  }
  for title, lines in tables.items():
    begin, end = (mark.format(title) for mark in _SECTION)
    head, _, rest = page.partition(begin)
    _, _, tail = rest.partition(end)
    table = "\n".join(lines).strip()
    page = f"{head}{begin}\n{table}\n\n{end}{tail}"
  return page


def table_of_uses(uses: Sequence[Use]) -> str:
  """Returns the table of what programs use most of contrib."""
  return "\n".join(_uses(uses))


def losses(before: str, after: str) -> list[str]:
  """Returns what one page has and a later one has no more.

  Args:
    before: the page.
    after: the later page.
  """
  counted, is_now = _counts(before), _counts(after)
  return [
    f"{name}: {count} names before, {is_now.get(name, 0)} now"
    for name, count in sorted(counted.items())
    if is_now.get(name, 0) < count
  ]


def _counts(page: str) -> dict[str, int]:
  """Returns how many names work, by namespace and module of contrib."""
  rows = re.findall(r"^\| `([\w.]+)` \| (\d+) of \d+ \|", page, re.M)
  modules = re.findall(r"^\*\*`([\w.]+)`\*\*, (\d+) of \d+", page, re.M)
  return {name: int(count) for name, count in (*rows, *modules)}


def _namespaces(found: Sequence[Found]) -> Iterator[str]:
  classes = {one.recorded.path for one in found if one.recorded.kind == "class"}
  groups = collections.defaultdict(list)
  for one in found:
    groups[_namespace(one.recorded.path, classes)].append(one)
  yield "| namespace | working | of them by compat | with other arguments |"
  yield "| --- | --- | --- | --- |"
  for name, group in sorted(groups.items()):
    there = [one for one in group if one.is_there]
    by_compat = sum(one.is_supplied for one in there)
    others = sum(bool(one.differences) for one in there)
    yield (
      f"| `{name}` | {len(there)} of {len(group)} | {by_compat or ''} | "
      f"{others or ''} |"
    )


def _namespace(path: str, classes: Iterable[str]) -> str:
  """Returns the namespace that a name is in, of two levels at most."""
  above = path.split(".")[:-1]
  while ".".join(above) in classes:
    above.pop()
  return ".".join(["tf", *above[:2]])


def _replaced(found: Sequence[Found]) -> Iterator[str]:
  """One line for all names in a class that is gone as a whole."""
  gone = {one.recorded.path for one in found if not one.is_there}
  groups = collections.defaultdict(list)
  for one in found:
    path = one.recorded.path
    if path in gone and path.rpartition(".")[0] not in gone:
      groups[one.replacement].append(path)
  yield "| name | use |"
  yield "| --- | --- |"
  for replacement, paths in sorted(groups.items(), key=lambda item: item[1]):
    paths = [f"tf.{path}" for path in paths]
    yield f"| {_listed(paths)} | {replacement or 'nothing'} |"


def _arguments(found: Sequence[Found]) -> Iterator[str]:
  """One line for all names that differ in the same way."""
  groups = collections.defaultdict(list)
  for one in found:
    if one.differences:
      groups["; ".join(one.differences)].append(one.recorded.path)
  yield "| name | what differs |"
  yield "| --- | --- |"
  for what, paths in sorted(groups.items(), key=lambda item: item[1]):
    paths = [f"tf.{path}" for path in paths]
    yield f"| {_listed(paths)} | {what} |"


def _uses(uses: Sequence[Use]) -> Iterator[str]:
  """A line for all names with as many hits."""
  groups = collections.defaultdict(list)
  for one in uses:
    groups[one.hits].append(one)
  yield "| hits | there | there with a package | refused |"
  yield "| --- | --- | --- | --- |"
  for hits, group in groups.items():
    there = [x.path for x in group if not x.package and not x.replacement]
    packages = [f"`{x.path}` ({x.package})" for x in group if x.package]
    refused = [
      f"`{x.path}`: use {x.replacement}" for x in group if x.replacement
    ]
    yield (
      f"| {hits} | {_listed(there)} | {', '.join(packages)} | "
      f"{'; '.join(refused)} |"
    )


def _contrib(found: Sequence[Found]) -> Iterator[str]:
  """A paragraph for each module, so that two changes seldom meet in a line."""
  groups = collections.defaultdict(list)
  for one in found:
    groups[one.recorded.path.partition(".")[0]].append(one)
  for module, group in sorted(groups.items()):
    there = sum(one.is_there for one in group)
    yield f"**`tf.contrib.{module}`**, {there} of {len(group)}."
    replacements = collections.defaultdict(list)
    for one in group:
      if not one.is_there:
        name = one.recorded.path.partition(".")[2]
        replacements[one.replacement].append(name)
    if not there and len(replacements) == 1:
      yield f"All are gone: {_use(next(iter(replacements)))}."
      replacements.clear()
    for replacement, names in sorted(replacements.items()):
      yield f"{_listed(names)}: {_use(replacement)}."
    for one in group:
      if one.differences:
        name = one.recorded.path.partition(".")[2]
        yield f"`{name}`: {'; '.join(one.differences)}."
    yield ""


def _use(replacement: str) -> str:
  return f"use {replacement}" if replacement else "nothing replaces them"


def _listed(names: Iterable[str]) -> str:
  return ", ".join(f"`{name}`" for name in names)
