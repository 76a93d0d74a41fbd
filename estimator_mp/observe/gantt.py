"""Gantt: a step's trace as a picture.

A row per device, those of a replica and of a task together, time to the right.
A box is a cell: its colour and number are the micro-batch; it is pale and
hatched if it goes backward, and crosswise if it makes gradients of weights
alone. A cell that began and then waited is faint meanwhile. The line under the
boxes of a device is dark while it ran something of them.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from estimator_mp import amounts
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.observe import canvas as canvas_lib
from estimator_mp.observe import step_trace
from estimator_mp.observe.canvas import FAINT, INK

# Inches.
_MIN_WIDTH = 12.0
_MAX_WIDTH = 24.0
_CELL = 0.32
_BOX = 0.44
_SMALL_BOX = 0.2
_LEFT = 1.3
_RIGHT = 1.15
_TOP = 0.85
_BOTTOM = 0.95
_GAP = 0.3
_HEADING = 0.34
_STRIP = 0.06

# Points.
_NUMBER = 10.0
_MIN_NUMBER = 6.0

_MAX_LANES = 8
_TICKS = 8
_AFTER = 0.12
# Shorter pauses of a cell, as a share of all the time, are not drawn.
_PAUSE = 0.01
_PALETTE = (
  "#4e79a7",
  "#f28e2b",
  "#59a14f",
  "#e15759",
  "#76b7b2",
  "#b07aa1",
  "#d4a72c",
  "#9c755f",
)
_TRACK = "#f3f5f8"
_PHASES = {
  Phase.FORWARD: "forward",
  Phase.BACKWARD: "backward",
  Phase.WEIGHT: "weights",
}
# Shares of a cell's colour, the rest white.
_SHARES = {Phase.FORWARD: 1.0, Phase.BACKWARD: 0.3, Phase.WEIGHT: 0.5}
_WAITING = 0.12
_HATCHES = {Phase.FORWARD: None, Phase.BACKWARD: "////", Phase.WEIGHT: "xxxx"}
_BUSY = "#4a5561"
_OTHER = "#aab3bf"


def write_pictures(
  trace: step_trace.StepTrace, directory: str, name: str
) -> list[str]:
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
  return _Gantt(trace).write(directory, name, dpi=120)


@dataclasses.dataclass(frozen=True)
class Row:
  """How the cells of a device are laid out.

  Each stage of the device has its own lanes: one, or more where its cells ran
  at the same time.

  Attributes:
    stages: The stages of the device.
    lanes_per_stage: How many lanes each has.
    spans: The cells, with their lanes; a stage's lanes follow each other.
    other: When only kernels outside of cells ran.
  """

  stages: tuple[int, ...]
  lanes_per_stage: int
  spans: tuple[tuple[step_trace.CellSpan, int], ...]
  other: tuple[step_trace.Interval, ...]

  @property
  def lane_height(self) -> float:
    """The height of a lane in inches."""
    if self.lanes_per_stage > 1:
      return _SMALL_BOX
    return _BOX if len(self.stages) <= 1 else 0.75 * _BOX

  @property
  def height(self) -> float:
    """The height of all lanes in inches."""
    return self.lanes_per_stage * max(1, len(self.stages)) * self.lane_height


def lay_out(trace: step_trace.StepTrace, device: int) -> Row:
  """Returns the row of a device.

  Args:
    trace: The trace.
    device: The index of the device.
  """
  spans = [span for span in trace.spans if span.device == device]
  stages = trace.stages_of(device)
  if trace.schedule is None:
    stages = sorted({span.cell.stage for span in spans})
  of_stages = [[x for x in spans if x.cell.stage == stage] for stage in stages]
  # A short overlap at an end is none.
  lanes = [
    step_trace.lanes([(x.start, 0.8 * x.end + 0.2 * x.start) for x in of_stage])
    for of_stage in of_stages
  ]
  most = max((max(x, default=0) + 1 for x in lanes), default=1)
  count = min(most, _MAX_LANES)
  other = step_trace.union(
    (kernel.start, kernel.end)
    for kernel in trace.kernels
    if kernel.device == device and kernel.cell is None and trace.spans
  )
  return Row(
    tuple(stages),
    count,
    tuple(
      (span, index * count + lane % count)
      for index, of_stage in enumerate(of_stages)
      for span, lane in zip(of_stage, lanes[index], strict=True)
    ),
    tuple(other),
  )


class _Gantt(canvas_lib.Picture):
  """The picture of one trace."""

  def __init__(self, trace: step_trace.StepTrace):
    self._trace = trace
    self._begin, end = trace.extent
    last = max(kernel.end for kernel in trace.kernels)
    self._end = min(last, end + _AFTER * trace.makespan)
    self._rows = [lay_out(trace, d) for d in range(len(trace.devices))]
    most = max(len(row.spans) for row in self._rows)
    wanted = _LEFT + _RIGHT + _CELL * most
    self.width = min(max(wanted, _MIN_WIDTH), _MAX_WIDTH)
    heights = sum(row.height + _STRIP + _GAP for row in self._rows)
    heights += sum(map(self._heading, range(len(self._rows))))
    self.height = _TOP + heights - _GAP + _BOTTOM

  def _heading(self, device: int) -> float:
    """Returns the height of the heading above a row: one for each group."""
    group = self._trace.group_of(device)
    is_first = device == 0 or group != self._trace.group_of(device - 1)
    return _HEADING if group and is_first else 0.0

  def _x(self, time: float) -> float:
    """Returns where a time is, clipped to the picture."""
    share = (time - self._begin) / (self._end - self._begin)
    return _LEFT + min(max(share, 0.0), 1.0) * (self.width - _LEFT - _RIGHT)

  def draw(self) -> None:
    """Draws it."""
    self._draw_title()
    self._draw_time()
    top = self.height - _TOP
    for device, row in enumerate(self._rows):
      if self._heading(device):
        name = self._trace.group_of(device)
        self.canvas.text(0.2, top - 0.06, name, size=10, weight="bold")
        top -= _HEADING
      self._draw_row(device, row, top)
      top -= row.height + _STRIP + _GAP
    self._draw_legend()

  def _draw_title(self) -> None:
    trace = self._trace
    schedule = trace.schedule
    y = self.height - 0.3
    if schedule is None:
      title = f"{amounts.counted(len(trace.devices), 'device')}, no pipeline"
      bubble = ""
    else:
      slices = amounts.counted(schedule.num_micro_batches, "micro-batch", "es")
      count = schedule.num_devices * trace.devices_per_stage
      title = (
        f"{slices} through {amounts.counted(schedule.num_stages, 'stage')} on "
        f"{amounts.counted(count, 'device')}"
      )
      if trace.num_replicas > 1:
        title = f"{trace.num_replicas} replicas, each with {title}"
      order = "no order" if schedule.name == "none" else schedule.name
      title = f"{order}: {title}"
      bubble = f" (bound {trace.bubble_bound:.0%})"
    texts = [
      f"step {trace.global_step}",
      f"{trace.makespan / 1000:.3g} ms",
      f"bubble {trace.bubble:.0%}{bubble}",
      f"{amounts.amount(trace.total_sent_bytes, 'B')} sent between devices",
    ]
    self.canvas.text(_LEFT, y, title, size=12.5, weight="bold")
    self.canvas.text(
      _LEFT, y - 0.24, "   |   ".join(texts), size=9, color=FAINT
    )

  def _draw_time(self) -> None:
    """Draws lines at round times, and the times in milliseconds."""
    bottom = _BOTTOM - 0.1
    for time in canvas_lib.ticks((self._end - self._begin) / 1000, _TICKS):
      x = self._x(self._begin + time * 1000)
      ends = [(x, bottom), (x, self.height - _TOP + 0.06)]
      self.canvas.line(ends, canvas_lib.GRID, 0.8, layer=0)
      self.canvas.text(
        x, bottom - 0.13, f"{time:g}", size=8, color=FAINT, align="center"
      )
    self.canvas.text(self.width - _RIGHT + 0.12, bottom - 0.13, "ms", 8, FAINT)

  def _draw_row(self, device: int, row: Row, top: float) -> None:
    trace = self._trace
    bottom = top - row.height
    self._box(self._begin, self._end, bottom - _STRIP, top, _TRACK)
    middle = (top + bottom - _STRIP) / 2
    names = [f"stage {stage}" for stage in row.stages]
    for index, name in enumerate(names):
      y = top - (index + 1 / 2) * row.lanes_per_stage * row.lane_height
      self.canvas.text(0.2, y + (0.07 if len(names) == 1 else 0), name, 10)
    label_y = middle if not names else middle - 0.11
    if len(names) > 1:
      label_y = bottom - _STRIP - 0.06
    label = trace.devices[device].rpartition("device:")[2]
    if trace.devices_per_stage > 1:
      label += f", part {device % trace.devices_per_stage}"
    self.canvas.text(0.2, label_y, label, size=7.5, color=FAINT)
    for start, end in row.other:
      self._box(start, end, bottom - _STRIP, bottom, _OTHER)
    for span, lane in row.spans:
      self._draw_cell(span, top - lane * row.lane_height, row.lane_height)
    busy_top = bottom if trace.spans else top
    for start, end in trace.busy_intervals(device):
      self._box(start, end, bottom - _STRIP, busy_top, _BUSY)
    texts = [f"{amounts.amount(trace.peak_live_bytes[device], 'B')} peak"]
    if trace.spans:
      texts.insert(0, f"{trace.live_micro_batches()[device]} live")
      texts.append(f"{trace.bubble_of(device):.0%} idle")
    for index, text in enumerate(texts):
      y = middle + (len(texts) - 1) * 0.08 - index * 0.16
      self.canvas.text(
        self.width - _RIGHT + 0.12, y, text, size=8.5, color=FAINT
      )

  def _draw_cell(
    self, span: step_trace.CellSpan, top: float, height: float
  ) -> None:
    color = _PALETTE[span.cell.micro_batch % len(_PALETTE)]
    is_back = span.cell.phase is not Phase.FORWARD
    fill = _mixed_with_white(color, _SHARES[span.cell.phase])
    bottom, top = top - height + 0.02, top - 0.02
    self._box(
      span.start, span.end, bottom, top, _mixed_with_white(color, _WAITING)
    )
    pause = _PAUSE * (self._end - self._begin)
    parts = step_trace.union(span.busy_intervals, pause)
    for start, end in parts:
      self._box(
        start,
        end,
        bottom,
        top,
        fill,
        edge=color if is_back else "white",
        hatch=_HATCHES[span.cell.phase],
      )
    start, end = max(parts, key=lambda part: part[1] - part[0])
    number = str(span.cell.micro_batch)
    width = self._x(end) - self._x(start)
    # A digit is 0.7 of the size wide; 72 points are an inch.
    size = min(_NUMBER, 26 * height, 72 * width / (0.7 * len(number) + 0.2))
    if size >= _MIN_NUMBER:
      self.canvas.text(
        (self._x(start) + self._x(end)) / 2,
        (bottom + top) / 2 - 0.01,
        number,
        size=size,
        color=INK if is_back else "white",
        align="center",
        weight="bold",
        halo=fill if is_back else None,
      )

  def _draw_legend(self) -> None:
    x, y = _LEFT, 0.3
    for text, color, edge, hatch in legend(self._trace):
      self.canvas.box((x, y - 0.07), (0.26, 0.14), color, edge, hatch)
      self.canvas.text(x + 0.34, y, text, size=8.5, color=FAINT)
      x += 0.34 + 0.065 * len(text) + 0.26
    if self._trace.spans:
      text = "colour and number: the micro-batch"
      self.canvas.text(x, y, text, size=8.5, color=FAINT)

  def _box(
    self,
    start: float,
    end: float,
    bottom: float,
    top: float,
    color: str,
    edge: str | None = None,
    hatch: str | None = None,
  ) -> None:
    """Draws a box over a time."""
    left, right = self._x(start), self._x(end)
    if right > left:
      size = (right - left, top - bottom)
      self.canvas.box((left, bottom), size, color, edge, hatch)


class Entry(NamedTuple):
  """The meaning of a box of the picture.

  Attributes:
    text: The meaning.
    color: Its colour.
    edge: The colour of its edge.
    hatch: Its hatch, if it has one.
  """

  text: str
  color: str
  edge: str
  hatch: str | None


def legend(trace: step_trace.StepTrace) -> Iterator[Entry]:
  """Yields what the boxes in the picture of a trace mean.

  Args:
    trace: The trace.
  """
  has_cells = bool(trace.spans)
  if has_cells:
    color = _PALETTE[0]
    for phase, name in _PHASES.items():
      if any(span.cell.phase is phase for span in trace.spans):
        fill = _mixed_with_white(color, _SHARES[phase])
        edge = "white" if phase is Phase.FORWARD else color
        yield Entry(name, fill, edge, _HATCHES[phase])
    faint = _mixed_with_white(color, _WAITING)
    yield Entry("waiting", faint, faint, None)
  yield Entry("device busy", _BUSY, _BUSY, None)
  if has_cells:
    yield Entry("other ops, such as updates", _OTHER, _OTHER, None)


def _mixed_with_white(color: str, share: float) -> str:
  """Returns a share of a colour, the rest white."""
  parts = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
  mixed = [round(share * part + (1 - share) * 255) for part in parts]
  return "#" + "".join(f"{part:02x}" for part in mixed)
