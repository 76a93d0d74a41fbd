"""Placement picture: a partition drawn, and as text for Graphviz.

A column per stage, with its layers, weights and costs; arrows for the transfers
between stages in a training step: forward above, backward below. Of several
replicas the picture shows the first; the text has the devices of all.
"""

import json
from collections.abc import Sequence
from typing import Any

from estimator_mp import amounts
from estimator_mp.config import placement as placement_lib
from estimator_mp.observe import drawing, model_plan
from estimator_mp.placement import evenness

import numpy as np

# Inches: a stage's column, a row of the table, and an arrow beside it.
_WIDTH, _ROW, _ARROW = 2.7, 0.2, 0.34
_MAX_NAME = 34
# Of the pairs of stages that are no neighbours, those that send most are drawn.
_MAX_FAR = 6
_FORWARD, _BACKWARD, _SHARE = "#2563a8", "#c2571a", "#7fa8d1"


def write_pictures(plan: model_plan.ModelPlan, directory: str) -> list[str]:
  """Draws a partition into placement.png and placement.svg.

  The same partition gives the same files.

  Args:
    plan: The partition.
    directory: An existing folder.

  Returns:
    The paths of the files.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  stages = plan.placement.stages
  first = {
    contents.device: stages[contents.stages[0]].device
    for contents in plan.placement.replicas
    if not contents.replica
  }
  sent = plan.placement.transfers
  boundaries = model_plan.boundaries(sent, plan.mesh, first)
  column = {x.device: k for k, x in reversed([*enumerate(stages)])}
  spans = {
    x: column[x.destination] - column[x.source]
    for x in boundaries
    if {x.source, x.destination} <= {*column}
  }
  by_bytes = sorted(spans, key=lambda x: -x.num_bytes)
  far = [x for x in by_bytes if abs(spans[x]) > 1][_MAX_FAR:]
  left_out = [x for x in boundaries if x in far or x not in spans]
  arrows = [
    (column[x.source], span, x.summary())
    for x, span in spans.items()
    if span and x not in far
  ]
  above, below = (
    max([0, *(sign * span for _, span, _ in arrows)]) for sign in (1, -1)
  )
  layers = max(len(x.layers) for x in stages)
  heights = [_ARROW * (above + 1), _ROW * (8 + layers), _ARROW * (below + 1)]
  footer = _footer(plan, boundaries, left_out)
  size = (_WIDTH * len(stages) + 1, sum(heights) + 0.8)
  with drawing.figure(size, plan.title, footer) as figure:
    every_axes = figure.subplots(3, sharex=True, height_ratios=heights)
    top, middle, bottom = every_axes
    top.set(ylim=(0, above + 1), xlim=(-0.5, len(stages) - 0.5))
    bottom.set_ylim(below + 1, 0)
    for axes in every_axes:
      axes.axis("off")
    for start, span, text in arrows:
      _draw_arrow(top if span > 0 else bottom, start, span, text)
    _draw_table(middle, plan, layers)
    return drawing.save(figure, directory, "placement")


def dot(plan: model_plan.ModelPlan) -> str:
  """Returns a partition in Graphviz's language; `dot -Tsvg` draws it.

  Args:
    plan: The partition.
  """
  columns = plan.columns()
  labels: dict[str, list[str]] = {}
  for device, *values in zip(columns["device"], *columns.values(), strict=True):
    words = map(": ".join, zip(columns, values, strict=True))
    labels.setdefault(device, []).extend(words)
  devices = plan.placement.replicas
  titles, *positions = placement_lib.positions(devices)
  for contents, position in zip(devices, positions, strict=True):
    words = map(" ".join, zip(titles, position, strict=True))
    labels.setdefault(contents.device, [*words, contents.device])
  texts = [
    "rankdir=LR;",
    'node [shape=box, fontname="sans-serif"];',
    f"label={_quoted(plan.title)};",
    *(f"{_quoted(x)} [label={_quoted(*labels[x])}];" for x in labels),
    *(
      f"{_quoted(x.source)} -> {_quoted(x.destination)} "
      f"[label={_quoted(x.summary())}];"
      for x in plan.boundaries
    ),
  ]
  return "\n  ".join(["digraph placement {", *texts]) + "\n}\n"


def _quoted(*words: str) -> str:
  """Returns words below each other, also those after a comma."""
  return json.dumps(", ".join(words).replace(", ", "\n"), ensure_ascii=False)


def _footer(
  plan: model_plan.ModelPlan,
  boundaries: Sequence[model_plan.Boundary],
  left_out: Sequence[model_plan.Boundary],
) -> str:
  """Returns the line at the bottom."""
  texts = [f"Sent each training step: {plan.sent()}."]
  if plan.replicas is not None:
    summed = amounts.amount(plan.replicas.num_bytes, "B")
    texts.append(
      f"Replica 0 of {plan.mesh.axis_size('data')}; each sums {summed} of "
      "gradients with the others."
    )
  if plan.mesh.axis_size("model") > 1:
    within = sum(x.num_bytes for x in boundaries if x.source == x.destination)
    texts.append(f"Within stages: {amounts.amount(within, 'B')}.")
  if left_out:
    count = sum(x.num_tensors for x in left_out)
    texts.append(f"Not drawn: {amounts.counted(count, 'tensor')}.")
  return " ".join(texts)


def _draw_table(axes: Any, plan: model_plan.ModelPlan, num_layers: int) -> None:
  """Draws a column for each stage, the darker the larger its shares are."""
  rows = plan.columns()
  others = plan.mesh.axis_size("model") - 1
  if others:
    rows["device"] = [f"{x} and {others} more" for x in rows["device"]]
  rows["layers"] = [
    "\n".join(map(_shortened, x.layers)) for x in plan.placement.stages
  ]
  devices = plan.step.devices
  shares = {
    "FLOP": evenness.shares([x.flops for x in devices]),
    "computes": evenness.shares([x.busy_seconds for x in devices]),
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
    title = [*rows][row]
    cell.set_edgecolor(drawing.GRID)
    if title == "stage":
      cell.get_text().set_weight("bold")
    if title == "layers":
      cell.set_height(num_layers * height)
    if title in shares and 0 <= column < len(devices):
      cell.set_facecolor((_SHARE, shares[title][column]))


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
  axes.text(middle, abs(span), text, color=color, **drawing.ON_WHITE)
