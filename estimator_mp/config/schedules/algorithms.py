"""Schedule algorithms: the order of a device's cells, as papers have it.

To add an order, write the function of a device's row here and give it a name in
`orders.ORDERS`; the choices of the option, the errors and the tests follow.
"""

import collections

from estimator_mp.config.schedules.schedule import Cell, Phase, Schedule


def gpipe(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Runs all forwards, then all backwards.

  GPipe (Huang et al., 2019, arXiv:1811.06965).
  """
  forwards = range(schedule.num_micro_batches)
  return (
    *(Cell(device, m, Phase.FORWARD) for m in forwards),
    *(Cell(device, m, Phase.BACKWARD) for m in reversed(forwards)),
  )


def one_forward_one_backward(
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


def interleaved(schedule: Schedule, device: int) -> tuple[Cell, ...]:
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


def zb1p(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Takes forwards and backwards as 1f1b does, and puts weights off.

  ZB-H1 (Qi et al., 2023, arXiv:2401.10241). Device k begins with the weights of
  a micro-batch when it has done the backward of the k next ones. So each device
  holds K micro-batches, as the first one does with 1f1b.
  """
  warm_up = schedule.num_devices - device - 1
  return _deferred_weights(schedule, device, warm_up, device)


def zb2p(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Takes twice as many forwards first as zb1p, and puts weights off as long.

  ZB-H2 (Qi et al., 2023, arXiv:2401.10241): device k takes 2 (K - k) - 1
  forwards, in the time that the first micro-batch needs to come back to it.
  Each device holds 2 K - 1 micro-batches.
  """
  warm_up = 2 * (schedule.num_devices - device - 1)
  return _deferred_weights(schedule, device, warm_up, 2 * device)


def zbv(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Works on two stages in turn, of which the last device passes one to itself.

  ZB-V (Qi et al., 2024, arXiv:2405.15362). Device k of K has stage k, on the
  way down the V, and stage 2 K - 1 - k, on the way up. With passes that all
  take a time of 1, micro-batch 0 comes up to device k at 2 K - 1 - k, and back
  down at 2 K + k. Until then the device begins with others; as soon as 2 K
  passes are held, each forward waits for the weights of another one. The end is
  the same backwards, but that weights wait for all passes that others wait for.
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


def auto(schedule: Schedule, device: int) -> tuple[Cell, ...]:
  """Takes zb1p with no more micro-batches than may be held.

  It is the order before the model is known: with the costs of its phases,
  `pipeline.auto_schedule` finds a better one.
  """
  most = schedule.most_live or schedule.num_micro_batches
  warm_up = min(schedule.num_devices - device - 1, most - 1)
  delay = min(device, most - 1 - warm_up)
  return _deferred_weights(schedule, device, warm_up, delay)


def _deferred_weights(
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


def _alternating(
  forwards: list[Cell], backwards: list[Cell], warm_up: int
) -> tuple[Cell, ...]:
  """Returns some forwards, then one forward and one backward in turn."""
  warm_up = min(warm_up, len(forwards))
  row = forwards[:warm_up]
  for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
    row += [forward, backward]
  return (*row, *backwards[len(forwards) - warm_up :])
