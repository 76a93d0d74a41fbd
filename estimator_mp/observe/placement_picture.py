"""Placement picture: a partition drawn, and as text for Graphviz.

A column per stage, with its layers, weights and costs; arrows for what the
stages send each other in a training step. Of several replicas the picture
shows the first; the text has the devices of all.
"""

import json

from estimator_mp import amounts
from estimator_mp.config import placement as placement_lib
from estimator_mp.observe import canvas as canvas_lib
from estimator_mp.observe import inspection
from estimator_mp.observe.canvas import FAINT

# Inches.
_WIDTH = 2.7
_GAP = 1.5
_HEIGHT = 3.3
_MARGIN = 0.4
_LANE = 0.36

_MAX_NAME = 34
# Of the pairs of stages that are no neighbours, those that send most are drawn.
_MAX_LANES = 6
_FORWARD = "#2563a8"
_BACKWARD = "#c2571a"
_TRACK = "#e6e9ee"
_BAR = "#7fa8d1"
_HEAD = "#eef2f7"
_BORDER = "#9aa4b1"
_ARROW = 1.2  # Points.


def write_pictures(
  inspected: inspection.Inspection, directory: str
) -> list[str]:
  """Draws a partition into placement.png and placement.svg.

  The same partition gives the same files.

  Args:
    inspected: The partition.
    directory: An existing folder.

  Returns:
    The paths of the files.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  return _Picture(inspected).write(directory, "placement")


def dot(inspected: inspection.Inspection) -> str:
  """Returns a partition in Graphviz's language; `dot -Tsvg` draws it.

  Args:
    inspected: The partition.
  """
  lines = [
    "digraph placement {",
    "  rankdir=LR;",
    '  node [shape=box, fontname="sans-serif"];',
    f"  label={_quoted(inspected.title)};",
  ]
  nodes: dict[str, tuple[str, str]] = {}
  for index, stage in enumerate(inspected.placement.stages):
    label = [
      f"stage {stage.stage}, {stage.device}",
      *stage.layers,
      *(f"{name}: {value}" for name, value in _amounts(inspected, index)),
    ]
    nodes[stage.device] = (f"stage_{stage.stage}", "\n".join(label))
  for held in inspected.placement.replicas:
    words = [("stage", held.stages[0], held.stage_names())]
    if held.replica:
      words.insert(0, ("replica", held.replica, str(held.replica)))
    if held.part:
      words.append(("part", held.part, str(held.part)))
    name = "_".join(f"{word}_{number}" for word, number, _ in words)
    texts = [f"{word} {text}" for word, _, text in words]
    nodes.setdefault(held.device, (name, ", ".join([*texts, held.device])))
  for boundary in inspected.boundaries:
    for device in (boundary.source, boundary.destination):
      nodes.setdefault(device, (f"device_{len(nodes)}", device))
  lines += [
    f"  {name} [label={_quoted(label)}];" for name, label in nodes.values()
  ]
  lines += [
    f"  {nodes[boundary.source][0]} -> {nodes[boundary.destination][0]} "
    f"[label={_quoted(_on_two_lines(boundary))}];"
    for boundary in inspected.boundaries
  ]
  return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
  return json.dumps(text, ensure_ascii=False)


def _on_two_lines(boundary: inspection.Boundary) -> str:
  return boundary.summary().replace(", ", "\n")


def _amounts(
  inspected: inspection.Inspection, index: int
) -> list[tuple[str, str]]:
  """Returns what is said of one stage, in words and numbers."""
  cost = inspected.costs[index]
  return [
    ("parameters", f"{inspected.placement.stages[index].parameters:,}"),
    ("weights", amounts.amount(cost.weight_bytes, "B")),
    ("activations", amounts.amount(cost.activation_bytes, "B")),
    ("forward", amounts.amount(cost.flops, "FLOP")),
  ]


class _Picture(canvas_lib.Picture):
  """The picture of one partition."""

  def __init__(self, inspected: inspection.Inspection):
    self._inspected = inspected
    self._column = {
      stage.device: index
      for index, stage in enumerate(inspected.placement.stages)
    }
    known, self._within, others = self._boundaries()
    self._neighbours = [b for b in known if abs(self._span(b)) == 1]
    far = sorted(
      (b for b in known if abs(self._span(b)) > 1), key=lambda b: -b.num_bytes
    )
    drawn = sorted(far[:_MAX_LANES], key=lambda b: abs(self._span(b)))
    self._above = [b for b in drawn if self._span(b) > 0]
    self._below = [b for b in drawn if self._span(b) < 0]
    self._left_out = far[_MAX_LANES:] + others
    self.width = len(self._column) * (_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    self._bottom = _MARGIN + 0.3 + _LANE * len(self._below)
    self._top = self._bottom + _HEIGHT
    self.height = self._top + _LANE * len(self._above) + 0.75

  def _boundaries(self) -> tuple[list[inspection.Boundary], ...]:
    """Returns what is sent between stages, within them, and to elsewhere."""
    stage_of = {device: device for device in self._column}
    for held in self._inspected.placement.replicas:
      if not held.replica:
        stages = self._inspected.placement.stages
        stage_of[held.device] = stages[held.stages[0]].device
    between: dict[tuple[str, str], list[inspection.Boundary]] = {}
    within: list[inspection.Boundary] = []
    others: list[inspection.Boundary] = []
    for boundary in self._inspected.boundaries:
      source = stage_of.get(boundary.source)
      destination = stage_of.get(boundary.destination)
      if source is None or destination is None:
        others.append(boundary)
      elif source == destination:
        within.append(boundary)
      else:
        between.setdefault((source, destination), []).append(boundary)
    added = [
      inspection.Boundary(
        *pair,
        sum(x.num_tensors for x in found),
        sum(x.num_bytes for x in found),
      )
      for pair, found in between.items()
    ]
    return added, within, others

  def _span(self, boundary: inspection.Boundary) -> int:
    """Returns how many columns to the right something is sent."""
    return self._column[boundary.destination] - self._column[boundary.source]

  def _left(self, column: int) -> float:
    return _MARGIN + column * (_WIDTH + _GAP)

  def draw(self) -> None:
    """Draws it."""
    self.frame(_MARGIN, self._inspected.title, self._footer())
    for index in range(len(self._column)):
      self._draw_stage(index)
    for boundary in self._neighbours:
      self._draw_neighbours(boundary)
    for lane, boundary in enumerate(self._above):
      self._draw_lane(boundary, lane, self._top, 1, _FORWARD)
    for lane, boundary in enumerate(self._below):
      self._draw_lane(boundary, lane, self._bottom, -1, _BACKWARD)

  def _footer(self) -> list[str]:
    """Returns the lines at the bottom."""
    inspected = self._inspected
    text = f"Sent each training step: {inspected.sent()}."
    if inspected.replicas is not None:
      count = inspected.mesh.axis_size("data")
      summed = inspected.replicas.num_bytes
      text += (
        f" Replica 0 of {count}; each sums {amounts.amount(summed, 'B')} of "
        "gradients with the others."
      )
    left_out = ""
    if self._left_out:
      count = sum(x.num_tensors for x in self._left_out)
      left_out = f" Not drawn: {amounts.counted(count, 'tensor')}."
    if inspected.mesh.axis_size("model") == 1:
      return [text + left_out]
    num_bytes = sum(x.num_bytes for x in self._within)
    return [
      text,
      f"Within stages: {amounts.amount(num_bytes, 'B')}.{left_out}",
    ]

  def _draw_stage(self, index: int) -> None:
    inspected = self._inspected
    text = self.canvas.text
    stage = inspected.placement.stages[index]
    left = self._left(index)
    for bottom, height, color in (
      (self._bottom, _HEIGHT, "white"),
      (self._top - 0.5, 0.5, _HEAD),
    ):
      self.canvas.box(
        (left, bottom), (_WIDTH, height), color, edge=_BORDER, line_width=1
      )
    x, right = left + 0.14, left + _WIDTH - 0.14
    y = self._top - 0.19
    text(x, y, f"stage {stage.stage}", size=10, weight="bold")
    text(x, y - 0.19, self._devices(stage), size=8, color=FAINT)
    y -= 0.5
    for name in stage.layers:
      text(x, y, canvas_lib.shortened(name, _MAX_NAME), size=8)
      y -= 0.165
    y = self._bottom + 1.68
    for name, value in _amounts(inspected, index):
      text(x, y, name, size=8, color=FAINT)
      text(right, y, value, size=8, align="right")
      y -= 0.18
    y -= 0.08
    self._draw_bar(
      x, right, y, "share of FLOPs", inspected.flop_shares()[index]
    )
    self._draw_bar(
      x, right, y - 0.36, "share of time", inspected.time_shares()[index]
    )

  def _devices(self, stage: placement_lib.StagePlacement) -> str:
    """Returns the devices of a stage: its first one, and how many others."""
    count = self._inspected.mesh.axis_size("model") - 1
    return f"{stage.device} and {count} more" if count else stage.device

  def _draw_bar(
    self, left: float, right: float, y: float, name: str, share: float
  ) -> None:
    self.canvas.text(left, y, name, size=8, color=FAINT)
    self.canvas.text(right, y, f"{share:.0%}", size=8, align="right")
    length = right - left
    for width, color in ((length, _TRACK), (length * share, _BAR)):
      self.canvas.box((left, y - 0.19), (width, 0.09), color)

  def _draw_neighbours(self, boundary: inspection.Boundary) -> None:
    """Draws an arrow from one column to the next, or back."""
    forward = self._span(boundary) > 0
    column = min(
      self._column[boundary.source], self._column[boundary.destination]
    )
    left = self._left(column) + _WIDTH + 0.06
    right = left + _GAP - 0.12
    y = self._bottom + _HEIGHT * (0.62 if forward else 0.3)
    ends = [(left, y), (right, y)]
    color = _FORWARD if forward else _BACKWARD
    self.canvas.arrow(ends if forward else ends[::-1], color, _ARROW)
    x = (left + right) / 2
    text = _on_two_lines(boundary)
    self.canvas.text(x, y + 0.24, text, size=8, color=color, align="center")

  def _draw_lane(
    self,
    boundary: inspection.Boundary,
    lane: int,
    edge: float,
    direction: int,
    color: str,
  ) -> None:
    """Draws an arrow around the columns between two that are no neighbours."""
    shift = 0.16 * lane * direction
    start = self._left(self._column[boundary.source]) + _WIDTH / 2
    end = self._left(self._column[boundary.destination]) + _WIDTH / 2
    # The longer an arrow, the farther out it leaves and arrives: no crossing.
    start += 0.2 * direction - shift
    end -= 0.2 * direction - shift
    y = edge + direction * (_LANE * (lane + 1) - 0.08)
    points = [(start, edge), (start, y), (end, y), (end, edge)]
    self.canvas.arrow(points, color, _ARROW, boundary.summary())
