"""Simulation: how long a schedule takes, and how long it takes at best."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.config.schedules.schedule import Phase


@dataclasses.dataclass(frozen=True)
class Timeline:
  """When each cell of a schedule runs.

  Attributes:
    starts: When a cell starts; the first one starts at 0.
    ends: When it ends.
    num_devices: How many devices run the cells.
  """

  starts: Mapping[schedule_lib.Cell, float]
  ends: Mapping[schedule_lib.Cell, float]
  num_devices: int

  @property
  def makespan(self) -> float:
    """The time from the start of the first cell to the end of the last."""
    return max(self.ends.values()) - min(self.starts.values())

  @property
  def busy(self) -> float:
    """The time that all cells take together: that of a single device."""
    return sum(end - self.starts[cell] for cell, end in self.ends.items())

  @property
  def speed_up(self) -> float:
    """How many times faster than a single device."""
    if not self.makespan:  # Nothing takes any time, so nobody waits.
      return float(self.num_devices)
    return self.busy / self.makespan

  @property
  def bubble(self) -> float:
    """The fraction of the devices' time in which they are idle."""
    return 1 - self.speed_up / self.num_devices


def simulate(
  schedule: schedule_lib.Schedule,
  forward: float | Sequence[float] = 1.0,
  backward: float | Sequence[float] = 1.0,
  weight: float | Sequence[float] = 0.0,
  sends: Sequence[float] = (),
  overlaps: bool = True,
  again: Mapping[schedule_lib.Cell, float] | None = None,
  is_early: bool = False,
) -> Timeline:
  """Returns when each cell runs.

  Each device runs its row in order; each cell waits for those that it reads.

  Args:
    schedule: A schedule with one row per device.
    forward: The time of a micro-batch's forward pass on a device, which its v
      stages share equally; or one time for each of the C stages.
    backward: The same for the backward pass, less `weight`.
    weight: The same for the gradients of weights alone. A schedule
      that does not split the backward pass takes the time for both at once.
    sends: The time in which a result gets from a stage to the next one or back,
      if that is on another device: for each of the first C - 1 stages. None
      takes any if there are none.
    overlaps: Whether a device computes while it sends.
    again: How much longer cells take that compute activations again.
    is_early: Whether they do that while they wait for other cells.

  Raises:
    ValueError: If the schedule enforces no order, its cells wait for each
      other, or there are not as many times as stages.
  """
  if not schedule.rows:
    *names, last = (x for x, order in orders.ORDERS.items() if order.row)
    raise ValueError(
      f"schedule {schedule.name!r} enforces no order, so there is none to "
      f"simulate; use {', '.join(names)} or {last}"
    )
  costs = _costs_of_phases(schedule, forward, backward, weight)
  starts: dict[schedule_lib.Cell, float] = {}
  ends: dict[schedule_lib.Cell, float] = {}
  free = [0.0] * schedule.num_devices
  for cell, inputs in schedule.running_order:
    device = schedule.device_of(cell.stage)
    start = free[device]
    first = again.get(cell, 0.0) if again else 0.0
    early = first if is_early else 0.0
    for needed in inputs:
      is_sent = sends and schedule.device_of(needed.stage) != device
      way = sends[min(needed.stage, cell.stage)] if is_sent else 0.0
      start = max(start, ends[needed] + way - early)
    starts[cell] = start
    ends[cell] = free[device] = start + first + costs[cell.phase][cell.stage]
    if not overlaps and sends:
      free[device] += _sending(schedule, cell, sends)
  return Timeline(starts, ends, schedule.num_devices)


def _sending(
  schedule: schedule_lib.Schedule,
  cell: schedule_lib.Cell,
  sends: Sequence[float],
) -> float:
  """Returns how long the results of a cell are on their way."""
  steps = {Phase.FORWARD: 1, Phase.BACKWARD: -1}
  reader = cell.stage + steps.get(cell.phase, 0)
  if not 0 <= reader < schedule.num_stages:
    return 0.0
  is_here = schedule.device_of(reader) == schedule.device_of(cell.stage)
  return 0.0 if is_here else sends[min(cell.stage, reader)]


def _costs_of_phases(
  schedule: schedule_lib.Schedule,
  forward: float | Sequence[float],
  backward: float | Sequence[float],
  weight: float | Sequence[float],
) -> dict[Phase, Sequence[float]]:
  """Returns the costs of the cells of each phase, stage by stage."""
  costs = {
    Phase.FORWARD: _costs(schedule, "forward", forward),
    Phase.BACKWARD: _costs(schedule, "backward", backward),
    Phase.WEIGHT: _costs(schedule, "weight", weight),
  }
  if schedule.splits_backward:
    return costs
  both = zip(costs[Phase.BACKWARD], costs.pop(Phase.WEIGHT), strict=True)
  return {**costs, Phase.BACKWARD: [sum(pair) for pair in both]}


def _costs(
  schedule: schedule_lib.Schedule, name: str, cost: float | Sequence[float]
) -> Sequence[float]:
  """Returns the cost of each stage."""
  if isinstance(cost, int | float):
    return [cost / schedule.num_virtual_stages] * schedule.num_stages
  if len(cost) != schedule.num_stages:
    raise ValueError(
      f"{name} has {len(cost)} times for {schedule.num_stages} stages; give "
      "one for each"
    )
  return cost


def speed_up_bound(
  schedule: schedule_lib.Schedule,
  forward: float | Sequence[float] = 1.0,
  backward: float | Sequence[float] = 1.0,
  weight: float | Sequence[float] = 0.0,
) -> float:
  """Returns a speed-up that no order of a schedule's cells exceeds.

  A device waits for its first cell until those of earlier stages are done, and
  they wait for its last backward. Where backward passes are not split and
  stages are equal that is M*K / (M + (K-1)/v), whatever their times, and where
  they are split and take as long as forwards 3*M*K / (3*M + (K-1)/v).

  Args:
    schedule: The schedule.
    forward: As for `simulate`.
    backward: As for `simulate`.
    weight: As for `simulate`.

  Returns:
    The speed-up over a single device.
  """
  costs = _costs_of_phases(schedule, forward, backward, weight)
  rounds = schedule.num_rounds if schedule.rows else 1
  of_round = schedule.num_micro_batches / rounds
  rises = [0.0, *itertools.accumulate(costs[Phase.FORWARD])]
  falls = [0.0, *itertools.accumulate(costs[Phase.BACKWARD])]
  last = costs[Phase.WEIGHT][0] if schedule.splits_backward else 0.0
  least = busy = 0.0
  for device in range(schedule.num_devices):
    stages = [
      stage
      for stage, place in enumerate(schedule.devices_of_stages)
      if place == device
    ]
    work = {
      phase: of_round * sum(of_stages[stage] for stage in stages)
      for phase, of_stages in costs.items()
    }
    busy += rounds * sum(work.values())
    begin = min(rises[stage] for stage in stages)
    end = min(falls[stage] for stage in stages) + last
    waited = work[Phase.FORWARD] + work[Phase.BACKWARD] + end
    # A round begins on the first stage when the one before has ended there.
    before = (rounds - 1) * (begin + waited)
    least = max(least, before + begin + max(waited, sum(work.values())))
    least = max(least, begin + rounds * sum(work.values()))
  return busy / least
