"""Simulation: how long a schedule takes, and how long it takes at best."""

import dataclasses
from collections.abc import Mapping, Sequence

from estimator_mp.config import schedule as schedule_lib


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
    return self.busy / self.makespan

  @property
  def bubble(self) -> float:
    """The fraction of the devices' time in which they are idle."""
    return 1 - self.speed_up / self.num_devices


def simulate(
  schedule: schedule_lib.Schedule,
  forward: float | Sequence[float] = 1.0,
  backward: float | Sequence[float] = 1.0,
) -> Timeline:
  """Returns when each cell runs if sending takes no time.

  Each device runs its row in order; each cell waits for those that it reads.

  Args:
    schedule: A schedule with one row per device.
    forward: The time of a micro-batch's forward pass on a device, which its v
      stages share equally; or one time for each of the C stages.
    backward: The same for the backward pass.

  Raises:
    ValueError: If the schedule enforces no order, its cells wait for each
      other, or there are not as many times as stages.
  """
  if not schedule.rows:
    *names, last = (x for x, order in schedule_lib.ORDERS.items() if order.row)
    raise ValueError(
      f"schedule {schedule.name!r} enforces no order, so there is none to "
      f"simulate; use {', '.join(names)} or {last}"
    )
  costs = {
    schedule_lib.Phase.FORWARD: _costs(schedule, "forward", forward),
    schedule_lib.Phase.BACKWARD: _costs(schedule, "backward", backward),
  }
  starts: dict[schedule_lib.Cell, float] = {}
  ends: dict[schedule_lib.Cell, float] = {}
  free = [0.0] * schedule.num_devices
  for cell in schedule_lib.running_order(schedule):
    device = schedule.device_of(cell.stage)
    inputs = [ends[needed] for needed in schedule.inputs_of(cell)]
    starts[cell] = max(free[device], *inputs, 0.0)
    ends[cell] = free[device] = starts[cell] + costs[cell.phase][cell.stage]
  return Timeline(starts, ends, schedule.num_devices)


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


def speed_up_bound(schedule: schedule_lib.Schedule) -> float:
  """Returns M*K / (M + (K-1)/v): no order of equal stages is faster.

  The last device waits for K-1 stages before its first cell and after its last.
  Stages that are not equal may come closer to K, or stay farther from it.

  Args:
    schedule: The schedule.

  Returns:
    The speed-up over a single device.
  """
  size = schedule.num_devices
  micro_batches = schedule.num_micro_batches / schedule.num_rounds
  return (
    micro_batches
    * size
    / (micro_batches + (size - 1) / schedule.num_virtual_stages)
  )


def bubble_bound(schedule: schedule_lib.Schedule) -> float:
  """Returns the least bubble of equal stages, (K-1) / (v*M + K-1).

  Args:
    schedule: The schedule.
  """
  return 1 - speed_up_bound(schedule) / schedule.num_devices
