"""A schedule: the cells of each device, in the order in which it runs them.

A cell is the forward or the backward pass of one micro-batch through one stage.
Four micro-batches on two stages, time to the right, backward in brackets:

    gpipe  stage 0   0   1   2   3   .   .  [3] [2] [1] [0]   4 live
           stage 1   .   0   1   2   3  [3] [2] [1] [0]  .    4 live

    1f1b   stage 0   0   1   .  [0]  2  [1]  3  [2]  .  [3]   2 live
           stage 1   .   0  [0]  1  [1]  2  [2]  3  [3]  .    1 live

Both keep the devices equally busy; 1f1b holds the activations of fewer
micro-batches.

A backward pass may be split in two: the gradients of activations, which earlier
stages wait for, and the gradients of weights, which can wait until the device
is idle (in braces):

    zb1p   stage 0   0   1   .  [0] {0}  2  [1] {1}  3  [2] {2} [3] {3}
           stage 1   .   0  [0]  1  [1] {0}  2  [2] {1}  3  [3] {2} {3}

A schedule is data: nothing here knows of TensorFlow.
"""

import dataclasses
import enum
import functools
from collections.abc import Iterator


class Phase(enum.IntEnum):
  """The passes of a micro-batch through a stage.

  Where a schedule splits the backward pass, BACKWARD has the gradients of
  activations, and WEIGHT those of weights, with the sums over micro-batches.
  Otherwise BACKWARD has both.
  """

  FORWARD = 0
  BACKWARD = 1
  WEIGHT = 2

  # As that of the integer, which is equal to it; cells are keys.
  __hash__ = int.__hash__


# The phases of a micro-batch if backward passes are not split.
UNSPLIT: tuple[Phase, ...] = (Phase.FORWARD, Phase.BACKWARD)


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
  """One pass of one micro-batch through one stage.

  Attributes:
    stage: The stage. With v virtual stages per device there are v times as
      many stages as devices; see `Schedule.device_of`.
    micro_batch: The micro-batch.
    phase: The pass.
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
    splits_backward: Whether gradients of weights have cells of their own.
    turns_back: Whether stages go back and forth over the devices, in a V if
      each has two, and not around them.
    most_live: The most micro-batches that a device may hold, if the order is
      made for that; None for as many as it holds.
  """

  name: str
  num_devices: int
  num_micro_batches: int
  rows: tuple[tuple[Cell, ...], ...]
  num_virtual_stages: int = 1
  num_rounds: int = 1
  splits_backward: bool = False
  turns_back: bool = False
  most_live: int | None = None

  @property
  def num_stages(self) -> int:
    """The number of stages, C = K * v."""
    return self.num_devices * self.num_virtual_stages

  @property
  def phases(self) -> tuple[Phase, ...]:
    """The phases that a micro-batch has on each stage, in their order."""
    return tuple(Phase) if self.splits_backward else UNSPLIT

  def device_of(self, stage: int) -> int:
    """Returns the device, as the index of its row, of a stage.

    Args:
      stage: The stage, from 0 to C - 1.
    """
    turn, device = divmod(stage, self.num_devices)
    if self.turns_back and turn % 2:
      return self.num_devices - 1 - device
    return device

  @property
  def devices_of_stages(self) -> tuple[int, ...]:
    """The device of each stage."""
    return tuple(map(self.device_of, range(self.num_stages)))

  def cells(self) -> Iterator[Cell]:
    """Yields every cell that there has to be, in the order of cells."""
    for stage in range(self.num_stages):
      for micro_batch in range(self.num_micro_batches):
        for phase in self.phases:
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
    stage, micro_batch = cell.stage, cell.micro_batch
    if cell.phase is Phase.FORWARD:
      return (Cell(stage - 1, micro_batch, Phase.FORWARD),) if stage else ()
    if cell.phase is Phase.WEIGHT:
      return (Cell(stage, micro_batch, Phase.BACKWARD),)
    forward = Cell(stage, micro_batch, Phase.FORWARD)
    if stage + 1 == self.num_stages:
      return (forward,)
    return forward, Cell(stage + 1, micro_batch, Phase.BACKWARD)

  @functools.cached_property
  def running_order(self) -> tuple[tuple[Cell, tuple[Cell, ...]], ...]:
    """All cells, each after those that it waits for, with what it reads.

    A cell waits for the cell before it on its device, and for those whose
    results it reads. There is one row per device.

    Raises:
      ValueError: If some cells wait for each other.
    """
    order: list[tuple[Cell, tuple[Cell, ...]]] = []
    done: set[Cell] = set()
    heads = [0] * len(self.rows)
    moved = True
    while moved:
      moved = False
      for device, row in enumerate(self.rows):
        while heads[device] < len(row):
          cell = row[heads[device]]
          inputs = self.inputs_of(cell)
          if not done.issuperset(inputs):
            break
          order.append((cell, inputs))
          done.add(cell)
          heads[device] += 1
          moved = True
    waiting = {
      row[head]: device
      for device, (row, head) in enumerate(zip(self.rows, heads, strict=True))
      if head < len(row)
    }
    for cell, device in waiting.items():
      for needed in self.inputs_of(cell):
        if needed not in done and needed not in waiting:
          raise ValueError(
            f"schedule {self.name!r} never ends: device {device} waits at "
            f"the {cell} for the {needed}, which comes later on device "
            f"{self.device_of(needed.stage)}"
          )
    return tuple(order)


# The cells of each device, in the order in which it runs them.
Rows = tuple[tuple[Cell, ...], ...]


def live_micro_batches(schedule: Schedule) -> tuple[int, ...]:
  """Returns how many forwards each device holds at most.

  A forward is held, with its activations, until its backward has ended, and
  where that is split, until the gradients of its weights are there. A
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
      live += cell.phase is Phase.FORWARD
      most = max(most, live)
      live -= cell.phase is schedule.phases[-1]
    greatest.append(most)
  return tuple(greatest)
