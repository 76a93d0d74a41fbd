"""The schedule "auto": the fastest order that is found for a model's costs.

All named schedules with one stage per device that keep the limit of live
micro-batches are simulated, and orders that list scheduling makes. The fastest
one is taken, so that it is never slower than one of those with a name.

List scheduling gives each device that is free the best pass that could begin,
over and over: a pass that others wait for comes first, and gradients of
weights fill the time in between, or make room where as many micro-batches are
held as may be. That is the heuristic of Qi et al. (2023, arXiv:2401.10241),
section 3.1, whose choices are tried one after the other as well. An optimum,
which they ask a solver of integer programs for, is more than a graph should
wait for.
"""

import collections
import dataclasses
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence

from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules import schedule as schedule_lib
from estimator_mp.config.schedules.schedule import Cell, Phase
from estimator_mp.pipeline import simulation

# Each order of as many cells takes about 0.1 s to find.
_MANY_CELLS = 20_000
# Of schedules that take as long, but for this part, the one that holds least.
_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Costs:
  """How long passes through each of K stages take, in any unit.

  Attributes:
    forward: The forward pass of a micro-batch.
    backward: The part of its backward pass that earlier stages wait for.
    weight: The part that only the gradients of weights need.
    sends: How long a result is on its way from a stage to the next one, or
      back: K - 1 times, or none if it takes no time.
  """

  forward: tuple[float, ...]
  backward: tuple[float, ...]
  weight: tuple[float, ...]
  sends: tuple[float, ...]

  def simulate(self, schedule: schedule_lib.Schedule) -> simulation.Timeline:
    """Returns when the cells of a schedule run.

    Args:
      schedule: One with a stage per device.
    """
    return simulation.simulate(
      schedule, self.forward, self.backward, self.weight, self.sends
    )


def fastest(
  schedule: schedule_lib.Schedule, costs: Costs
) -> schedule_lib.Schedule:
  """Returns a schedule with the fastest rows that are found.

  On each stage, micro-batches pass in their order in each phase, as in the
  schedule that is given.

  Args:
    schedule: That of the name "auto".
    costs: The costs of its phases.
  """
  rounds = schedule.num_rounds
  of_round = schedule.num_micro_batches // rounds
  one = dataclasses.replace(
    schedule, num_micro_batches=of_round, num_rounds=1, rows=()
  )
  cells = one.num_devices * of_round * len(Phase)
  rules = _RULES if cells < _MANY_CELLS else _RULES[:1]
  listed = (_ListScheduling(one, costs, rule).rows() for rule in rules)
  candidates = [
    dataclasses.replace(one, rows=rows)
    for rows in itertools.chain(_named(one), listed)
  ]
  times = [costs.simulate(x).makespan for x in candidates]
  least = min(times) * (1 + _ROUNDING)
  best = min(
    (x for x, time in zip(candidates, times, strict=True) if time <= least),
    key=lambda x: sum(schedule_lib.live_micro_batches(x)),
  )
  return orders.repeat(best, rounds)


def _named(schedule: schedule_lib.Schedule) -> Iterator[schedule_lib.Rows]:
  """Yields the rows of schedules with names that keep the limit.

  Where one does not split backward passes, the gradients of weights follow at
  once, and micro-batches come back in their order: they are all alike, so that
  takes no longer.
  """
  for name in orders.ORDERS:
    limit = schedule.most_live if name == orders.AUTO else None
    try:
      named = orders.make_schedule(
        name,
        schedule.num_devices,
        schedule.num_micro_batches,
        schedule.num_virtual_stages,
        limit,
      )
    except ValueError:  # It has several stages per device.
      continue
    most = max(schedule_lib.live_micro_batches(named))
    if named.rows and most <= _limit(schedule):
      yield tuple(tuple(_split(row, named)) for row in named.rows)


def _limit(schedule: schedule_lib.Schedule) -> int:
  """Returns how many micro-batches a device may hold."""
  return schedule.most_live or schedule.num_devices


def _split(
  row: Sequence[Cell], schedule: schedule_lib.Schedule
) -> Iterator[Cell]:
  """Yields the cells of a device, with backward passes split in two."""
  done = collections.Counter[Phase]()
  for cell in row:
    phases = [cell.phase]
    if cell.phase is Phase.BACKWARD and not schedule.splits_backward:
      phases.append(Phase.WEIGHT)
    for phase in phases:
      yield Cell(cell.stage, done[phase], phase)
      done[phase] += 1


@dataclasses.dataclass(frozen=True)
class _Rule:
  """The pass that a device begins with if it has a choice.

  Attributes:
    first: The phase that comes first if a forward and a backward could begin;
      None for the one that did not come before.
    patience: A device with weights to do waits for another pass if that can
      begin before this part of the time for the weights is over.
  """

  first: Phase | None
  patience: float


_RULES = tuple(
  _Rule(first, patience)
  for first in (Phase.BACKWARD, None, Phase.FORWARD)
  for patience in (0.0, 0.5, 1.0)
)


class _ListScheduling:
  """One run of list scheduling: a simulation that makes up its rows."""

  def __init__(
    self, schedule: schedule_lib.Schedule, costs: Costs, rule: _Rule
  ):
    self._count = schedule.num_micro_batches
    self._limit = _limit(schedule)
    self._costs = {
      Phase.FORWARD: costs.forward,
      Phase.BACKWARD: costs.backward,
      Phase.WEIGHT: costs.weight,
    }
    self._sends = costs.sends
    self._rule = rule
    devices = range(schedule.num_devices)
    self._rows: list[list[Cell]] = [[] for _ in devices]
    self._done = [dict.fromkeys(Phase, 0) for _ in devices]
    self._free = [0.0 for _ in devices]
    # When the inputs of a pass arrive, by device: for each micro-batch.
    self._ready: list[dict[Phase, list[float]]] = [
      {phase: [] for phase in Phase} for _ in devices
    ]
    self._ready[0][Phase.FORWARD] = [0.0] * self._count
    # Times at which a device may have something to begin with.
    self._events = [(0.0, device) for device in devices]

  def rows(self) -> schedule_lib.Rows:
    """Runs all cells; returns those of each device in order."""
    while self._events:
      now, device = heapq.heappop(self._events)
      if self._free[device] <= now:
        phase = self._choose(device, now)
        if phase is not None:
          self._run(device, phase, now)
    return tuple(map(tuple, self._rows))

  def _choose(self, device: int, now: float) -> Phase | None:
    """Returns the phase that a device begins with; None if it waits."""
    waits = {
      phase: self._ready_at(device, phase)
      for phase in (Phase.FORWARD, Phase.BACKWARD)
    }
    ready = [phase for phase, time in waits.items() if time <= now]
    if len(ready) > 1:
      last = next(
        x.phase
        for x in reversed(self._rows[device])
        if x.phase is not Phase.WEIGHT
      )
      return self._rule.first or next(x for x in ready if x is not last)
    if ready:
      return ready[0]
    done = self._done[device]
    if done[Phase.WEIGHT] == done[Phase.BACKWARD]:
      return None
    waiting = self._rule.patience * self._costs[Phase.WEIGHT][device]
    return None if min(waits.values()) < now + waiting else Phase.WEIGHT

  def _ready_at(self, device: int, phase: Phase) -> float:
    """Returns when the next pass of a phase could begin, as far as is known."""
    done, ready = self._done[device], self._ready[device][phase]
    if done[phase] >= len(ready):
      return math.inf
    if phase is Phase.FORWARD:
      held = done[Phase.FORWARD] - done[Phase.WEIGHT]
      if held == self._limit:
        return math.inf
    return ready[done[phase]]

  def _run(self, device: int, phase: Phase, now: float) -> None:
    """Lets a device run the next cell of a phase."""
    end = self._free[device] = now + self._costs[phase][device]
    self._rows[device].append(Cell(device, self._done[device][phase], phase))
    self._done[device][phase] += 1
    heapq.heappush(self._events, (end, device))
    last = len(self._rows) - 1
    if phase is Phase.FORWARD and device == last:
      self._ready[device][Phase.BACKWARD].append(end)
    elif phase is Phase.FORWARD:
      self._arrive(device + 1, phase, end + self._send(device))
    elif phase is Phase.BACKWARD and device:
      self._arrive(device - 1, phase, end + self._send(device - 1))

  def _send(self, device: int) -> float:
    """Returns the time from a device to the next one."""
    return self._sends[device] if self._sends else 0.0

  def _arrive(self, device: int, phase: Phase, time: float) -> None:
    """Lets the inputs of a pass arrive at a time."""
    self._ready[device][phase].append(time)
    heapq.heappush(self._events, (time, device))
