"""Orders: the schedules that the option `schedule` names."""

import dataclasses
from collections.abc import Callable

from estimator_mp.config.schedules import algorithms
from estimator_mp.config.schedules.schedule import Cell, Schedule

# More take minutes to write down, and a graph has clones of a model in each.
_MAX_CELLS = 1_000_000

AUTO = "auto"

# The cells of a device, by its index, in the order in which it runs them.
Row = Callable[[Schedule, int], tuple[Cell, ...]]


def _check_multiple(schedule: Schedule) -> None:
  """Raises if micro-batches are no multiple of the devices."""
  stages, micro_batches = schedule.num_devices, schedule.num_micro_batches
  below = micro_batches // stages * stages
  if below != micro_batches:
    fitting = f"{below} or {below + stages}" if below else f"{stages}"
    raise ValueError(
      f"schedule={schedule.name!r} on {stages} devices needs a multiple of "
      f"{stages} micro-batches, but num_micro_batches={micro_batches}; "
      f"use {fitting}"
    )


@dataclasses.dataclass(frozen=True)
class Order:
  """An order of cells, for any numbers that fit it.

  Attributes:
    summary: Its description in docs/pipeline.md.
    held: How many micro-batches stage k of K holds, as docs/pipeline.md says.
    row: Returns the cells of a device; None if no order is enforced.
    needs_multiple: Whether micro-batches are a multiple of the devices.
    stages_per_device: How many stages a device may have; the first by default.
    otherwise: The order that is like it, for another number of these.
    splits_backward: Whether gradients of weights have cells of their own.
    turns_back: Whether stages go back and forth over the devices.
  """

  summary: str
  held: str
  row: Row | None
  needs_multiple: bool = False
  stages_per_device: range = range(1, 2)
  otherwise: str = "interleaved"
  splits_backward: bool = False
  turns_back: bool = False


ORDERS = {
  "none": Order("no order: every cell that is ready", "up to M", None),
  "gpipe": Order("all forwards, then all backwards", "M", algorithms.gpipe),
  "1f1b": Order(
    "alternates forwards and backwards, as soon as there is a backward",
    "K - k",
    algorithms.one_forward_one_backward,
  ),
  "interleaved": Order(
    "`1f1b` with `num_virtual_stages` stages on each device; the bubble is "
    "that many times smaller, and more is sent",
    "more than `1f1b`",
    algorithms.interleaved,
    needs_multiple=True,
    stages_per_device=range(2, _MAX_CELLS),
    otherwise="1f1b",
  ),
  "zb1p": Order(
    "`1f1b` with the gradients of weights deferred, so that stages wait less",
    "K",
    algorithms.zb1p,
    otherwise="zbv",
    splits_backward=True,
  ),
  "zb2p": Order(
    "`zb1p` with more forwards first, for a backward pass that takes longer",
    "2 K - 1",
    algorithms.zb2p,
    otherwise="zbv",
    splits_backward=True,
  ),
  "zbv": Order(
    "`zb1p` with two stages on each device, the last of them on the first",
    "K, as 2 K of half the layers",
    algorithms.zbv,
    stages_per_device=range(2, 3),
    otherwise="zb1p",
    splits_backward=True,
    turns_back=True,
  ),
  AUTO: Order(
    "the fastest schedule found for the costs of the model's phases",
    "at most `max_live_micro_batches`, K by default",
    algorithms.auto,
    otherwise="zbv",
    splits_backward=True,
  ),
}

NAMES = tuple(ORDERS)


def make_schedule(
  name: str,
  num_stages: int,
  num_micro_batches: int,
  num_virtual_stages: int | None = None,
  max_live_micro_batches: int | None = None,
) -> Schedule:
  """Returns the schedule of a name.

  Args:
    name: One of `NAMES`; `ORDERS` describes them.
    num_stages: The devices on the stage axis, K.
    num_micro_batches: The micro-batches of a batch, M; for "interleaved" a
      multiple of K.
    num_virtual_stages: The stages per device, v: at least 2 for "interleaved",
      2 for "zbv", and 1 for the others; None for the least.
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
    num_virtual_stages or order.stages_per_device[0],
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
  _check_virtual_stages(order, schedule)
  if order.needs_multiple:
    _check_multiple(schedule)
  if order.row is None:
    return schedule
  return dataclasses.replace(
    schedule,
    rows=tuple(order.row(schedule, device) for device in range(num_stages)),
  )


def _check_virtual_stages(order: Order, schedule: Schedule) -> None:
  """Raises if an order has not so many stages on each device."""
  number, possible = schedule.num_virtual_stages, order.stages_per_device
  if number in possible:
    return
  least = possible[0]
  stages = f"{least} stage{'s' if least > 1 else ''}"
  if len(possible) > 1:
    stages += " or more"
  raise ValueError(
    f"schedule={schedule.name!r} has {stages} per device, but "
    f"num_virtual_stages={number}; leave it out, or use "
    f"schedule={order.otherwise!r}"
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


def _check_size(cause: str, num_cells: int, fewer: str) -> None:
  """Raises if a schedule would have too many cells to be written down."""
  if num_cells > _MAX_CELLS:
    raise ValueError(
      f"{cause} makes a schedule of {num_cells} cells, more than {_MAX_CELLS}; "
      f"use fewer {fewer}"
    )
