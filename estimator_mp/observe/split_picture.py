"""Split picture: the parts of each variable on the devices of an axis.

A column per device. A row for each variable that is split, the largest first,
with the device's shard of it filled in. Below them a row for each tensor that
the devices send each other, that of the most bytes first: what is summed,
gathered or read by all. Those that only numbers in their names tell apart, as
those of layers, are one row. Where tables are split over replicas, a last row
is for what each has whole.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence

from estimator_mp import amounts
from estimator_mp.observe import canvas as canvas_lib
from estimator_mp.observe.canvas import FAINT
from estimator_mp.plan.split_plan import (
  BROADCAST,
  SLICE,
  Sent,
  SplitPlan,
  SplitVariable,
)

# Inches.
_MARGIN = 0.4
_PAGE = 8.3
_LETTER = 0.068
_NARROWEST = 1.2
_WIDEST = 2.2
_SHORTEST = 0.1
_BETWEEN = 0.22
_SENT = 0.42
_REPLICATED = 0.62
_HEADER = 0.95
_FOOTER = 0.75

# Of a column.
_LONGEST = 0.73
# Rows of variables, and as many of what is sent.
_MOST_ROWS = 24
# What is sent no more than this of, as of scalars and shapes, has no row.
_MOST_LEFT_OUT_BYTES = 64
# A number in a name, but for that of an op's output.
_NUMBER = re.compile(r"((?<![:\d])\d+)")
_COLORS = ("#7fa8d1", "#e3a26f", "#8cbf88", "#c193c9")
_WHOLE = "#f3f4f6"
_BORDER = "#9aa4b1"
_JOINED = "#c2571a"
_SPREAD = "#2563a8"
_FROM_FIRST = (BROADCAST, SLICE)


def write_pictures(
  title: str,
  plan: SplitPlan,
  order: Sequence[str],
  devices: Sequence[str],
  directory: str,
  replicated: int = 0,
) -> list[str]:
  """Draws what is split into split.png and split.svg.

  The same plan gives the same files.

  Args:
    title: The text above the picture.
    plan: The split, and what it sends.
    order: The names of variables and ops, in the order of the graph.
    devices: The titles of the columns, one for each part.
    directory: An existing folder.
    replicated: How many parameters each of the devices has besides, all of
      them the same.

  Returns:
    The paths of the files.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  picture = _Picture(title, plan, order, devices, replicated)
  return picture.write(directory, "split")


@dataclasses.dataclass(frozen=True)
class Row:
  """Variables, or tensors that are sent, which only numbers tell apart.

  Attributes:
    name: Their name, with `*` for the numbers in which they differ.
    first: The first one of them.
    count: How many there are.
  """

  name: str
  first: SplitVariable | Sent
  count: int

  @property
  def what(self) -> str:
    """How it is split, or what is done to it; and its bytes."""
    first = self.first
    if isinstance(first, Sent):
      what = f"{first.kind}; {amounts.amount(first.forward_bytes, 'B')}"
      if first.backward_bytes:
        what += f", {amounts.amount(first.backward_bytes, 'B')} back"
    else:
      shape = " x ".join(f"{size:,}" for size in first.shape)
      num_bytes = amounts.amount(first.num_bytes, "B")
      what = f"{shape}, split by axis {first.axis}; {num_bytes}"
    return what if self.count == 1 else f"each of {self.count:,}: {what}"


def rows(plan: SplitPlan, order: Sequence[str]) -> list[Row]:
  """Returns what the picture shows, from the top: variables, and what is sent.

  Of both the one with the most bytes is first, and the order of the graph
  decides where they have the same. Slots are left out, as they are split as
  their variables are, and so are scalars and shapes that are sent.

  Args:
    plan: The split, and what it sends.
    order: The names of variables and ops, in the order of the graph.
  """
  place = {name: index for index, name in enumerate(order)}

  def position(one: SplitVariable | Sent) -> tuple[bool, int, int]:
    is_sent = isinstance(one, Sent)
    name = one.op if isinstance(one, Sent) else one.name
    return is_sent, -one.num_bytes, place.get(name, len(place))

  sent = [x for x in plan.sent if x.num_bytes > _MOST_LEFT_OUT_BYTES]
  alike: dict[SplitVariable | Sent, list[SplitVariable | Sent]] = {}
  found: list[SplitVariable | Sent] = [*_without_slots(plan), *sent]
  for one in sorted(found, key=position):
    alike.setdefault(_without_numbers(one), []).append(one)
  return [
    Row(_common_name(map(_name, row)), row[0], len(row))
    for row in alike.values()
  ]


def _name(one: SplitVariable | Sent) -> str:
  return one.tensor.removesuffix(":0") if isinstance(one, Sent) else one.name


def _without_numbers(one: SplitVariable | Sent) -> SplitVariable | Sent:
  if isinstance(one, Sent):
    tensor, op = (_NUMBER.sub("*", name) for name in (one.tensor, one.op))
    return dataclasses.replace(one, tensor=tensor, op=op)
  return dataclasses.replace(one, name=_NUMBER.sub("*", one.name))


def _common_name(names: Iterable[str]) -> str:
  """Returns names that only numbers tell apart as one, with `*` for these."""
  places = zip(*map(_NUMBER.split, names), strict=True)
  return "".join(x[0] if len(set(x)) == 1 else "*" for x in places)


def num_parameters(plan: SplitPlan) -> int:
  """Returns how many numbers the split variables have, without slots.

  Args:
    plan: The split.
  """
  return sum(math.prod(variable.shape) for variable in _without_slots(plan))


def _without_slots(plan: SplitPlan) -> list[SplitVariable]:
  names = {variable.name for variable in plan.variables}
  return [x for x in plan.variables if not _is_slot(x.name, names)]


def _is_slot(name: str, names: set[str]) -> bool:
  """Whether a variable is named below another one, as slots are."""
  parts = name.split("/")
  return any("/".join(parts[:i]) in names for i in range(1, len(parts)))


@dataclasses.dataclass
class _Picture(canvas_lib.Picture):
  """The picture of one plan; the fields are what `write_pictures` gets."""

  title: str
  plan: SplitPlan
  order: Sequence[str]
  devices: Sequence[str]
  replicated: int

  def __post_init__(self) -> None:
    kinds = [
      [
        row
        for row in rows(self.plan, self.order)
        if isinstance(row.first, kind)
      ]
      for kind in (SplitVariable, Sent)
    ]
    self._rows = [row for found in kinds for row in found[:_MOST_ROWS]]
    self._left_out = [
      amounts.counted(sum(row.count for row in found[_MOST_ROWS:]), thing)
      for found, thing in zip(
        kinds, ("smaller variable", "smaller tensor"), strict=True
      )
      if found[_MOST_ROWS:]
    ]
    shapes = [
      x.first.shape for x in self._rows if isinstance(x.first, SplitVariable)
    ]
    sizes = [size for *s, last in shapes for size in (math.prod(s), last)]
    self._largest = max(sizes, default=2)
    texts = [text for row in self._rows for text in (row.name, row.what)]
    texts += self._replicated_texts()
    self._labels = _LETTER * max(map(len, texts), default=0) + _BETWEEN
    room = _PAGE - 2 * _MARGIN - self._labels
    self._column = min(max(room / len(self.devices), _NARROWEST), _WIDEST)
    self._longest = _LONGEST * self._column
    self.width = 2 * _MARGIN + self._labels + self._column * len(self.devices)
    self.height = _HEADER + sum(map(self._height, self._rows)) + _FOOTER
    if self.replicated:
      self.height += _REPLICATED

  def _height(self, row: Row) -> float:
    """Returns the height of a row, in inches."""
    if isinstance(row.first, Sent):
      return _SENT
    return max(self._outline(row.first)[1], 0.34) + _BETWEEN

  def _outline(self, variable: SplitVariable) -> tuple[float, float]:
    """Returns the width and the height of a variable, in inches.

    They are for its last dimension and for all others together, and grow with
    their logarithms.
    """
    *others, last = variable.shape
    scale = (self._longest - _SHORTEST) / math.log2(1 + self._largest)
    width, height = (
      _SHORTEST + scale * math.log2(max(size, 1))
      for size in (last, math.prod(others))
    )
    return width, 0.6 * height

  def _label(
    self, middle: float, name: str, what: str, color: str = FAINT
  ) -> None:
    """Writes what a row is, beside its columns."""
    self.canvas.text(_MARGIN, middle + 0.08, name, size=8)
    self.canvas.text(_MARGIN, middle - 0.09, what, size=7.5, color=color)

  def _left(self, part: int) -> float:
    return _MARGIN + self._labels + self._column * part

  def _middle(self, part: int) -> float:
    return self._left(part) + self._longest / 2

  def draw(self) -> None:
    """Draws it."""
    self.frame(_MARGIN, self.title, self._footer())
    y = self.height - 0.35
    for part, device in enumerate(self.devices):
      x = self._middle(part)
      self.canvas.text(x, y - 0.4, device, 9, align="center", weight="bold")
    y = self.height - _HEADER
    for row in self._rows:
      middle = y - self._height(row) / 2
      if isinstance(row.first, Sent):
        self._draw_sent(row, row.first, middle)
      else:
        self._draw_variable(row, row.first, middle)
      y -= self._height(row)
    if self.replicated:
      self._draw_replicated(y - _REPLICATED / 2)

  def _footer(self) -> list[str]:
    """Returns the lines at the bottom."""
    sent = amounts.amount(self.plan.num_bytes, "B")
    lines = [f"Sent over the model axis each training step: {sent}."]
    if self.replicated:
      lines = [f"Sent between shards each training step: {sent}."]
    if self._left_out:
      lines.append(f"Not drawn: {', '.join(self._left_out)}.")
    return lines

  def _draw_variable(
    self, row: Row, variable: SplitVariable, middle: float
  ) -> None:
    """Draws a variable once for each device, with the device's shard in it."""
    self._label(middle, row.name, row.what)
    width, height = self._outline(variable)
    by_columns = variable.axis == len(variable.shape) - 1
    whole = sum(variable.sizes)
    start = 0
    for part, length in enumerate(variable.sizes):
      left = self._middle(part) - width / 2
      bottom = middle - height / 2
      self.canvas.box((left, bottom), (width, height), _WHOLE, _BORDER)
      before, own = start / whole, length / whole
      if by_columns:
        corner = (left + width * before, bottom)
        extent = (width * own, height)
      else:
        corner = (left, bottom + height * (1 - before - own))
        extent = (width, height * own)
      color = _COLORS[part % len(_COLORS)]
      self.canvas.box(corner, extent, color, _BORDER)
      start += length

  def _replicated_texts(self) -> tuple[str, str]:
    return (
      "all other variables",
      f"{self.replicated:,} parameters, whole in each replica",
    )

  def _draw_replicated(self, middle: float) -> None:
    """Draws what each device has whole."""
    self._label(middle, *self._replicated_texts())
    size = (self._longest / 2, _REPLICATED - _BETWEEN)
    for part in range(len(self.devices)):
      corner = (self._middle(part) - size[0] / 2, middle - size[1] / 2)
      color = _COLORS[part % len(_COLORS)]
      self.canvas.box(corner, size, color, _BORDER)

  def _draw_sent(self, row: Row, sent: Sent, middle: float) -> None:
    """Draws an arrow to, or from, the device that has the whole tensor."""
    spreads = sent.kind in _FROM_FIRST
    color = _SPREAD if spreads else _JOINED
    self._label(middle, row.name, row.what, color)
    ends = (self._middle(0), self._middle(len(self.devices) - 1))
    points = [(x, middle) for x in (ends if spreads else ends[::-1])]
    self.canvas.arrow(points, color, 1.2)
