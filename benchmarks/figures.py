"""What benchmarks find, as data: printed, and kept by --json.

A figure is what was measured in each round, beside its bound: what no program
could do better than, or what was aimed at. What is better than the first kind
of bound is a fault of the measurement, and is called that wherever it is shown.
"""

import dataclasses
import json
import statistics
from collections.abc import Sequence

from absl import flags

_JSON = flags.DEFINE_string("json", None, "A file that the figures go to.")

# What clocks and schedulers of operating systems add or take.
_NOISE = 0.01
FAULT = "BEYOND ITS BOUND: a fault of the measurement"


@dataclasses.dataclass(frozen=True)
class Figure:
  """What was measured of one thing.

  Attributes:
    what: What it is of, such as "1f1b, M=8".
    unit: Such as "ms" or "steps/s"; "" for a ratio.
    rounds: What each round found.
    bound: The bound in each round, or one for all; empty without one.
    is_lower_better: Whether the bound is the least, and not the most, that
      there can be.
    is_aim: Whether the bound is one that was set, so that it may be surpassed.
  """

  what: str
  unit: str
  rounds: tuple[float, ...]
  bound: tuple[float, ...] = ()
  is_lower_better: bool = False
  is_aim: bool = False

  def __post_init__(self) -> None:
    # From JSON they are lists.
    object.__setattr__(self, "rounds", tuple(self.rounds))
    object.__setattr__(self, "bound", tuple(self.bound))
    if not self.rounds:
      raise ValueError(f"{self.what!r} has no round; give one value at least")
    if len(self.bound) not in (0, 1, len(self.rounds)):
      raise ValueError(
        f"{self.what!r} has {len(self.rounds)} rounds and {len(self.bound)} "
        "bounds; give one for each round, one for all, or none"
      )

  @property
  def value(self) -> float:
    """The median of the rounds."""
    return statistics.median(self.rounds)

  @property
  def reached(self) -> float | None:
    """The part of the bound that is reached: the median of the rounds'."""
    if not self.bound:
      return None
    bounds = self.bound * (1 if len(self.bound) > 1 else len(self.rounds))
    pairs = zip(self.rounds, bounds, strict=True)
    if self.is_lower_better:
      return statistics.median(
        # Nothing, where nothing is the bound, is all of it.
        bound / value if value else 1.0
        for value, bound in pairs
      )
    return statistics.median(value / bound for value, bound in pairs)

  @property
  def is_fault(self) -> bool:
    """Whether it is better than anything can be, by more than noise."""
    return not self.is_aim and (self.reached or 0.0) > 1.0 + _NOISE

  def cells(self) -> tuple[str, str, str, str]:
    """Returns it as texts: what, value with range, bound, part reached."""
    unit = self.unit and f" {self.unit}"
    text = _number(self.value) + unit
    if len(self.rounds) > 1:
      text += f" ({_number(min(self.rounds))} to {_number(max(self.rounds))})"
    if not self.bound:
      return self.what, text, "", ""
    reached = f"{self.reached:.3f}" + (f", {FAULT}" if self.is_fault else "")
    bound = _number(statistics.median(self.bound)) + unit
    return self.what, text, bound + (" (aim)" if self.is_aim else ""), reached


def _number(value: float) -> str:
  """Returns four digits of a number, or all of a whole one."""
  if value == int(value):
    return f"{int(value)}"
  return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def ratio(
  what: str,
  firsts: Sequence[float],
  seconds: Sequence[float],
  **bound: object,
) -> Figure:
  """Returns the ratios of two sides that were measured in turns.

  Args:
    what: What is compared.
    firsts: What the one side had in each round.
    seconds: What the other side had in it.
    **bound: Further attributes of the figure.
  """
  rounds = tuple(x / y for x, y in zip(firsts, seconds, strict=True))
  return Figure(what, "", rounds, **bound)  # type: ignore[arg-type]


def show(found: Sequence[Figure]) -> None:
  """Prints a line for each figure."""
  rows = [
    ("", "median (from, to)", "bound", "of it"),
    *map(Figure.cells, found),
  ]
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  for row in rows:
    cells = (x.ljust(width) for x, width in zip(row, widths, strict=True))
    print("  ".join(cells).rstrip(), flush=True)


def save(found: Sequence[Figure]) -> None:
  """Writes a benchmark's figures to the file of --json, if there is one."""
  if _JSON.value is not None:
    with open(_JSON.value, "w", encoding="utf-8") as file:
      json.dump([dataclasses.asdict(x) for x in found], file, indent=1)


def load(path: str) -> list[Figure]:
  """Returns the figures that `save` wrote."""
  with open(path, encoding="utf-8") as file:
    return [Figure(**entry) for entry in json.load(file)]
