"""Schedules: in which order each device runs the cells of its stages.

A cell is the forward or the backward pass of one micro-batch through one stage.
Four micro-batches on two stages, time to the right, backward in brackets:

    gpipe  stage 0   0   1   2   3   .   .  [3] [2] [1] [0]   4 live
           stage 1   .   0   1   2   3  [3] [2] [1] [0]  .    4 live

    1f1b   stage 0   0   1   .  [0]  2  [1]  3  [2]  .  [3]   2 live
           stage 1   .   0  [0]  1  [1]  2  [2]  3  [3]  .    1 live

Both keep the devices equally busy; 1f1b holds the activations of fewer
micro-batches.

A backward pass may be split in two: into what earlier stages wait for, the
gradients of activations, and what only this stage's weights need, which can
wait until the device has nothing better to do (in braces):

    zb1p   stage 0   0   1   .  [0] {0}  2  [1] {1}  3  [2] {2} [3] {3}
           stage 1   .   0  [0]  1  [1] {0}  2  [2] {1}  3  [3] {2} {3}

A schedule is data: nothing here knows of TensorFlow.

To add one, write the function of its rows and add it to `ORDERS`; the choices
of the option, the errors and what the tests check follow.
"""

import collections
import dataclasses
import enum
from collections.abc import Callable, Iterator

# More take minutes to write down, and a graph has clones of a model in each.
_MAX_CELLS = 1_000_000


class Phase(enum.IntEnum):
  """The passes of a micro-batch through a stage.

  Where a schedule splits the backward pass, BACKWARD is what earlier stages
  wait for, the gradients of activations, and WEIGHT what only the stage's own
  weights need, with the sums over micro-batches. Otherwise BACKWARD is both.
  """

  FORWARD = 0
  BACKWARD = 1
  WEIGHT = 2


# What a micro-batch has on each stage if backward passes are not split.
UNSPLIT: tuple[Phase, ...] = (Phase.FORWARD, Phase.BACKWARD)


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
  """One pass of one micro-batch through one stage.

  Attributes:
    stage: The stage. With v virtual stages per device there are v times as
      many stages as devices; see `Schedule.device_of`.
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
    if cell.phase is Phase.FORWARD:
      if cell.stage == 0:
        return ()
      return (dataclasses.replace(cell, stage=cell.stage - 1),)
    if cell.phase is Phase.WEIGHT:
      return (dataclasses.replace(cell, phase=Phase.BACKWARD),)
    found = [dataclasses.replace(cell, phase=Phase.FORWARD)]
    if cell.stage + 1 < self.num_stages:
      found.append(dataclasses.replace(cell, stage=cell.stage + 1))
    return tuple(found)


# The cells of each device, in the order in which it runs them.
Rows = tuple[tuple[Cell, ...], ...]
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


def _zb1p_row(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Takes forwards and backwards as 1f1b does, and puts weights off.

  ZB-H1 (Qi et al., 2023, arXiv:2401.10241). Device k begins with the weights of
  a micro-batch when it has done the backward of the k next ones. So each device
  holds K micro-batches, as the first one does with 1f1b.
  """
  warm_up = schedule.num_devices - device - 1
  return _weights_put_off(schedule, device, warm_up, device)


def _zb2p_row(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Takes twice as many forwards first as zb1p, and puts weights off as long.

  ZB-H2 (Qi et al., 2023, arXiv:2401.10241): device k takes 2 (K - k) - 1
  forwards, in the time that the first micro-batch needs to come back to it.
  Each device holds 2 K - 1 micro-batches.
  """
  warm_up = 2 * (schedule.num_devices - device - 1)
  return _weights_put_off(schedule, device, warm_up, 2 * device)


def _weights_put_off(
  schedule: Schedule, device: int, warm_up: int, delay: int
) -> tuple[Cell, ...]:
  """Returns the cells of a device that has one stage.

  Args:
    schedule: The schedule.
    device: The device.
    warm_up: How many forwards come before each has a backward.
    delay: How many further backwards come before the weights of one.
  """
  micro_batches = range(schedule.num_micro_batches)
  row = list[Cell]()
  for cell in _alternating(
    [Cell(device, m, Phase.FORWARD) for m in micro_batches],
    [Cell(device, m, Phase.BACKWARD) for m in micro_batches],
    warm_up,
  ):
    row.append(cell)
    if cell.phase is Phase.BACKWARD and cell.micro_batch >= delay:
      row.append(Cell(device, cell.micro_batch - delay, Phase.WEIGHT))
  late = [Cell(device, m, Phase.WEIGHT) for m in micro_batches[-delay:]]
  return (*row, *(late if delay else ()))


def _zbv_row(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Works on two stages in turn, of which the last device passes one to itself.

  ZB-V (Qi et al., 2024, arXiv:2405.15362). Device k of K has stage k, on the
  way down the V, and stage 2 K - 1 - k, on the way up. With passes that all
  take a time of 1, micro-batch 0 comes up to device k at 2 K - 1 - k, and back
  down at 2 K + k. Until then the device begins with others; as soon as 2 K
  passes are held, each forward waits for the weights of another one. The end is
  the same backwards, but that weights wait for whatever others wait for.
  """
  size = schedule.num_devices
  to_come = size - device
  # A batch of too few is the beginning and the end of a longer one.
  num_micro_batches = max(schedule.num_micro_batches, 2 * size - 1)
  down, down_back, down_weight = ((device, phase) for phase in Phase)
  up, up_back, up_weight = ((2 * size - 1 - device, phase) for phase in Phase)
  steady = [down_back, down_weight, up, up_back, up_weight]
  order = [
    *[down] * (2 * to_come - 1),
    *[up, down] * device,
    *[up, up_back, up_weight] * to_come,
    *[down, *steady] * (num_micro_batches - size - to_come + 1),
    *steady * (to_come - 1),
    *[down_back, up_back] * device,
    *[down_back, down_weight] * to_come,
    *[up_weight] * device,
    *[down_weight] * device,
  ]
  row = list[Cell]()
  done = collections.Counter[tuple[int, Phase]]()
  for stage, phase in order:
    row.append(Cell(stage, done[stage, phase], phase))
    done[stage, phase] += 1
  return tuple(x for x in row if x.micro_batch < schedule.num_micro_batches)


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
      f"num_virtual_stages={schedule.num_virtual_stages}; use 1, or "
      f"schedule={'zbv' if schedule.splits_backward else 'interleaved'!r}"
    )


def _auto_row(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Takes zb1p with no more micro-batches than may be held.

  That is what is known before a model is: once its phases have costs,
  `pipeline.auto_schedule` finds a better order.
  """
  most = schedule.most_live or schedule.num_micro_batches
  warm_up = min(schedule.num_devices - device - 1, most - 1)
  delay = min(device, most - 1 - warm_up)
  return _weights_put_off(schedule, device, warm_up, delay)


def _check_two_stages(schedule: Schedule) -> None:
  """Raises unless devices have two stages."""
  if schedule.num_virtual_stages != 2:
    raise ValueError(
      f"schedule={schedule.name!r} has two stages per device, but "
      f"num_virtual_stages={schedule.num_virtual_stages}; use 2, or "
      "schedule='zb1p'"
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


AUTO = "auto"


@dataclasses.dataclass(frozen=True)
class Order:
  """An order of cells, for any numbers that fit it.

  Attributes:
    summary: What it does, as docs/pipeline.md says it.
    held: How many micro-batches stage k of K holds, as docs/pipeline.md says.
    row: Returns the cells of a device; None if no order is enforced.
    check: Raises ValueError if the numbers of a schedule do not fit it.
    splits_backward: Whether gradients of weights have cells of their own.
    turns_back: Whether stages go back and forth over the devices.
  """

  summary: str
  held: str
  row: Row | None
  check: Callable[[Schedule], None] = _check_one_stage
  splits_backward: bool = False
  turns_back: bool = False


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
  "zb1p": Order(
    "`1f1b`, but what only weights need is put off, so that others wait less",
    "K",
    _zb1p_row,
    splits_backward=True,
  ),
  "zb2p": Order(
    "`zb1p` with more forwards first, for a backward pass that takes longer",
    "2 K - 1",
    _zb2p_row,
    splits_backward=True,
  ),
  "zbv": Order(
    "`zb1p` with two stages on each device, the last of them on the first",
    "K, as 2 K of half the layers",
    _zbv_row,
    _check_two_stages,
    splits_backward=True,
    turns_back=True,
  ),
  AUTO: Order(
    "the fastest that is found for what the phases of the model cost",
    "at most `max_live_micro_batches`, K by default",
    _auto_row,
    splits_backward=True,
  ),
}
NAMES = tuple(ORDERS)


def make_schedule(
  name: str,
  num_stages: int,
  num_micro_batches: int,
  num_virtual_stages: int = 1,
  max_live_micro_batches: int | None = None,
) -> Schedule:
  """Returns the schedule of a name.

  Args:
    name: One of `NAMES`; `ORDERS` says what they mean.
    num_stages: The devices on the stage axis, K.
    num_micro_batches: The micro-batches of a batch, M; for "interleaved" a
      multiple of K.
    num_virtual_stages: The stages per device, v: at least 2 for "interleaved",
      2 for "zbv", and 1 for the others.
    max_live_micro_batches: The most micro-batches that a device may hold, for
      "auto" only; None for K.

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
    ("max_live_micro_batches", max_live_micro_batches),
  ):
    if value is not None and value < 1:
      raise ValueError(f"{argument}={value} is too small; use 1 or more")
  order = ORDERS[name]
  schedule = Schedule(
    name,
    num_stages,
    num_micro_batches,
    (),
    num_virtual_stages,
    splits_backward=order.splits_backward,
    turns_back=order.turns_back,
    most_live=max_live_micro_batches or (num_stages if name == AUTO else None),
  )
  if name != AUTO and max_live_micro_batches is not None:
    raise ValueError(
      f"max_live_micro_batches={max_live_micro_batches} is for "
      f"schedule={AUTO!r}, but schedule={name!r} holds what its order says; "
      f"leave it out, or use schedule={AUTO!r}"
    )
  stages = schedule.num_stages
  _check_size(
    f"num_micro_batches={num_micro_batches} on {stages} stage(s)",
    len(schedule.phases) * stages * num_micro_batches,
    "micro-batches" if num_micro_batches >= stages else "stages",
  )
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
  cells = len(schedule.phases) * schedule.num_stages * size
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
      if cell.phase not in schedule.phases:
        problem = f"has the {cell}, but it does not split the backward pass"
      elif cell not in right:
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
