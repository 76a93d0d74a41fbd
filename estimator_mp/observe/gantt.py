"""Gantt: a step's trace as a picture.

A row per device, time to the right. A box is a cell: its colour and number are
the micro-batch; it is pale and hatched if it goes backward, and crosswise if it
computes gradients of weights alone. A cell that began and then waited is faint
meanwhile. The line under the boxes of a device is dark while it ran a kernel of
a cell.
"""

from collections.abc import Iterable
from typing import Any

from estimator_mp import amounts
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.observe import drawing, step_trace
from estimator_mp.observe.step_trace import CellSpan, Interval, StepTrace

# Inches: the width of a cell, the height of a lane, and the margins.
_CELL, _LANE, _SIDES = 0.32, 0.35, 2.4
_MAX_LANES = 8
_STRIP = 0.2  # Of a lane.
# Fractions of the makespan: the time after it, and the shortest pause.
_AFTER, _PAUSE = 0.12, 0.01
_WAITING, _BUSY, _OTHER = 0.12, "#4a5561", "#aab3bf"
# The words for a phase, how much of its colour it has, and its hatch.
_PHASES = {
  Phase.FORWARD: ("forward", 1.0, None),
  Phase.BACKWARD: ("backward", 0.3, "////"),
  Phase.WEIGHT: ("weights", 0.5, "xxxx"),
}


def write_pictures(trace: StepTrace, directory: str, name: str) -> list[str]:
  """Draws a trace into NAME.png and NAME.svg.

  The same trace gives the same files.

  Args:
    trace: The trace.
    directory: An existing folder.
    name: The name of the files, without an ending.

  Returns:
    The paths of the files.

  Raises:
    ValueError: If matplotlib is not installed.
  """
  rows = [lay_out(trace, device) for device in range(len(trace.devices))]
  lanes = [[x for lanes in row.values() for x in lanes] for row in rows]
  heights = [0.4 + _LANE * max(1, len(x)) for x in lanes]
  width = _CELL * max(sum(map(len, x)) for x in lanes)
  width = min(max(width, 9.5), 21.5)
  size = (width + _SIDES, 1.2 + sum(heights))
  with drawing.figure(size, _title(trace)) as figure:
    import matplotlib.ticker

    every_axes = figure.subplots(
      len(rows), sharex=True, squeeze=False, height_ratios=heights
    )[:, 0]
    for device, (axes, row) in enumerate(zip(every_axes, rows, strict=True)):
      _draw_device(axes, trace, device, row, width)
    axes.xaxis.set_major_formatter(matplotlib.ticker.EngFormatter("s"))
    facts = "   |   ".join(_facts(trace))
    every_axes[0].set_title(facts, loc="left", color=drawing.FAINT)
    figure.legend(
      handles=legend(trace),
      loc="outside lower left",
      ncols=6,
      frameon=False,
      alignment="left",
      title="colour and number: the micro-batch" if trace.spans else None,
    )
    return drawing.save(figure, directory, name)


def lay_out(trace: StepTrace, device: int) -> dict[int, list[list[CellSpan]]]:
  """Returns the cells of a device: for each of its stages, its lanes.

  A stage has one lane, or more where its cells ran at the same time.

  Args:
    trace: The trace.
    device: The index of the device.
  """
  lanes_of_stages = {}
  for stage in trace.stages_of(device):
    spans = [
      x for x in trace.spans if x.device == device and x.cell.stage == stage
    ]
    # A short overlap at an end is none.
    ends = [(x.start, 0.8 * x.end + 0.2 * x.start) for x in spans]
    lanes = [lane % _MAX_LANES for lane in step_trace.lanes(ends)]
    lanes_of_stages[stage] = [
      [x for x, other in zip(spans, lanes, strict=True) if other == lane]
      for lane in range(max(lanes, default=0) + 1)
    ]
  return lanes_of_stages


def _draw_device(
  axes: Any,
  trace: StepTrace,
  device: int,
  row: dict[int, list[list[CellSpan]]],
  width: float,
) -> None:
  """Draws a device on axes of a width in inches."""
  begin, end = trace.extent
  last = max(kernel.end for kernel in trace.kernels)
  end = min(last, end + _AFTER * trace.makespan)
  axes.set_xlim(0, (end - begin) / 1e6)
  axes.set_facecolor(drawing.TRACK)
  axes.grid(axis="x", color=drawing.GRID)
  ticks, y = [], 0
  for lanes in row.values():
    ticks.append(y + (len(lanes) - 1) / 2)
    for spans in lanes:
      for span in spans:
        _draw_cell(axes, trace, span, y, width)
      y += 1
  axes.set_yticks(ticks, [f"stage {stage}" for stage in row], fontsize=10)
  strip = (y - 0.5, _STRIP)
  for intervals, color in (
    (other_intervals(trace, device), _OTHER),
    (trace.busy_intervals(device), _BUSY),
  ):
    axes.broken_barh(_bars(trace, intervals), strip, color=color, linewidth=0)
  axes.set_ylim(sum(strip), -0.5)
  name = trace.devices[device].rpartition("device:")[2]
  if trace.devices_per_stage > 1:
    name += f", part {device % trace.devices_per_stage}"
  names = "\n".join(filter(None, [trace.group_of(device), name]))
  axes.set_ylabel(names, rotation=0, ha="right", va="center")
  texts = [f"{amounts.amount(trace.peak_live_bytes[device], 'B')} peak"]
  if trace.spans:
    texts.insert(0, f"{trace.live_micro_batches()[device]} live")
    texts.append(f"{trace.bubble_of(device):.0%} idle")
  axes.text(1.005, 0.5, "\n".join(texts), transform=axes.transAxes, va="center")


def _draw_cell(
  axes: Any, trace: StepTrace, span: CellSpan, lane: int, width: float
) -> None:
  """Draws a cell on axes of a width in inches."""
  where = (lane - 0.45, 0.9)
  color, phase = f"C{span.cell.micro_batch}", span.cell.phase
  whole = _bars(trace, [(span.start, span.end)])
  axes.broken_barh(whole, where, facecolor="white")  # Hides the grid.
  axes.broken_barh(whole, where, facecolor=(color, _WAITING))
  pause = _PAUSE * trace.makespan
  parts = _bars(trace, step_trace.union(span.busy_intervals, pause))
  axes.broken_barh(parts, where, **_look(phase, color))
  start, length = max(parts, key=lambda part: part[1])
  number = str(span.cell.micro_batch)
  # A digit is 0.7 of the size wide; 72 points are an inch.
  room = 72 * width * length / axes.get_xlim()[1]
  size = min(10.0, room / (0.7 * len(number) + 0.2))
  if size >= 6:
    look = {**drawing.ON_WHITE, "fontsize": size, "weight": "bold"}
    if phase is Phase.FORWARD:
      look |= {"color": "white", "bbox": None}
    axes.text(start + length / 2, lane, number, **look)


def _bars(
  trace: StepTrace, intervals: Iterable[Interval]
) -> list[tuple[float, float]]:
  """Returns intervals as `broken_barh` has them, in seconds."""
  begin, _ = trace.extent
  return [((x - begin) / 1e6, (y - x) / 1e6) for x, y in intervals]


def _look(phase: Phase, color: str) -> dict[str, Any]:
  """Returns the look of a cell of a phase."""
  _, share, hatch = _PHASES[phase]
  edge = "white" if phase is Phase.FORWARD else color
  return {"facecolor": (color, share), "edgecolor": edge, "hatch": hatch}


def other_intervals(trace: StepTrace, device: int) -> list[Interval]:
  """Returns the intervals of kernels outside of cells on a pipeline's device.

  Args:
    trace: The trace.
    device: The index of the device.
  """
  return step_trace.union(
    (kernel.start, kernel.end)
    for kernel in trace.kernels
    if kernel.device == device and kernel.cell is None and trace.spans
  )


def legend(trace: StepTrace) -> list[Any]:
  """Returns a labelled patch for each look of boxes in the picture.

  Args:
    trace: The trace.
  """
  import matplotlib.patches

  looks = {
    word: _look(phase, "C0")
    for phase, (word, _, _) in _PHASES.items()
    if any(span.cell.phase is phase for span in trace.spans)
  }
  if trace.spans:
    looks["waiting"] = {"color": ("C0", _WAITING)}
  looks["device busy"] = {"color": _BUSY}
  if trace.spans:
    looks["other ops, such as updates"] = {"color": _OTHER}
  return [
    matplotlib.patches.Patch(label=label, **look)
    for label, look in looks.items()
  ]


def _facts(trace: StepTrace) -> list[str]:
  """Returns the figures of a whole step."""
  bound = ""
  if trace.schedule is not None:
    bound = f" (bound {trace.bubble_bound:.0%})"
  return [
    f"step {trace.global_step}" if trace.global_step else "planned",
    f"{trace.makespan / 1000:.3g} ms",
    f"bubble {trace.bubble:.0%}{bound}",
    f"{amounts.amount(trace.total_sent_bytes, 'B')} sent between devices",
  ]


def _title(trace: StepTrace) -> str:
  """Returns the schedule and the mesh of a trace, in a line."""
  schedule = trace.schedule
  count = len(trace.devices) // trace.num_replicas
  devices = amounts.counted(count, "device")
  if schedule is None:
    return f"{devices}, no pipeline"
  slices = amounts.counted(schedule.num_micro_batches, "micro-batch", "es")
  stages = amounts.counted(schedule.num_stages, "stage")
  order = "no order" if schedule.name == "none" else schedule.name
  each = ""
  if trace.num_replicas > 1:
    each = f"{trace.num_replicas} replicas, each with "
  return f"{order}: {each}{slices} through {stages} on {devices}"
