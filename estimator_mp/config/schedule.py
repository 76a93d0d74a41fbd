"""Schedules: in which order each device runs the cells of its stages.

A cell is the forward or the backward pass of one micro-batch through one stage.
Four micro-batches on two stages, time to the right, backward in brackets:

    gpipe  stage 0   0   1   2   3   .   .  [3] [2] [1] [0]   4 live
           stage 1   .   0   1   2   3  [3] [2] [1] [0]  .    4 live

    1f1b   stage 0   0   1   .  [0]  2  [1]  3  [2]  .  [3]   2 live
           stage 1   .   0  [0]  1  [1]  2  [2]  3  [3]  .    1 live

Both keep the devices equally busy; 1f1b holds the activations of fewer
micro-batches. A schedule is data: nothing here knows of TensorFlow.

To add one, write the function of its rows and add it to `ORDERS`; the choices
of the option, the errors and what the tests check follow.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterator

# More take minutes to write down, and a graph has clones of a model in each.
_MAX_CELLS = 1_000_000


class Phase(enum.IntEnum):
  """The two passes of a micro-batch through a stage."""

  FORWARD = 0
  BACKWARD = 1


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
  """One pass of one micro-batch through one stage.

  Attributes:
    stage: The stage. With v virtual stages per device there are v times as
      many stages as devices, and stage c is on device c % K of K.
    micro_batch: The micro-batch.
    phase: Which pass.
  """

  stage: int
  micro_batch: int
  phase: Phase

  def __str__(self) -> str:
    return (
      f"{self.phase.name.lower()} of micro-batch {self.micro_batch} "
      f"on stage {self.stage}"
    )


@dataclasses.dataclass(frozen=True)
class Schedule:
  """The cells of each device, in the order in which it runs them.

  Attributes:
    name: The name of its order, one of `NAMES`.
    num_devices: How many devices there are, K.
    num_micro_batches: How many micro-batches there are, in all rounds.
    rows: The cells of each device in order; no rows where no order is
      enforced.
    num_virtual_stages: How many stages each device has, v.
    num_rounds: How many times the schedule runs, one time after the other.
  """

  name: str
  num_devices: int
  num_micro_batches: int
  rows: tuple[tuple[Cell, ...], ...]
  num_virtual_stages: int = 1
  num_rounds: int = 1

  @property
  def num_stages(self) -> int:
    """The number of stages, C = K * v."""
    return self.num_devices * self.num_virtual_stages

  def device_of(self, stage: int) -> int:
    """Returns the device, as the index of its row, of a stage.

    Args:
      stage: The stage, from 0 to C - 1.
    """
    return stage % self.num_devices

  def cells(self) -> Iterator[Cell]:
    """Yields every cell that there has to be, in the order of cells."""
    for stage in range(self.num_stages):
      for micro_batch in range(self.num_micro_batches):
        for phase in Phase:
          yield Cell(stage, micro_batch, phase)

  def micro_batches(self, stage: int, phase: Phase) -> list[int]:
    """Returns the micro-batches in the order in which they pass a stage.

    Args:
      stage: The stage.
      phase: In which phase; without an order, they pass by their numbers.
    """
    if not self.rows:
      return list(range(self.num_micro_batches))
    row = self.rows[self.device_of(stage)]
    return [
      cell.micro_batch
      for cell in row
      if (cell.stage, cell.phase) == (stage, phase)
    ]

  def inputs_of(self, cell: Cell) -> tuple[Cell, ...]:
    """Returns the cells whose results a cell reads.

    Args:
      cell: A cell of the schedule.
    """
    if cell.phase is Phase.FORWARD:
      if cell.stage == 0:
        return ()
      return (dataclasses.replace(cell, stage=cell.stage - 1),)
    found = [dataclasses.replace(cell, phase=Phase.FORWARD)]
    if cell.stage + 1 < self.num_stages:
      found.append(dataclasses.replace(cell, stage=cell.stage + 1))
    return tuple(found)


# The cells of a device, by its index, in the order in which it runs them.
Row = Callable[[Schedule, int], tuple[Cell, ...]]


def _gpipe_row(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Runs all forwards, then all backwards.

  GPipe (Huang et al., 2019, arXiv:1811.06965).
  """
  forwards = range(schedule.num_micro_batches)
  return (
    *(Cell(device, m, Phase.FORWARD) for m in forwards),
    *(Cell(device, m, Phase.BACKWARD) for m in reversed(forwards)),
  )


def _one_forward_one_backward_row(
  schedule: Schedule, device: int
) -> tuple[Cell, ...]:
  """Takes one backward after each forward as soon as it can.

  PipeDream with a flush (Narayanan et al., 2021, arXiv:2006.09503), after
  PipeDream (Narayanan et al., 2019, arXiv:1806.03377). The stage k of K never
  holds more than K - k micro-batches.
  """
  micro_batches = range(schedule.num_micro_batches)
  return _alternating(
    [Cell(device, m, Phase.FORWARD) for m in micro_batches],
    [Cell(device, m, Phase.BACKWARD) for m in micro_batches],
    schedule.num_devices - device - 1,
  )


def _interleaved_row(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Passes K micro-batches at a time through all stages of the device.

  1f1b with v stages per device, which are passed through one after the other;
  the bubble is v times smaller: Megatron-LM (Narayanan et al., 2021,
  arXiv:2104.04473).
  """
  size = schedule.num_devices
  stages = [*range(device, schedule.num_stages, size)]
  forwards, backwards = [], []
  for first in range(0, schedule.num_micro_batches, size):
    group = range(first, first + size)
    for stage in stages:
      forwards += [Cell(stage, m, Phase.FORWARD) for m in group]
    for stage in reversed(stages):
      backwards += [Cell(stage, m, Phase.BACKWARD) for m in group]
  warm_up = 2 * (size - device - 1) + (len(stages) - 1) * size
  return _alternating(forwards, backwards, warm_up)


def _alternating(
  forwards: list[Cell], backwards: list[Cell], warm_up: int
) -> tuple[Cell, ...]:
  """Returns some forwards, then one forward and one backward in turn."""
  warm_up = min(warm_up, len(forwards))
  row = forwards[:warm_up]
  for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
    row += [forward, backward]
  return (*row, *backwards[len(forwards) - warm_up :])


def _check_one_stage(schedule: Schedule) -> None:
  """Raises if devices have several stages."""
  if schedule.num_virtual_stages > 1:
    raise ValueError(
      f"schedule={schedule.name!r} has one stage per device, but "
      f"num_virtual_stages={schedule.num_virtual_stages}; use "
      "schedule='interleaved', or 1"
    )


def _check_interleaved(schedule: Schedule) -> None:
  """Raises if devices have one stage, or some micro-batches are left over."""
  stages, micro_batches = schedule.num_devices, schedule.num_micro_batches
  if schedule.num_virtual_stages < 2:
    raise ValueError(
      "schedule='interleaved' needs several stages per device, but "
      f"num_virtual_stages={schedule.num_virtual_stages}; use 2 or more, or "
      "schedule='1f1b'"
    )
  below = micro_batches // stages * stages
  if below != micro_batches:
    right = f"{below} or {below + stages}" if below else f"{stages}"
    raise ValueError(
      f"schedule='interleaved' on {stages} devices needs a multiple of "
      f"{stages} micro-batches, but num_micro_batches={micro_batches}; "
      f"use {right}"
    )


@dataclasses.dataclass(frozen=True)
class Order:
  """An order of cells, for any numbers that fit it.

  Attributes:
    summary: What it does, as docs/pipeline.md says it.
    held: How many micro-batches stage k of K holds, as docs/pipeline.md says.
    row: Returns the cells of a device; None if no order is enforced.
    check: Raises ValueError if the numbers of a schedule do not fit it.
  """

  summary: str
  held: str
  row: Row | None
  check: Callable[[Schedule], None] = _check_one_stage


ORDERS = {
  "none": Order("whatever is ready", "up to M", None),
  "gpipe": Order("all forwards, then all backwards", "M", _gpipe_row),
  "1f1b": Order(
    "a backward after each forward, as soon as there is one",
    "K - k",
    _one_forward_one_backward_row,
  ),
  "interleaved": Order(
    "`1f1b` with `num_virtual_stages` stages on each device; the bubble is "
    "that many times smaller, and more is sent",
    "more than `1f1b`",
    _interleaved_row,
    _check_interleaved,
  ),
}
NAMES = tuple(ORDERS)


def make_schedule(
  name: str,
  num_stages: int,
  num_micro_batches: int,
  num_virtual_stages: int = 1,
) -> Schedule:
  """Returns the schedule of a name.

  Args:
    name: One of `NAMES`; `ORDERS` says what they mean.
    num_stages: The devices on the stage axis, K.
    num_micro_batches: The micro-batches of a batch, M; for "interleaved" a
      multiple of K.
    num_virtual_stages: The stages per device, v: at least 2 for "interleaved",
      and 1 for the others.

  Returns:
    The schedule, with one row per device.

  Raises:
    ValueError: If the name is unknown, or a number does not fit it or is too
      large for the cells to be written down.
  """
  if name not in ORDERS:
    raise ValueError(
      f"schedule={name!r} is unknown; use one of {', '.join(NAMES)}"
    )
  for argument, value in (
    ("num_stages", num_stages),
    ("num_micro_batches", num_micro_batches),
    ("num_virtual_stages", num_virtual_stages),
  ):
    if value < 1:
      raise ValueError(f"{argument}={value} is too small; use 1 or more")
  stages = num_stages * num_virtual_stages
  _check_size(
    f"num_micro_batches={num_micro_batches} on {stages} stage(s)",
    len(Phase) * stages * num_micro_batches,
    "micro-batches" if num_micro_batches >= stages else "stages",
  )
  schedule = Schedule(
    name, num_stages, num_micro_batches, (), num_virtual_stages
  )
  order = ORDERS[name]
  order.check(schedule)
  if order.row is None:
    return schedule
  rows = tuple(order.row(schedule, device) for device in range(num_stages))
  return dataclasses.replace(schedule, rows=rows)


def _check_size(cause: str, num_cells: int, fewer: str) -> None:
  """Raises if a schedule would have too many cells to be written down."""
  if num_cells > _MAX_CELLS:
    raise ValueError(
      f"{cause} makes a schedule of {num_cells} cells, more than {_MAX_CELLS}; "
      f"use fewer {fewer}"
    )


def repeat(schedule: Schedule, rounds: int) -> Schedule:
  """Returns a schedule that runs several times, for gradient accumulation.

  Micro-batch m of round r has the number r * M + m.

  Args:
    schedule: The schedule of one round.
    rounds: How many rounds.

  Raises:
    ValueError: If there is no round, or too many to be written down.
  """
  if rounds < 1:
    raise ValueError(f"rounds={rounds} is too small; use 1 or more")
  size = schedule.num_micro_batches
  cells = len(Phase) * schedule.num_stages * size
  _check_size(
    f"gradient_accumulation_steps={rounds} of {cells} cells",
    rounds * cells,
    "rounds",
  )
  return dataclasses.replace(
    schedule,
    num_micro_batches=rounds * size,
    num_rounds=rounds * schedule.num_rounds,
    rows=tuple(
      tuple(
        dataclasses.replace(cell, micro_batch=r * size + cell.micro_batch)
        for r in range(rounds)
        for cell in row
      )
      for row in schedule.rows
    ),
  )


def check(schedule: Schedule) -> None:
  """Checks that devices that run their rows in order run every cell once.

  Args:
    schedule: The schedule.

  Raises:
    ValueError: If a cell is missing, too much or on a wrong device, or waits
      for one that cannot run before it; the text is one line and names the
      first such cell.
  """
  if schedule.name == "none" and not schedule.rows:
    return
  if len(schedule.rows) != schedule.num_devices:
    raise ValueError(
      f"schedule {schedule.name!r} has {len(schedule.rows)} rows for "
      f"{schedule.num_devices} devices; give each device one row"
    )
  _check_cells(schedule)
  list(running_order(schedule))


def _check_cells(schedule: Schedule) -> None:
  """Raises unless each cell is there once, on the device of its stage."""
  right = set(schedule.cells())
  seen: set[Cell] = set()
  problem = None
  for device, row in enumerate(schedule.rows):
    for cell in row:
      if cell not in right:
        problem = (
          f"has the {cell}, but only {schedule.num_stages} stages and "
          f"{schedule.num_micro_batches} micro-batches"
        )
      elif schedule.device_of(cell.stage) != device:
        problem = (
          f"has the {cell} on device {device}; it belongs on device "
          f"{schedule.device_of(cell.stage)}"
        )
      elif cell in seen:
        problem = f"has the {cell} twice"
      if problem:
        raise ValueError(f"schedule {schedule.name!r} {problem}")
      seen.add(cell)
  for cell in schedule.cells():
    if cell not in seen:
      raise ValueError(
        f"schedule {schedule.name!r} lacks the {cell} on device "
        f"{schedule.device_of(cell.stage)}"
      )


def running_order(schedule: Schedule) -> Iterator[Cell]:
  """Yields all cells, each after those that it waits for.

  A cell waits for the cell before it on its device, and for those whose results
  it reads.

  Args:
    schedule: A schedule with one row per device.

  Raises:
    ValueError: If some cells wait for each other.
  """
  done: set[Cell] = set()
  heads = [0] * len(schedule.rows)
  moved = True
  while moved:
    moved = False
    for device, row in enumerate(schedule.rows):
      while heads[device] < len(row) and done.issuperset(
        schedule.inputs_of(row[heads[device]])
      ):
        yield row[heads[device]]
        done.add(row[heads[device]])
        heads[device] += 1
        moved = True
  waiting = {
    row[head]: device
    for device, (row, head) in enumerate(zip(schedule.rows, heads, strict=True))
    if head < len(row)
  }
  for cell, device in waiting.items():
    for needed in schedule.inputs_of(cell):
      if needed not in done and needed not in waiting:
        raise ValueError(
          f"schedule {schedule.name!r} never ends: device {device} waits at "
          f"the {cell} for the {needed}, which comes later on device "
          f"{schedule.device_of(needed.stage)}"
        )


def live_micro_batches(schedule: Schedule) -> tuple[int, ...]:
  """Returns how many forwards each device holds at most.

  A forward is held, with its activations, until its backward has ended. A
  micro-batch counts once for each stage of the device.

  Args:
    schedule: The schedule. Without rows, all micro-batches may be live.

  Returns:
    A number for each device.
  """
  if not schedule.rows:
    every = schedule.num_micro_batches * schedule.num_virtual_stages
    return (every,) * schedule.num_devices
  greatest = []
  for row in schedule.rows:
    live = most = 0
    for cell in row:
      live += 1 if cell.phase is Phase.FORWARD else -1
      most = max(most, live)
    greatest.append(most)
  return tuple(greatest)
