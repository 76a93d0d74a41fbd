"""The blocks of docs/benchmarks.md that `run_all` writes.

Each section has one, between two comments that a reader does not see. What is
around it is written by people.
"""

import os
import re
from collections.abc import Sequence

from benchmarks import figures

_END = "<!-- end of figures -->"
# By flags of Linux, the widest first. How fast products are depends on them.
_VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2"}
_HEAD = """\
| what | median (from, to) | bound | of it |
| --- | --- | --- | --- |
"""


def _begin(name: str) -> str:
  return f"<!-- figures of {name}, written by //benchmarks:all -->"


def _pattern(name: str) -> re.Pattern[str]:
  return re.compile(
    re.escape(_begin(name)) + r"\n(.*?)" + re.escape(_END), re.DOTALL
  )


def machine() -> str:
  """Returns the cores of this machine, of what kind, and their vectors."""
  text = ""
  if os.path.exists("/proc/cpuinfo"):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
      text = file.read()
  named = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
  kind = [named.group(1) if named else "unknown"]
  kind += [name for flag, name in _VECTORS.items() if f" {flag} " in text][:1]
  return f"{len(os.sched_getaffinity(0))} cores ({', '.join(kind)})"


def table(caption: str, found: Sequence[figures.Figure]) -> str:
  """Returns what goes into a block.

  Args:
    caption: Where and how it was measured.
    found: The figures: those with a bound are rows, the others items of a list.
  """
  rows = [" | ".join(x.cells()) for x in found if x.bound]
  items = [": ".join(x.cells()[:2]) for x in found if not x.bound]
  text = f"\n{caption}:\n\n{_HEAD}" + "".join(f"| {row} |\n" for row in rows)
  return text + "\n" * bool(items) + "".join(f"- {item}\n" for item in items)


def read_block(text: str, name: str) -> str:
  """Returns what is in the block of a benchmark.

  Raises:
    ValueError: If there is not exactly one.
  """
  blocks = _pattern(name).findall(text)
  if len(blocks) != 1:
    raise ValueError(
      f"the page has {len(blocks)} blocks for {name!r}; write one, "
      f"{_begin(name)!r} and {_END!r} on lines of their own"
    )
  return str(blocks[0])


def replace_block(text: str, name: str, content: str) -> str:
  """Returns a page with another block.

  Args:
    text: The page.
    name: The benchmark.
    content: What `table` returned.

  Raises:
    ValueError: If the page has not exactly one block for it.
  """
  read_block(text, name)
  whole = f"{_begin(name)}\n{content}\n{_END}"
  return _pattern(name).sub(lambda _: whole, text)
