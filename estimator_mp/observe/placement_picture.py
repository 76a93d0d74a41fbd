"""Placement picture: a partition drawn, and as text for Graphviz.

A column per stage, with its layers, weights and costs; arrows for what the
stages send each other in a training step: forward above, backward below. Of
several replicas the picture shows the first; the text has the devices of all.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from estimator_mp import amounts
from estimator_mp.config import placement as placement_lib
from estimator_mp.observe import drawing, inspection

import numpy as np

# Inches: a stage's column, a row of the table, and an arrow beside it.
_WIDTH, _ROW, _ARROW = 2.7, 0.2, 0.34
_MAX_NAME = 34
# Of the pairs of stages that are no neighbours, those that send most are drawn.
_MAX_FAR = 6
_FORWARD, _BACKWARD, _SHARE = "#2563a8", "#c2571a", "#7fa8d1"


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
  stages = inspected.placement.stages
  found = _boundaries(inspected)
  column = {x.device: k for k, x in reversed([*enumerate(stages)])}
  spans = {
    x: column[x.destination] - column[x.source]
    for x in found
    if {x.source, x.destination} <= {*column}
  }
  by_bytes = sorted(spans, key=lambda x: -x.num_bytes)
  far = [x for x in by_bytes if abs(spans[x]) > 1][_MAX_FAR:]
  left_out = [x for x in found if x in far or x not in spans]
  arrows = [
    (column[x.source], span, x.summary())
    for x, span in spans.items()
    if span and x not in far
  ]
  above, below = (
    max([0, *(sign * span for _, span, _ in arrows)]) for sign in (1, -1)
  )
  layers = max((len(x.layers) for x in stages), default=1)
  heights = [_ARROW * (above + 1), _ROW * (8 + layers), _ARROW * (below + 1)]
  with drawing.figure(_WIDTH * len(stages) + 1, sum(heights) + 0.8) as figure:
    every_axes = figure.subplots(3, sharex=True, height_ratios=heights)
    top, middle, bottom = every_axes
    top.set(ylim=(0, above + 1), xlim=(-0.5, len(stages) - 0.5))
    bottom.set_ylim(below + 1, 0)
    for axes in every_axes:
      axes.axis("off")
    for start, span, text in arrows:
      _draw_arrow(top if span > 0 else bottom, start, span, text)
    _draw_table(middle, inspected, layers)
    figure.suptitle(inspected.title, x=0.02, ha="left")
    footer = _footer(inspected, found, left_out)
    figure.supxlabel(footer, x=0.02, ha="left", color=drawing.FAINT)
    return drawing.save(figure, directory, "placement")


def dot(inspected: inspection.Inspection) -> str:
  """Returns a partition in Graphviz's language; `dot -Tsvg` draws it.

  Args:
    inspected: The partition.
  """
  labels: dict[str, list[str]] = {}
  for stage, *values in zip(
    inspected.placement.stages, *_costs(inspected).values(), strict=True
  ):
    labels.setdefault(stage.device, []).extend(
      [
        f"stage {stage.stage}, {stage.device}",
        *stage.layers,
        *map(": ".join, zip(_costs(inspected), values, strict=True)),
      ]
    )
  held = inspected.placement.replicas
  titles, *positions = placement_lib.positions(held)
  for device, position in zip(held, positions, strict=True):
    words = [*map(" ".join, zip(titles, position, strict=True)), device.device]
    labels.setdefault(device.device, [", ".join(words)])
  texts = [
    "rankdir=LR;",
    'node [shape=box, fontname="sans-serif"];',
    f"label={_quoted(inspected.title)};",
  ]
  texts += [
    f"{_quoted(name)} [label={_quoted(*lines)}];"
    for name, lines in labels.items()
  ]
  texts += [
    f"{_quoted(x.source)} -> {_quoted(x.destination)} "
    f"[label={_quoted(*x.summary().split(', '))}];"
    for x in inspected.boundaries
  ]
  return "\n  ".join(["digraph placement {", *texts]) + "\n}\n"


def _quoted(*lines: str) -> str:
  return json.dumps("\n".join(lines), ensure_ascii=False)


def _costs(inspected: inspection.Inspection) -> dict[str, list[str]]:
  """Returns what is said of each stage, in words and numbers."""
  stages, costs = inspected.placement.stages, inspected.costs
  return {
    "parameters": [f"{x.parameters:,}" for x in stages],
    "weights": [amounts.amount(x.weight_bytes, "B") for x in costs],
    "activations": [amounts.amount(x.activation_bytes, "B") for x in costs],
    "forward": [amounts.amount(x.flops, "FLOP") for x in costs],
  }


def _boundaries(
  inspected: inspection.Inspection,
) -> tuple[inspection.Boundary, ...]:
  """Returns what is sent between stages, by their first devices' names."""
  placement = inspected.placement
  first = {
    held.device: placement.stages[held.stages[0]].device
    for held in placement.replicas
    if not held.replica
  }
  sent = [
    dataclasses.replace(
      x,
      source=first.get(x.source, x.source),
      destination=first.get(x.destination, x.destination),
    )
    for x in placement.transfers
  ]
  return inspection.boundaries(sent, inspected.mesh)


def _footer(
  inspected: inspection.Inspection,
  found: Sequence[inspection.Boundary],
  left_out: Sequence[inspection.Boundary],
) -> str:
  """Returns the line at the bottom."""
  texts = [f"Sent each training step: {inspected.sent()}."]
  if inspected.replicas is not None:
    summed = amounts.amount(inspected.replicas.num_bytes, "B")
    texts.append(
      f"Replica 0 of {inspected.mesh.axis_size('data')}; each sums {summed} of "
      "gradients with the others."
    )
  if inspected.mesh.axis_size("model") > 1:
    within = sum(x.num_bytes for x in found if x.source == x.destination)
    texts.append(f"Within stages: {amounts.amount(within, 'B')}.")
  if left_out:
    count = sum(x.num_tensors for x in left_out)
    texts.append(f"Not drawn: {amounts.counted(count, 'tensor')}.")
  return " ".join(texts)


def _draw_table(
  axes: Any, inspected: inspection.Inspection, num_layers: int
) -> None:
  """Draws a column for each stage, the darker the larger its shares are."""
  stages = inspected.placement.stages
  others = inspected.mesh.axis_size("model") - 1
  more = f" and {others} more" if others else ""
  shares = [inspected.flop_shares(), inspected.time_shares()]
  rows = {
    "": [f"stage {x.stage}" for x in stages],
    "device": [x.device + more for x in stages],
    "layers": ["\n".join(map(_shortened, x.layers)) for x in stages],
    **_costs(inspected),
    "share of FLOPs": [f"{share:.0%}" for share in shares[0]],
    "share of time": [f"{share:.0%}" for share in shares[1]],
  }
  table = axes.table(
    [*rows.values()],
    rowLabels=[*rows],
    cellLoc="center",
    bbox=(0, 0, 1, 1),
  )
  table.auto_set_font_size(False)
  height = table[0, 0].get_height()
  for (row, column), cell in table.get_celld().items():
    cell.set_edgecolor(drawing.GRID)
    if row == 0:
      cell.get_text().set_weight("bold")
    if row == 2:
      cell.set_height(num_layers * height)
    if row >= len(rows) - 2 and column >= 0:
      cell.set_facecolor((_SHARE, shares[row - len(rows)][column]))


def _shortened(name: str) -> str:
  """Returns a name, without its middle if it is too long."""
  half = (_MAX_NAME - 1) // 2
  return name if len(name) <= _MAX_NAME else f"{name[:half]}…{name[-half:]}"


def _draw_arrow(axes: Any, start: int, span: int, text: str) -> None:
  """Draws half an ellipse, the higher the more columns it spans."""
  color, marker = (_FORWARD, "v") if span > 0 else (_BACKWARD, "^")
  middle, radius = start + span / 2, span / 2 - 0.1 * np.sign(span)
  angles = np.linspace(0, np.pi, 50)
  xs, ys = middle - radius * np.cos(angles), abs(span) * np.sin(angles)
  axes.plot(xs, ys, color, marker=marker, markevery=[-1], clip_on=False)
  white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
  axes.text(
    middle, abs(span), text, color=color, ha="center", va="center", bbox=white
  )
