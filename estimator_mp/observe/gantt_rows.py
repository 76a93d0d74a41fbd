"""The rows of a Gantt picture: which cell is drawn where on its device."""

from collections.abc import Sequence

from estimator_mp.observe import step_trace

# Inches.
_BOX = 0.44
_SMALL_BOX = 0.2

_MAX_LANES = 8


class Row:
  """How the cells of a device are laid out.

  Each stage of the device has its own lanes: one, or more where its cells ran
  at the same time.

  Attributes:
    stages: The stages of the device.
    lanes_per_stage: How many lanes each has.
    first_lanes: The first lane of each.
    spans: The cells, with their lanes.
    other: When only kernels outside of cells ran.
    lane_height: Inches.
    height: Inches, of all lanes.
  """

  def __init__(self, trace: step_trace.StepTrace, device: int):
    """Lays out a row.

    Args:
      trace: The trace.
      device: The index of the device.
    """
    spans = [span for span in trace.spans if span.device == device]
    self.stages = sorted({span.cell.stage for span in spans})
    if trace.schedule is not None:
      size = trace.schedule.num_devices
      self.stages = [*range(device % size, trace.schedule.num_stages, size)]
    of_stage = [
      [span for span in spans if span.cell.stage == k] for k in self.stages
    ]
    lanes = [_lanes(group) for group in of_stage]
    most = max((max(group, default=0) + 1 for group in lanes), default=1)
    self.lanes_per_stage = min(most, _MAX_LANES)
    self.first_lanes = [i * self.lanes_per_stage for i in range(len(lanes))]
    self.spans = [
      (span, first + lane % self.lanes_per_stage)
      for first, group, group_lanes in zip(
        self.first_lanes, of_stage, lanes, strict=True
      )
      for span, lane in zip(group, group_lanes, strict=True)
    ]
    self.other = step_trace.union(
      (kernel.start, kernel.end)
      for kernel in trace.kernels
      if kernel.device == device and kernel.cell is None and trace.spans
    )
    count = self.lanes_per_stage * max(1, len(self.stages))
    self.lane_height = _BOX if self.lanes_per_stage == 1 else _SMALL_BOX
    if len(self.stages) > 1 and self.lanes_per_stage == 1:
      self.lane_height = 0.75 * _BOX
    self.height = count * self.lane_height


def _lanes(spans: list[step_trace.CellSpan]) -> list[int]:
  """Returns lanes for cells; a short overlap at an end is none."""
  return step_trace.lanes(
    [(span.start, span.end - 0.2 * (span.end - span.start)) for span in spans]
  )


def without_pauses(
  intervals: Sequence[step_trace.Interval], pause: float
) -> list[step_trace.Interval]:
  """Returns intervals with those made one that are less than a pause apart.

  Args:
    intervals: Disjoint intervals, in order.
    pause: The least time between two that are returned.
  """
  found = [intervals[0]]
  for start, end in intervals[1:]:
    if start - found[-1][1] < pause:
      found[-1] = (found[-1][0], end)
    else:
      found.append((start, end))
  return found
