"""Amounts for people: bytes and floating-point operations, shortened."""

from collections.abc import Sequence

_UNITS = ("", "k", "M", "G", "T", "P")


def amount(value: float, unit: str) -> str:
  """Returns a number with three digits or so, such as "12.3 MB".

  Args:
    value: The number, not negative.
    unit: What it counts, such as "B" or "FLOP".
  """
  for prefix in _UNITS:
    if value < 999.5 or prefix == _UNITS[-1]:
      break
    value /= 1000
  if prefix == "" and value == round(value):
    return f"{value:.0f} {unit}"
  digits = max(0, 3 - len(str(int(value))))
  return f"{value:.{digits}f} {prefix}{unit}"


def tensors(count: int) -> str:
  """Returns "1 tensor", "2 tensors" and so on.

  Args:
    count: How many.
  """
  return f"{count} tensor" if count == 1 else f"{count:,} tensors"


def together(values: Sequence[float], unit: str) -> str:
  """Returns several amounts in the unit of the greatest: "4.5/3.4/0.2 MB".

  Args:
    values: The numbers, at least one and none negative.
    unit: What they count.
  """
  number, _, prefixed = amount(max(values), unit).partition(" ")
  scale = 1000 ** _UNITS.index(prefixed.removesuffix(unit))
  digits = len(number.partition(".")[2])
  return f"{'/'.join(f'{v / scale:.{digits}f}' for v in values)} {prefixed}"
