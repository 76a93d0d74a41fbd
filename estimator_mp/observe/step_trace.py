"""A step's trace: ops with their times, and figures from them, as data.

Times are microseconds since the first kernel of the step.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from estimator_mp import amounts
from estimator_mp import devices as devices_lib
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.pipeline import simulation

Interval = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Kernel:
  """One run of one op.

  Attributes:
    op: The op's name.
    op_type: Its type, such as "MatMul".
    device: The index of its device.
    start: When it began.
    end: When it ended.
    cell: The cell that it belongs to, if any.
  """

  op: str
  op_type: str
  device: int
  start: float
  end: float
  cell: schedule_lib.Cell | None = None


@dataclasses.dataclass(frozen=True)
class CellSpan:
  """When a cell ran.

  Attributes:
    cell: The cell.
    device: The index of its device.
    start: When its first kernel began.
    end: When its last kernel ended.
    busy_intervals: When at least one of its kernels ran.
  """

  cell: schedule_lib.Cell
  device: int
  start: float
  end: float
  busy_intervals: tuple[Interval, ...]

  @property
  def busy(self) -> float:
    """How long at least one of its kernels ran."""
    return _length(self.busy_intervals)


@dataclasses.dataclass(frozen=True)
class StepTrace:
  """The measured events of one step of a session.

  Attributes:
    global_step: The step.
    devices: The canonical names of the mesh's devices, those of a replica in
      the order of its stages, replica after replica; those of a stage in the
      order of the `model` axis.
    kernels: The kernels that ran on them, by start.
    schedule: The order that the cells of each replica were to have; None
      without a pipeline.
    sent_bytes: The bytes that one device sent to another, by their names.
    peak_live_bytes: The most bytes of tensors alive at once on each device.
    devices_per_stage: How many devices do the work of a stage together: the
      size of the `model` axis.
  """

  global_step: int
  devices: tuple[str, ...]
  kernels: tuple[Kernel, ...]
  schedule: schedule_lib.Schedule | None
  sent_bytes: Mapping[tuple[str, str], int]
  peak_live_bytes: tuple[int, ...]
  devices_per_stage: int = 1

  @property
  def num_replicas(self) -> int:
    """How many replicas of the pipeline there are; 1 without a pipeline."""
    if self.schedule is None:
      return 1
    of_replica = self.schedule.num_devices * self.devices_per_stage
    return max(1, len(self.devices) // of_replica)

  def replica_of(self, device: int) -> int:
    """Returns the replica that a device belongs to.

    Args:
      device: The index of the device.
    """
    return device * self.num_replicas // len(self.devices)

  def group_of(self, device: int) -> str:
    """Returns the replica and the task of a device, where there are several.

    Args:
      device: The index of the device.

    Returns:
      Such as "replica 1, worker 0"; empty if all devices are of one group.
    """
    names = []
    if self.num_replicas > 1:
      names.append(f"replica {self.replica_of(device)}")
    task = devices_lib.task_of(self.devices[device])
    if task:
      job, index = task.removeprefix("/job:").split("/task:")
      names.append(f"{job} {index}")
    return ", ".join(names)

  def stages_of(self, device: int) -> list[int]:
    """Returns the stages that a device works on; none without a pipeline.

    Args:
      device: The index of the device.
    """
    if self.schedule is None:
      return []
    place = device // self.devices_per_stage % self.schedule.num_devices
    places = self.schedule.devices_of_stages
    return [stage for stage, other in enumerate(places) if other == place]

  @functools.cached_property
  def spans(self) -> tuple[CellSpan, ...]:
    """The cells that ran, by start: for each replica its own."""
    of_cell: dict[tuple[int, schedule_lib.Cell], list[Kernel]] = {}
    for kernel in self.kernels:
      if kernel.cell is not None:
        of_cell.setdefault((kernel.device, kernel.cell), []).append(kernel)
    spans = [
      CellSpan(
        cell,
        device,
        min(kernel.start for kernel in kernels),
        max(kernel.end for kernel in kernels),
        tuple(union((k.start, k.end) for k in kernels)),
      )
      for (device, cell), kernels in of_cell.items()
    ]
    return tuple(
      sorted(spans, key=lambda span: (span.start, span.device, span.cell))
    )

  def busy_intervals(self, device: int) -> list[Interval]:
    """Returns when a device ran at least one kernel of the pipeline.

    Without a pipeline, every kernel counts.

    Args:
      device: The index of the device.
    """
    return union(
      (kernel.start, kernel.end)
      for kernel in self.kernels
      if kernel.device == device and (kernel.cell is not None or not self.spans)
    )

  @functools.cached_property
  def extent(self) -> Interval:
    """When the pipeline began and ended; the step, if there is none."""
    parts = self.spans or self.kernels
    return min(x.start for x in parts), max(x.end for x in parts)

  @property
  def makespan(self) -> float:
    """How long the pipeline took."""
    start, end = self.extent
    return end - start

  def bubble_of(self, device: int) -> float:
    """Returns the fraction of the pipeline's time in which a device was idle.

    Args:
      device: The index of the device.
    """
    return 1 - _length(self.busy_intervals(device)) / self.makespan

  @property
  def bubble(self) -> float:
    """The fraction of the devices' time in which they were idle."""
    count = len(self.devices)
    return sum(map(self.bubble_of, range(count))) / count

  @functools.cached_property
  def bubble_bound(self) -> float:
    """The least bubble that the schedule can have if stages are equal.

    Where it splits backward passes, it depends on the times of phases: those
    that were measured, if all phases ran. Without a pipeline, 0.
    """
    if self.schedule is None:
      return 0.0
    if not self.schedule.splits_backward:
      speed_up = simulation.speed_up_bound(self.schedule)
    else:
      times = [
        sum(span.busy for span in self.spans if span.cell.phase is phase)
        for phase in self.schedule.phases
      ]
      phases = times if all(times) else [1.0, 1.0, 1.0]
      speed_up = simulation.simulate(self.schedule, *phases).speed_up
    return 1 - speed_up / self.schedule.num_devices

  @property
  def total_sent_bytes(self) -> int:
    """The bytes that all devices sent to others."""
    return sum(self.sent_bytes.values())

  @property
  def sent_between_replicas(self) -> int:
    """The bytes that devices sent to those of other replicas."""
    return self.total_sent_bytes - self._sent_among(self.replica_of)

  @property
  def sent_within_stages(self) -> int:
    """The bytes that devices of one stage of a replica sent each other."""
    return self._sent_among(lambda device: device // self.devices_per_stage)

  def _sent_among(self, group_of: Callable[[int], int]) -> int:
    """Returns the bytes that devices of one group sent each other."""
    group = {name: group_of(i) for i, name in enumerate(self.devices)}
    return sum(
      size
      for (source, destination), size in self.sent_bytes.items()
      if group.get(source, -1) == group.get(destination, -2)
    )

  def live_micro_batches(self) -> tuple[int, ...]:
    """Returns the most forwards that each device held at once.

    A forward counts from its start until its backward has ended, or the
    gradients of its weights, as in `schedule.live_micro_batches`.
    """
    spans = {(span.device, span.cell): span for span in self.spans}
    held: list[list[tuple[float, float, int]]] = [[] for _ in self.devices]
    phases = schedule_lib.UNSPLIT
    if self.schedule is not None:
      phases = self.schedule.phases
    for (device, cell), span in spans.items():
      if cell.phase is schedule_lib.Phase.FORWARD:
        last = dataclasses.replace(cell, phase=phases[-1])
        other = spans.get((device, last))
        end = other.end if other else self.extent[1]
        held[span.device].append((span.start, end, 1))
    return tuple(peak(intervals) for intervals in held)

  def summary(self) -> str:
    """Returns the main figures of the step, in one line."""
    bound = "no pipeline"
    if self.schedule is not None:
      bound = f"bound {self.bubble_bound:.0%}"
    between = self.sent_between_replicas if self.num_replicas > 1 else 0
    within = self.sent_within_stages
    of_stages = self.total_sent_bytes - between - within
    parts = [
      f"bubble {self.bubble:.0%} ({bound})",
      f"{amounts.amount(of_stages, 'B')} between stages",
    ]
    if self.devices_per_stage > 1:
      parts.append(f"{amounts.amount(within, 'B')} within stages")
    if self.num_replicas > 1:
      parts.append(f"{amounts.amount(between, 'B')} between replicas")
    parts.append(f"peak live {amounts.in_one_unit(self.peak_live_bytes, 'B')}")
    return f"step {self.global_step}: {', '.join(parts)}"


def union(intervals: Iterable[Interval], pause: float = 0.0) -> list[Interval]:
  """Returns the times that are in any interval, as disjoint intervals.

  Args:
    intervals: Pairs of a start and an end.
    pause: Those that no longer pause parts are one.
  """
  disjoint: list[Interval] = []
  for start, end in sorted(intervals):
    if disjoint and start <= disjoint[-1][1] + pause:
      disjoint[-1] = (disjoint[-1][0], max(disjoint[-1][1], end))
    else:
      disjoint.append((start, end))
  return disjoint


def _length(intervals: Iterable[Interval]) -> float:
  return sum(end - start for start, end in intervals)


def peak(amounts_held: Sequence[tuple[float, float, int]]) -> int:
  """Returns the greatest sum of amounts that are held at one time.

  Args:
    amounts_held: A start, an end and an amount each. One that ends when another
      starts is not held together with it.
  """
  changes = [(start, 1, amount) for start, _, amount in amounts_held]
  changes += [(end, 0, -amount) for _, end, amount in amounts_held]
  totals = itertools.accumulate(change for _, _, change in sorted(changes))
  return max(totals, default=0)


def lanes(intervals: Sequence[Interval]) -> list[int]:
  """Returns a lane for each interval, so that none overlap in a lane.

  Args:
    intervals: Pairs of a start and an end.

  Returns:
    Lanes from 0 on, in the order of the intervals.
  """
  ends: list[float] = []
  lane_of = [0] * len(intervals)
  for index in sorted(range(len(intervals)), key=lambda i: intervals[i]):
    start, end = intervals[index]
    lane = next((i for i, free in enumerate(ends) if free <= start), len(ends))
    ends[lane : lane + 1] = [end]
    lane_of[index] = lane
  return lane_of
