"""Split picture: what of each variable the devices of an axis hold.

A column per device. In the order of the graph a row for each variable that is
split, with the device's shard of it filled in, and one for each tensor that the
devices send each other on the way: what is summed, gathered or read by all.
Where tables are split over replicas, a last row is for what each has whole.
"""

import dataclasses
import math
from collections.abc import Sequence

from estimator_mp import amounts
from estimator_mp.model_axis import costs
from estimator_mp.model_axis.costs import Sent
from estimator_mp.model_axis.split_plan import SplitPlan, SplitVariable
from estimator_mp.observe import canvas as canvas_lib
from estimator_mp.observe.canvas import FAINT

# Inches.
_MARGIN = 0.4
_LABELS = 2.9
_COLUMN = 2.2
_LONGEST = 1.6
_SHORTEST = 0.1
_BETWEEN = 0.22
_SENT = 0.42
_REPLICATED = 0.62
_HEADER = 0.95
_FOOTER = 0.75

_MOST_ROWS = 24
# What is sent no more than this of, as of scalars and shapes, has no row.
_MOST_LEFT_OUT_BYTES = 64
_MAX_NAME = 36
_COLORS = ("#7fa8d1", "#e3a26f", "#8cbf88", "#c193c9")
_WHOLE = "#f3f4f6"
_BORDER = "#9aa4b1"
_JOINED = "#c2571a"
_SPREAD = "#2563a8"
_FROM_FIRST = (costs.BROADCAST, costs.SLICE)


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
    title: What stands above.
    plan: What is split, and what that sends.
    order: The names of variables and ops, in the order of the picture.
    devices: What the columns are called, one for each part.
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


def rows(plan: SplitPlan, order: Sequence[str]) -> list[SplitVariable | Sent]:
  """Returns what the picture shows, from the top: variables and what is sent.

  Slots are left out, as they are split as their variables are, and so are
  scalars and shapes that are sent.

  Args:
    plan: What is split, and what that sends.
    order: The names of variables and ops, in the order of the graph.
  """
  place = {name: index for index, name in enumerate(order)}

  def position(row: SplitVariable | Sent) -> int:
    name = row.op if isinstance(row, Sent) else row.name
    return place.get(name, len(place))

  sent = [x for x in plan.sent if x.num_bytes > _MOST_LEFT_OUT_BYTES]
  return sorted([*_without_slots(plan), *sent], key=position)


def num_parameters(plan: SplitPlan) -> int:
  """Returns how many numbers the split variables have, without slots.

  Args:
    plan: What is split.
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
    found = rows(self.plan, self.order)
    self._rows = found[:_MOST_ROWS]
    self._left_out = len(found) - len(self._rows)
    sizes = [
      size
      for row in self._rows
      if isinstance(row, SplitVariable)
      for size in (math.prod(row.shape[:-1]), row.shape[-1])
    ]
    self._longest = max(sizes, default=2)
    self.width = 2 * _MARGIN + _LABELS + _COLUMN * len(self.devices)
    self.height = _HEADER + sum(map(self._height, self._rows)) + _FOOTER
    if self.replicated:
      self.height += _REPLICATED

  def _height(self, row: SplitVariable | Sent) -> float:
    """Returns the height of a row, in inches."""
    if isinstance(row, Sent):
      return _SENT
    return max(self._outline(row)[1], 0.34) + _BETWEEN

  def _outline(self, variable: SplitVariable) -> tuple[float, float]:
    """Returns the width and the height of a variable, in inches.

    They are for its last dimension and for all others together, and grow with
    their logarithms.
    """
    *others, last = variable.shape
    scale = (_LONGEST - _SHORTEST) / math.log2(1 + self._longest)
    width, height = (
      _SHORTEST + scale * math.log2(max(size, 1))
      for size in (last, math.prod(others))
    )
    return width, 0.6 * height

  def _label(self, middle: float, name: str, what: str) -> None:
    """Writes what a row is, beside its columns."""
    name = canvas_lib.shortened(name, _MAX_NAME)
    self.canvas.text(_MARGIN, middle + 0.08, name, size=8)
    self.canvas.text(_MARGIN, middle - 0.09, what, size=7, color=FAINT)

  def _left(self, part: int) -> float:
    return _MARGIN + _LABELS + _COLUMN * part

  def draw(self) -> None:
    """Draws it."""
    self.frame(_MARGIN, self.title, self._footer())
    y = self.height - 0.35
    for part, device in enumerate(self.devices):
      x = self._left(part) + _LONGEST / 2
      self.canvas.text(x, y - 0.4, device, 9, align="center", weight="bold")
    y = self.height - _HEADER
    for row in self._rows:
      middle = y - self._height(row) / 2
      if isinstance(row, Sent):
        self._draw_sent(row, middle)
      else:
        self._draw_variable(row, middle)
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
      lines.append(f"Not drawn: {amounts.counted(self._left_out, 'row')}.")
    return lines

  def _draw_variable(self, variable: SplitVariable, middle: float) -> None:
    """Draws a variable once for each device, with the device's shard in it."""
    shape = " x ".join(f"{size:,}" for size in variable.shape)
    num_bytes = amounts.amount(variable.num_bytes, "B")
    self._label(
      middle,
      variable.name,
      f"{shape}, split by axis {variable.axis}; {num_bytes}",
    )
    width, height = self._outline(variable)
    by_columns = variable.axis == len(variable.shape) - 1
    whole = sum(variable.sizes)
    start = 0
    for part, length in enumerate(variable.sizes):
      left = self._left(part) + (_LONGEST - width) / 2
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

  def _draw_replicated(self, middle: float) -> None:
    """Draws what each device has whole."""
    self._label(
      middle,
      "all other variables",
      f"{self.replicated:,} parameters, whole in each replica",
    )
    size = (_LONGEST / 2, _REPLICATED - _BETWEEN)
    for part in range(len(self.devices)):
      corner = (self._left(part) + _LONGEST / 4, middle - size[1] / 2)
      color = _COLORS[part % len(_COLORS)]
      self.canvas.box(corner, size, color, _BORDER)

  def _draw_sent(self, sent: Sent, middle: float) -> None:
    """Draws an arrow to, or from, the device that has the whole tensor."""
    spreads = sent.kind in _FROM_FIRST
    color = _SPREAD if spreads else _JOINED
    first = self._left(0) + _LONGEST / 2
    last = self._left(len(self.devices) - 1) + _LONGEST / 2
    points = [(first, middle), (last, middle)]
    text = amounts.amount(sent.forward_bytes, "B")
    if sent.backward_bytes:
      text += f", {amounts.amount(sent.backward_bytes, 'B')} back"
    self.canvas.arrow(points if spreads else points[::-1], color, 1.2, text)
    name = sent.tensor.removesuffix(":0")
    label = f"{sent.kind}: {canvas_lib.shortened(name, _MAX_NAME)}"
    self.canvas.text(_MARGIN, middle, label, size=8, color=color)
