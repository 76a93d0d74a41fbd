"""Amounts as people read and write them: bytes, FLOPs, counts; tables."""

import fractions
import re
from collections.abc import Iterable, Sequence

_UNITS = ("", "k", "M", "G", "T", "P")
_BYTES = {
  "": 1,
  "B": 1,
  **{f"{x}B": 1000 ** (i + 1) for i, x in enumerate("kMGT")},
  **{f"{x}iB": 1024 ** (i + 1) for i, x in enumerate("KMGT")},
}


def amount(value: float, unit: str) -> str:
  """Returns a number with three digits or so, such as "12.3 MB".

  Args:
    value: The number, not negative.
    unit: The unit of the number, such as "B" or "FLOP".
  """
  for prefix in _UNITS:
    if value < 999.5 or prefix == _UNITS[-1]:
      break
    value /= 1000
  if prefix == "" and value == round(value):
    return f"{value:.0f} {unit}"
  digits = max(0, 3 - len(str(int(value))))
  return f"{value:.{digits}f} {prefix}{unit}"


def counted(count: int, thing: str, ending: str = "s") -> str:
  """Returns "1 tensor", "2 tensors" and so on.

  Args:
    count: How many.
    thing: The name of the things that are counted, in the singular.
    ending: The ending of its plural.
  """
  return f"{count:,} {thing}{'' if count == 1 else ending}"


def columns(rows: Iterable[Sequence[str]], num_words: int) -> list[str]:
  """Returns the lines of a table.

  Args:
    rows: Its rows, at least one.
    num_words: How many columns are of words, which are on the left; the others
      are of numbers, which end below each other.
  """
  table = list(rows)
  widths = [max(map(len, column)) for column in zip(*table, strict=True)]
  lines = []
  for row in table:
    cells = list(zip(row, widths, strict=True))
    words = [cell.ljust(width) for cell, width in cells[:num_words]]
    numbers = [cell.rjust(width) for cell, width in cells[num_words:]]
    lines.append("  ".join(words + numbers).rstrip())
  return lines


def in_one_unit(values: Sequence[float], unit: str) -> str:
  """Returns several amounts in the unit of the greatest: "4.5/3.4/0.2 MB".

  Args:
    values: The numbers, at least one and none negative.
    unit: The unit of the numbers.
  """
  number, _, prefixed = amount(max(values), unit).partition(" ")
  scale = 1000 ** _UNITS.index(prefixed.removesuffix(unit))
  digits = len(number.partition(".")[2])
  return f"{'/'.join(f'{v / scale:.{digits}f}' for v in values)} {prefixed}"


def parse_bytes(text: str) -> int:
  """Returns the bytes that a text such as "256MiB" means.

  Args:
    text: A number, perhaps with a unit: B, kB, MB, GB, TB, or KiB, MiB, GiB,
      TiB.

  Raises:
    ValueError: If it is no such text. The message continues a line that begins
      with the text.
  """
  match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMGT]?i?B?)", text.strip())
  unit = _BYTES.get(match[2]) if match else None
  if match is None or unit is None:
    raise ValueError(
      "is not an amount of bytes; write it like 256MiB, 16GB or 1000000"
    )
  return int(fractions.Fraction(match[1]) * unit)


def format_bytes(num_bytes: int) -> str:
  """Returns a text such as "256MiB", which `parse_bytes` reads as the number.

  Args:
    num_bytes: The number; it keeps all of its digits.
  """
  exact = [unit for unit, size in _BYTES.items() if num_bytes % size == 0]
  unit = min(exact, key=lambda unit: num_bytes // _BYTES[unit])
  return f"{num_bytes // _BYTES[unit]}{unit}"
