"""A simulated training step: its time, and what each device holds and sends.

    work of stages    seconds of forward, backward and weights of a slice
    schedule       -> when each cell runs (`pipeline.simulation`)
    sums, updates  -> when each device has its new weights

Replicas are alike, so one of them is simulated, and its links are shared by as
many as send at the same time.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_mp import amounts
from estimator_mp.config.schedules.schedule import Cell, Phase, Schedule
from estimator_mp.machines.machine import Link, Machine
from estimator_mp.pipeline import recomputation, simulation
from estimator_mp.simulator import sums


@dataclasses.dataclass(frozen=True)
class StageWork:
  """The work of a stage on the busiest of its devices.

  Attributes:
    forward: Seconds of the forward pass of one slice.
    backward: Seconds of the backward pass that earlier stages wait for.
    weight: Seconds of the gradients of weights.
    update: Seconds of updates of all variables.
    sent_bytes: What a slice sends to the next stage, and its gradient back.
    kept_bytes: Activations of a slice that the backward pass reads.
    input_bytes: Those of them that come from other stages.
    weight_bytes: Variables that are trained, and others of the model.
    slot_bytes: Variables of the optimizer.
    largest_slot_bytes: Of them, those of one variable, which stay together.
    gradient_bytes: Gradients that are summed over replicas, all but rows.
    row_bytes: The rows of tables that a slice looks up, or their gradients.
    table_bytes: Of all variables, tables of which rows are looked up, with
      their slots.
    flops: Floating-point operations of a slice, in all phases.
    model_bytes: What a slice sends over the model axis.
    others: Seconds of a slice on the other devices of the model axis; what is
      not split is on one.
    other_updates: Their seconds of updates.
    of_one_core: Of the seconds of a slice, on all devices of the model axis,
      those in which ops use one core.
  """

  forward: float
  backward: float
  weight: float = 0.0
  update: float = 0.0
  sent_bytes: float = 0.0
  kept_bytes: float = 0.0
  input_bytes: float = 0.0
  weight_bytes: float = 0.0
  slot_bytes: float = 0.0
  largest_slot_bytes: float = 0.0
  gradient_bytes: float = 0.0
  row_bytes: float = 0.0
  table_bytes: float = 0.0
  flops: float = 0.0
  model_bytes: float = 0.0
  others: float = 0.0
  other_updates: float = 0.0
  of_one_core: float = 0.0


@dataclasses.dataclass(frozen=True)
class Step:
  """A training step.

  Attributes:
    stages: The work of each stage.
    schedule: The order of a replica's slices.
    machine: What the mesh is made of.
    axes: The sizes of the axes of the mesh; the last one varies fastest.
    recompute: As in `ShardingConfig`.
    recomputes_early: Whether a stage recomputes while it waits for gradients.
    aggregation: As in `ShardingConfig`.
    shards_slots: Whether each replica has a share of the slots, as ZeRO-1 does.
    shards_tables: Whether each replica has a share of the tables, and gets the
      rows that it looks up from the others.
    num_buckets: How many sums of gradients there are, which begin as soon as
      the backward pass has made them.
  """

  stages: Sequence[StageWork]
  schedule: Schedule
  machine: Machine
  axes: Mapping[str, int]
  recompute: str = "never"
  recomputes_early: bool = False
  aggregation: str = "auto"
  shards_slots: bool = False
  shards_tables: bool = False
  num_buckets: int = 8

  def size(self, axis: str) -> int:
    """Returns the size of an axis."""
    return self.axes.get(axis, 1)

  def stride(self, axis: str) -> int:
    """Returns how far neighbours on an axis are apart, in devices."""
    stride = 1
    for name, size in reversed([*self.axes.items()]):
      if name == axis:
        break
      stride *= size
    return stride

  def links(self) -> list[Link | None]:
    """Returns the link from each stage to the next one; None on one device."""
    stride = self.stride("stage")
    places = [stride * x for x in self.schedule.devices_of_stages]
    return [
      self.machine.link(*sorted(pair)) if pair[0] != pair[1] else None
      for pair in itertools.pairwise(places)
    ]

  def sends(self) -> list[float]:
    """Returns how long each stage sends a slice to the next one."""
    beside = min(self.stride("stage"), self.machine.host_size)
    return [
      link.seconds(x.sent_bytes, beside) if link else 0.0
      for link, x in zip(self.links(), self.stages, strict=False)
    ]


@dataclasses.dataclass(frozen=True)
class DeviceStep:
  """A device of the first replica in a step.

  Attributes:
    stages: Its stages.
    compute_seconds: How long it runs cells.
    sum_seconds: How long it waits for sums of gradients after its cells.
    update_seconds: How long it updates variables.
    end_seconds: When it has done all of that.
    flops: Its floating-point operations.
    weight_bytes: Its variables, slots among them.
    live_bytes: The most that it holds besides: activations and gradients.
    sent_bytes: What it sends, by the level of the link.
  """

  stages: tuple[int, ...]
  compute_seconds: float
  sum_seconds: float
  update_seconds: float
  end_seconds: float
  flops: float
  weight_bytes: float
  live_bytes: float
  sent_bytes: Mapping[str, float]

  @property
  def busy_seconds(self) -> float:
    """How long it runs cells and updates."""
    return self.compute_seconds + self.update_seconds

  @property
  def memory_bytes(self) -> float:
    """The most bytes that it holds."""
    return self.weight_bytes + self.live_bytes


@dataclasses.dataclass(frozen=True)
class SimulatedStep:
  """The result of a simulation.

  Attributes:
    schedule: The order of its slices.
    devices: The devices of one replica, without those of a model axis.
    timeline: When each cell runs.
    shared_seconds: How long the cores of a host take for all of its devices.
  """

  schedule: Schedule
  devices: tuple[DeviceStep, ...]
  timeline: simulation.Timeline
  shared_seconds: float

  @functools.cached_property
  def seconds(self) -> float:
    """The time of a step."""
    return max(self.shared_seconds, *(x.end_seconds for x in self.devices))

  @property
  def bound_seconds(self) -> float:
    """The time of the busiest device if it never waited."""
    return max(x.busy_seconds for x in self.devices)

  @property
  def memory_bytes(self) -> float:
    """The most bytes that a device holds."""
    return max(x.memory_bytes for x in self.devices)

  @property
  def bubble(self) -> float:
    """The part of its pipeline's time in which a device is idle."""
    return self.timeline.bubble

  @property
  def bound_by(self) -> str:
    """What takes the most time."""
    last = max(self.devices, key=lambda x: x.end_seconds)
    if self.shared_seconds > last.end_seconds:
      return "the cores that devices share"
    parts = {
      "computation": last.compute_seconds,
      "the bubble of the pipeline": (
        last.end_seconds
        - last.compute_seconds
        - last.sum_seconds
        - last.update_seconds
      ),
      "sums of gradients": last.sum_seconds,
      "updates": last.update_seconds,
    }
    return max(parts, key=lambda x: parts[x])

  def summary(self) -> str:
    """Returns a line for people."""
    return (
      f"{_time(self.seconds)} a step, bound by {self.bound_by}; the busiest "
      f"device works {_time(self.bound_seconds)}; bubble {self.bubble:.0%}"
    )

  def columns(self) -> dict[str, list[str]]:
    """Returns columns for people: by its title, a text for each device."""
    idle = [1 - x.busy_seconds / (self.seconds or 1.0) for x in self.devices]
    return {
      "computes": [_time(x.busy_seconds) for x in self.devices],
      "idle": [f"{x:.0%}" for x in idle],
      "FLOP": [amounts.amount(round(x.flops), "") for x in self.devices],
      "variables": [_bytes(x.weight_bytes) for x in self.devices],
      "alive": [_bytes(x.live_bytes) for x in self.devices],
      "sends": [
        ", ".join(f"{_bytes(y)} in {z}" for z, y in x.sent_bytes.items())
        or "nothing"
        for x in self.devices
      ],
    }

  def to_dict(self) -> dict[str, Any]:
    """Returns what is simulated, for JSON."""
    return {
      "seconds": self.seconds,
      "bound_seconds": self.bound_seconds,
      "bound_by": self.bound_by,
      "bubble": self.bubble,
      "memory_bytes": self.memory_bytes,
      "devices": [dataclasses.asdict(x) for x in self.devices],
    }


def _time(seconds: float) -> str:
  return f"{1e3 * seconds:.3g} ms"


def _bytes(value: float) -> str:
  return amounts.amount(round(value), "B")


def simulate(step: Step) -> SimulatedStep:
  """Returns the time of a step, and what its devices hold and send.

  Args:
    step: The step.

  Raises:
    ValueError: If the schedule enforces no order, or the machine has no link
      between two devices that send each other something.
  """
  schedule, stages = step.schedule, step.stages
  policy = recomputation.make_policy(step.recompute, schedule)
  again = {
    Cell(i, m, Phase.BACKWARD): stages[i].forward
    for i in policy.stages
    for m in range(schedule.num_micro_batches)
    if m not in policy.kept_micro_batches
  }
  links = step.links()
  timeline = simulation.simulate(
    schedule,
    [x.forward for x in stages],
    [x.backward for x in stages],
    [x.weight for x in stages],
    step.sends(),
    all(link.overlaps for link in links if link),
    again,
    step.recomputes_early,
  )
  kept = [
    (x.input_bytes, x.kept_bytes) if i in policy.stages else (x.kept_bytes, 0.0)
    for i, x in enumerate(stages)
  ]
  devices = tuple(
    _device(step, device, stages, links, timeline, kept)
    for device in range(schedule.num_devices)
  )
  shared = shared_seconds(step)
  if timeline.busy:  # As busy as the rest of the pass.
    shared *= 1 + sum(again.values()) / timeline.busy
  return SimulatedStep(schedule, devices, timeline, shared)


def shared_seconds(step: Step) -> float:
  """Returns how long the cores of a host take for all of its devices.

  Args:
    step: The step.
  """
  if not (cores := step.machine.device.cores):
    return 0.0
  count, unused = step.schedule.num_micro_batches, 1 - 1 / cores
  busy = sum(
    count * (x.forward + x.backward + x.weight + x.others)
    - count * unused * x.of_one_core
    + x.update
    + x.other_updates
    for x in step.stages
  )
  hosts = max(1, math.prod(step.axes.values()) // step.machine.host_size)
  return step.size("data") * busy / hosts


def _device(
  step: Step,
  device: int,
  stages: Sequence[StageWork],
  links: Sequence[Link | None],
  timeline: simulation.Timeline,
  kept: Sequence[tuple[float, float]],
) -> DeviceStep:
  """Returns what a device does in a step."""
  schedule, machine = step.schedule, step.machine
  row = schedule.rows[device]
  own = [i for i, x in enumerate(schedule.devices_of_stages) if x == device]
  here = [stages[i] for i in own]
  replicas = step.size("data")
  place = device * step.stride("stage")
  group = [place + i * step.stride("data") for i in range(replicas)]
  gradients = sum(x.gradient_bytes for x in here)
  rows = schedule.num_micro_batches * sum(x.row_bytes for x in here)
  # That much of the tables is on the others.
  elsewhere = (replicas - 1) / replicas if step.shards_tables else 0.0
  beside = min(step.stride("data"), machine.host_size)
  summed_bytes = gradients if elsewhere else gradients + rows
  summing = sums.seconds(step.aggregation, summed_bytes, group, machine, beside)
  if elsewhere:  # Rows come, and their gradients go.
    way = machine.link(group[0], group[-1])
    summing += 2 * way.seconds(elsewhere * rows, beside)
  share = replicas if step.shards_slots else 1
  update = sum(x.update for x in here) / share
  end, last = timeline.ends[row[-1]], timeline.starts[row[-1]]
  # The last sum begins when all gradients are there, the others before.
  summed = max(
    end + summing / step.num_buckets,
    last + summing,
  )
  if summing and not machine.link(group[0], group[-1]).overlaps:
    summed = end + summing
  sent: dict[str, float] = {}
  for i, link in enumerate(links):
    if link is not None:
      count = (i in own) + (i + 1 in own)
      num_bytes = count * schedule.num_micro_batches * stages[i].sent_bytes
      sent[link.level] = sent.get(link.level, 0.0) + num_bytes
  if replicas > 1:
    level = machine.link(group[0], group[-1]).level
    each = 2 * (gradients + rows) * (replicas - 1) / replicas
    sent[level] = sent.get(level, 0.0) + each
  if step.size("model") > 1 and (over := sum(x.model_bytes for x in here)):
    level = machine.link(place, place + step.size("model") - 1).level
    sent[level] = sent.get(level, 0.0) + over * schedule.num_micro_batches
  return DeviceStep(
    tuple(own),
    sum(timeline.ends[x] - timeline.starts[x] for x in row),
    summed - end if summing else 0.0,
    update,
    (summed if summing else end) + update,
    sum(x.flops for x in here) * schedule.num_micro_batches,
    sum(
      x.weight_bytes
      + max(x.slot_bytes / share, x.largest_slot_bytes)
      - elsewhere * x.table_bytes
      for x in here
    ),
    gradients + rows + _held(schedule, device, kept),
    {level: num_bytes for level, num_bytes in sent.items() if num_bytes},
  )


def _held(
  schedule: Schedule, device: int, kept: Sequence[tuple[float, float]]
) -> float:
  """Returns the most bytes of activations that a device holds."""
  held = most = 0.0
  for cell in schedule.rows[device]:
    of_slice, again = kept[cell.stage]
    if cell.phase is Phase.FORWARD:
      held += of_slice
    most = max(most, held + again)
    if cell.phase is schedule.phases[-1]:
      held -= of_slice
  return most
