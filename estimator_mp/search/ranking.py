"""The ranking: which mesh, schedule and number of slices take the least time.

    axes        data x stage x model, up to the devices there are
    schedule    an order, its slices, stages per device, recomputation
    replicas    whether each has all slots, or all of each table, and the
                algorithm of their sums

All are tried whose lower bound, the work of the busiest device, is below the
times that were found; so none that was left out is faster, by the simulator.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from estimator_mp import amounts
from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Schedule
from estimator_mp.config.split_rules import SplitRule
from estimator_mp.machines.machine import Machine
from estimator_mp.simulator import step as step_lib
from estimator_mp.simulator import sums
from estimator_mp.simulator.step import SimulatedStep, StageWork, Step

# The work of stages, for their number, the part of a batch in a slice, and the
# size of the model axis; None if there is no such cut.
WorkOf = Callable[[int, float, int], Sequence[StageWork] | None]

_SCHEDULES = ("1f1b", "zb1p", "zb2p", "gpipe", "zbv", "interleaved")
_ALGORITHMS = ("copy", "ring", "tree", "hierarchical")
_MOST_SLICES = 64
# What differs by no more is as fast.
_AS_FAST = 0.02
_SHOWN = 6


@dataclasses.dataclass(frozen=True)
class Candidate:
  """One configuration.

  Attributes:
    data: The replicas.
    stage: The devices of a pipeline.
    model: The parts of a stage.
    options: All other options that are not their defaults.
  """

  data: int
  stage: int
  model: int
  options: Mapping[str, Any]

  @property
  def axes(self) -> dict[str, int]:
    """The axes of the mesh that have several devices."""
    sizes = {"data": self.data, "stage": self.stage, "model": self.model}
    return {x: size for x, size in sizes.items() if size > 1} or {"stage": 1}

  @property
  def mesh(self) -> str:
    """The text of the mesh."""
    return ",".join(f"{axis}:{size}" for axis, size in self.axes.items())

  @property
  def chosen(self) -> dict[str, Any]:
    """The fields of a `ShardingConfig`."""
    return {"mesh": self.mesh, **self.options}

  def line(self) -> str:
    """Returns the line of code that says so."""
    words = ", ".join(
      f"{x}={y!r}".replace("'", '"') for x, y in self.chosen.items()
    )
    return f"estimator_mp.ShardingConfig({words})"


@dataclasses.dataclass(frozen=True)
class Priced:
  """A configuration, and its step."""

  candidate: Candidate
  step: SimulatedStep


@dataclasses.dataclass(frozen=True)
class Ranking:
  """Configurations, the fastest first.

  Attributes:
    found: The fastest, and some that lost.
    bound_seconds: The time of all work on all devices, without any waiting.
    num_tried: How many were possible.
    num_too_large: How many of them do not fit the memory of a device.
  """

  found: tuple[Priced, ...]
  bound_seconds: float
  num_tried: int
  num_too_large: int

  @property
  def best(self) -> Candidate:
    """The fastest."""
    return self.found[0].candidate

  def table(self) -> str:
    """Returns the ranking for people, with the line to paste."""
    rows = [["mesh", "options", "step", "bubble", "memory", "bound by"]]
    for x in self.found:
      options = ", ".join(f"{k}={v}" for k, v in x.candidate.options.items())
      rows.append(
        [
          x.candidate.mesh,
          options,
          f"{1e3 * x.step.seconds:.3g} ms",
          f"{x.step.bubble:.0%}",
          amounts.amount(round(x.step.memory_bytes), "B"),
          x.step.bound_by,
        ]
      )
    first, *others = self.found
    for x in others:
      slower = x.step.seconds / (first.step.seconds or math.inf) - 1
      rows[1 + self.found.index(x)][2] += f" ({slower:+.0%})"
    over = first.step.seconds / (self.bound_seconds or math.inf) - 1
    return "\n".join(
      [
        *amounts.columns(rows, 2),
        "",
        f"{self.num_tried} configurations, {self.num_too_large} of them too "
        f"large; the first is {over:.0%} above the work of all devices without "
        "waiting",
        self.best.line(),
      ]
    )


def rank(
  work_of: WorkOf,
  batch_size: int,
  num_devices: int,
  machine: Machine,
  memory_bytes: float | None = None,
  tables: Sequence[SplitRule] = (),
) -> Ranking:
  """Returns the configurations that take the least time.

  Args:
    work_of: The work of a model's stages.
    batch_size: The examples of a batch.
    num_devices: How many devices there are; a mesh may use fewer.
    machine: The machine.
    memory_bytes: The memory of a device; by default that of the machine.
    tables: The rules that split tables over replicas; none if it has none.

  Raises:
    ValueError: If none fits the memory.
  """
  limit = memory_bytes or machine.device.memory_bytes
  bounded = sorted(
    every_step(work_of, batch_size, num_devices, machine, tables),
    key=lambda x: _bound(x[1]),
  )
  make_schedule = functools.cache(orders.make_schedule)
  found: list[Priced] = []
  least: Priced | None = None
  too_large = 0
  for candidate, step in bounded:
    if len(found) >= _SHOWN and _bound(step) > found[_SHOWN - 1].step.seconds:
      break
    priced = price(candidate, step, make_schedule)
    if priced.step.memory_bytes > limit:
      too_large += 1
      if least is None or priced.step.memory_bytes < least.step.memory_bytes:
        least = priced
      continue
    found = sorted([*found, priced], key=lambda x: x.step.seconds)
    found = found[: 4 * _SHOWN]
  if not found:
    assert least is not None
    lacking = amounts.amount(round(least.step.memory_bytes - limit), "B")
    raise ValueError(
      f"no mesh of {num_devices} device(s) holds the model: with "
      f"{least.candidate.line()} a device lacks {lacking} of "
      f"{amounts.amount(round(limit), 'B')}; use more devices, a smaller batch "
      "than "
      f"{batch_size} examples, or devices with more memory"
    )
  alone = min(
    _bound(step) for x, step in bounded if x.data == x.stage == x.model == 1
  )
  bound = alone / (1 if machine.device.cores else num_devices)
  return Ranking(
    tuple(_different(_simplest_first(found))), bound, len(bounded), too_large
  )


def _simplest_first(found: Sequence[Priced]) -> list[Priced]:
  """Returns what is found, with the simplest of the fastest in front."""
  limit = (1 + _AS_FAST) * found[0].step.seconds

  def size(x: Priced) -> tuple[int, int, float]:
    devices = math.prod(x.candidate.axes.values())
    return devices, len(x.candidate.options), x.step.memory_bytes

  first = min((x for x in found if x.step.seconds <= limit), key=size)
  return [first, *(x for x in found if x is not first)]


def _different(found: Sequence[Priced]) -> Iterator[Priced]:
  """Yields the fastest, and others of other meshes or numbers of slices."""
  seen = set()
  for x in found:
    key = x.candidate.mesh, x.candidate.options.get("num_micro_batches")
    if key not in seen:
      seen.add(key)
      yield x
    if len(seen) == _SHOWN:
      return


def price(
  candidate: Candidate,
  step: Step,
  make_schedule: Callable[..., Schedule] = orders.make_schedule,
) -> Priced:
  """Returns a configuration with its simulated step.

  Args:
    candidate: The configuration.
    step: One of `every_step`.
    make_schedule: Makes the schedule of a name, or has it.
  """
  x = step.schedule
  schedule = make_schedule(
    x.name, x.num_devices, x.num_micro_batches, x.num_virtual_stages
  )
  whole = dataclasses.replace(step, schedule=schedule)
  return Priced(candidate, step_lib.simulate(whole))


def _bound(step: Step) -> float:
  """Returns a time below which no order of a step's cells is."""
  busy = [0.0] * step.schedule.num_devices
  count = step.schedule.num_micro_batches
  for device, x in zip(
    step.schedule.devices_of_stages, step.stages, strict=True
  ):
    busy[device] += count * (x.forward + x.backward + x.weight)
  return max(*busy, step_lib.shared_seconds(step))


def every_step(
  work_of: WorkOf,
  batch_size: int,
  num_devices: int,
  machine: Machine,
  tables: Sequence[SplitRule] = (),
) -> Iterator[tuple[Candidate, Step]]:
  """Yields all configurations, with steps whose schedules have no rows yet.

  Args:
    work_of: The work of a model's stages.
    batch_size: The examples of a batch.
    num_devices: How many devices there are.
    machine: The machine.
    tables: As of `rank`.
  """
  sizes = [x for x in range(1, num_devices + 1) if num_devices % x == 0]
  for data, stage, model in itertools.product(sizes, sizes, sizes):
    if data * stage * model > num_devices or batch_size % data:
      continue
    for order, count, virtual in _orders(stage, batch_size // data):
      work = work_of(stage * virtual, 1 / (data * count), model)
      if work is None:
        continue
      # Its rows are made if its bound is low enough.
      schedule = Schedule(
        order,
        stage,
        count,
        (),
        virtual,
        splits_backward=orders.ORDERS[order].splits_backward,
        turns_back=orders.ORDERS[order].turns_back,
      )
      gradients = sum(x.gradient_bytes + count * x.row_bytes for x in work)
      axes = {"data": data, "stage": stage, "model": model}
      step = Step(tuple(work), schedule, machine, axes)
      group = range(0, data * step.stride("data"), step.stride("data"))
      algorithm = min(
        _ALGORITHMS,
        key=lambda x: sums.seconds(x, gradients / stage, [*group], machine),
      )
      options: dict[str, Any] = {}
      if count > 1:
        options["num_micro_batches"] = count
      if stage > 1 and count > 1 and order != "1f1b":
        options["schedule"] = order
      if virtual > 1 and order != "zbv":
        options["num_virtual_stages"] = virtual
      of_replicas: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, {})]
      if data > 1:
        summed = {"aggregation": algorithm}
        sharded = {"shards_slots": True, "aggregation": "copy"}
        of_replicas = [
          (summed, summed),
          ({"optimizer_state": "sharded"}, sharded),
        ]
        if tables and stage == model == 1:
          shared = {"shards_tables": True, **summed}
          of_replicas.append(({"split": tuple(tables), **summed}, shared))
      for again in ("never", "always") if count > 1 else ("never",):
        if again != "never":
          options = {**options, "recompute": again}
        for more, fields in of_replicas:
          yield (
            Candidate(data, stage, model, {**options, **more}),
            dataclasses.replace(step, recompute=again, **fields),
          )


def _orders(stage: int, examples: int) -> Iterator[tuple[str, int, int]]:
  """Yields orders, numbers of slices and of stages per device."""
  counts = [
    x
    for x in (2**i for i in range(_MOST_SLICES.bit_length()))
    if examples % x == 0
  ]
  for order, count in itertools.product(_SCHEDULES, counts):
    if stage == 1 or count == 1:
      if order == "1f1b":
        yield order, count, 1
    elif order == "interleaved":
      if count % stage == 0:
        yield order, count, 2
        yield order, count, 4
    else:
      yield order, count, 2 if order == "zbv" else 1
