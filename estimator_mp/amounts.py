"""Amounts for people: bytes and floating-point operations, shortened."""

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
