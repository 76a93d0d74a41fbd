"""Split picture: the parts of each variable on the devices of an axis.

A column per device. A row for each variable that is split, the largest first,
with the device's shard of it filled in. Below them a row for each tensor that
the devices send each other, that of the most bytes first: it is summed,
gathered or read by all. Rows whose names differ in numbers only, as those of
layers, are one row. Where tables are split over replicas, a last row is for the
variables that each has whole.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from estimator_mp import amounts
from estimator_mp.observe import drawing
from estimator_mp.planning.split_plan import (
  BROADCAST,
  SLICE,
  Sent,
  SplitPlan,
  SplitVariable,
)

# Inches.
_COLUMN, _ROW, _LETTER = 1.3, 0.42, 0.07
# Rows of variables, and as many of tensors.
_MOST_ROWS = 24
# A tensor of no more bytes, as scalars and shapes are, has no row.
_MOST_LEFT_OUT_BYTES = 64
# A number in a name, but for that of an op's output.
_NUMBER = re.compile(r"((?<![:\d])\d+)")
_BORDER, _JOINED, _SPREAD = "#9aa4b1", "#c2571a", "#2563a8"


def write_pictures(
  title: str,
  plan: SplitPlan,
  devices: Sequence[str],
  directory: str,
  replicated: int = 0,
) -> list[str]:
  """Draws the split variables into split.png and split.svg.

  The same plan gives the same files.

  Args:
    title: The text above the picture.
    plan: The split, and its transfers.
    devices: The titles of the columns, one for each part.
    directory: An existing folder.
    replicated: How many parameters each of the devices has besides, all of
      them the same.

  Returns:
    The paths of the files.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  every_row = rows(plan)
  variables = [x for x in every_row if isinstance(x.first, SplitVariable)]
  sent = [x for x in every_row if isinstance(x.first, Sent)]
  drawn = variables[:_MOST_ROWS] + sent[:_MOST_ROWS]
  labels = [f"{row.name}\n{row.description}" for row in drawn]
  if replicated:
    words = f"{replicated:,} parameters, whole in each replica"
    labels.append(f"all other variables\n{words}")
  letters = max(map(len, "\n".join(labels).split("\n")))
  width = _COLUMN * len(devices) + _LETTER * letters
  footer = _footer(plan, variables, sent, replicated)
  size = (width, _ROW * len(labels) + 1.2)
  with drawing.figure(size, title, footer) as figure:
    axes = figure.subplots()
    axes.set_xlim(-0.5, len(devices) - 0.5)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.set_xticks(range(len(devices)), devices, weight="bold")
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params(labeltop=True, labelbottom=False)
    shapes = [x.shape for x in plan.variables]
    sizes = [n for *s, last in shapes for n in (math.prod(s), last)]
    for y, row in enumerate(drawn):
      if isinstance(row.first, Sent):
        color = _draw_sent(axes, row.first, y, len(devices) - 1)
        axes.get_yticklabels()[y].set_color(color)
      else:
        _draw_variable(axes, row.first, y, max(sizes))
    if replicated:
      for part in range(len(devices)):
        axes.bar(part, 0.7, 0.4, len(drawn) - 0.35, edgecolor=_BORDER)
    return drawing.save(figure, directory, "split")


def _footer(
  plan: SplitPlan,
  variables: Sequence["Row"],
  sent: Sequence["Row"],
  replicated: int,
) -> str:
  """Returns the lines at the bottom."""
  where = "between shards" if replicated else "over the model axis"
  num_bytes = amounts.amount(plan.num_bytes, "B")
  text = f"Sent {where} each training step: {num_bytes}."
  left_out = [
    amounts.counted(sum(row.count for row in undrawn), f"smaller {thing}")
    for undrawn, thing in (
      (variables[_MOST_ROWS:], "variable"),
      (sent[_MOST_ROWS:], "tensor"),
    )
    if undrawn
  ]
  return f"{text}\nNot drawn: {', '.join(left_out)}." if left_out else text


def _draw_variable(
  axes: Any, variable: SplitVariable, y: int, largest: int
) -> None:
  """Draws a variable once for each device, with the device's shard in it.

  Its width is for the last dimension and its height for all others together,
  and both grow with the logarithms.
  """
  *others, last = variable.shape
  width, height = (
    0.12 + longest * math.log(max(size, 1)) / math.log(largest)
    for longest, size in ((0.5, last), (0.75, math.prod(others)))
  )
  ends = itertools.accumulate(variable.sizes)
  for part, (size, end) in enumerate(zip(variable.sizes, ends, strict=True)):
    left, top = part - width / 2, y - height / 2
    whole = {"align": "edge", "edgecolor": _BORDER}
    axes.bar(left, height, width, top, color=drawing.TRACK, **whole)
    start, share = (x / sum(variable.sizes) for x in (end - size, size))
    if variable.axis == len(variable.shape) - 1:
      box = left + width * start, height, width * share, top
    else:
      box = left, height * share, width, top + height * start
    axes.bar(*box, color=f"C{part}", **whole)


def _draw_sent(axes: Any, sent: Sent, y: int, last: int) -> str:
  """Draws an arrow to, or from, the device that has the whole tensor.

  Returns:
    Its color.
  """
  spreads = sent.kind in (BROADCAST, SLICE)
  color = _SPREAD if spreads else _JOINED
  start, end = (0, last) if spreads else (last, 0)
  arrow = {"arrowstyle": "-|>", "color": color}
  axes.annotate("", xy=(end, y), xytext=(start, y), arrowprops=arrow)
  return color


@dataclasses.dataclass(frozen=True)
class Row:
  """Variables, or tensors that are sent, whose names differ in numbers only.

  Attributes:
    name: Their name, with `*` for the numbers in which they differ.
    first: The first one of them.
    count: How many there are.
  """

  name: str
  first: SplitVariable | Sent
  count: int

  @property
  def description(self) -> str:
    """Its split, or its reshard; and its bytes."""
    first = self.first
    if isinstance(first, Sent):
      text = f"{first.kind}; {amounts.amount(first.forward_bytes, 'B')}"
      if first.backward_bytes:
        text += f", {amounts.amount(first.backward_bytes, 'B')} back"
    else:
      shape = " x ".join(f"{size:,}" for size in first.shape)
      num_bytes = amounts.amount(first.num_bytes, "B")
      text = f"{shape}, split by axis {first.axis}; {num_bytes}"
    return text if self.count == 1 else f"each of {self.count:,}: {text}"


def rows(plan: SplitPlan) -> list[Row]:
  """Returns the rows of the picture, from the top: variables, then tensors.

  Of both the one with the most bytes is first, and the order of the plan
  decides where they have the same. Slots are left out, as they are split as
  their variables are, and so are scalars and shapes that are sent.

  Args:
    plan: The split, and its transfers.
  """
  both: list[list[SplitVariable | Sent]] = [
    [x for x in plan.variables if x not in plan.slots],
    [x for x in plan.sent if x.num_bytes > _MOST_LEFT_OUT_BYTES],
  ]
  alike: dict[SplitVariable | Sent, list[SplitVariable | Sent]] = {}
  for entries in both:
    for entry in sorted(entries, key=lambda entry: -entry.num_bytes):
      alike.setdefault(_without_numbers(entry), []).append(entry)
  return [
    Row(_common_name(map(_name, row)), row[0], len(row))
    for row in alike.values()
  ]


def _name(entry: SplitVariable | Sent) -> str:
  return (
    entry.tensor.removesuffix(":0") if isinstance(entry, Sent) else entry.name
  )


def _without_numbers(entry: SplitVariable | Sent) -> SplitVariable | Sent:
  if isinstance(entry, Sent):
    tensor, op = (_NUMBER.sub("*", name) for name in (entry.tensor, entry.op))
    return dataclasses.replace(entry, tensor=tensor, op=op)
  return dataclasses.replace(entry, name=_NUMBER.sub("*", entry.name))


def _common_name(names: Iterable[str]) -> str:
  """Returns names that differ in numbers only as one, with `*` for these."""
  places = zip(*map(_NUMBER.split, names), strict=True)
  return "".join(x[0] if len(set(x)) == 1 else "*" for x in places)


def num_parameters(plan: SplitPlan) -> int:
  """Returns how many numbers the split variables have, without slots.

  Args:
    plan: The split.
  """
  return sum(math.prod(x.shape) for x in plan.variables if x not in plan.slots)
