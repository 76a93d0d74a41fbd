"""Tables: on which stages are the tables that a model looks up rows in.

A layer is where its computation is. A table is nothing but memory: whichever
stage has it sends its rows to those that use them. So tables come after the
cut, to where memory is left, as recommendation models place them (Naumov et
al., 2019, arXiv:1906.00091).

This file knows numbers only: no graph, no TensorFlow.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

# Stages are even if the fullest one has this much more than the mean.
_EVEN = 1.1
# A table moves if the fullest stage gets rid of at least this part of it.
_GAIN = 0.5


@dataclasses.dataclass(frozen=True)
class Table:
  """A table, and the stages that use it.

  Attributes:
    num_bytes: The bytes of training it.
    home: The stage where it costs least traffic.
    sent_seconds: The time of sending its rows to each stage that uses them, and
      their gradients back, unless it is there.
  """

  num_bytes: float
  home: int
  sent_seconds: Mapping[int, float]


def spread(
  seconds: Sequence[float],
  memory_bytes: Sequence[float],
  tables: Sequence[Table],
  memory_limit: float | None = None,
  slack: float = 0.0,
) -> list[int]:
  """Returns the stage of each table.

  Tables leave the fullest stage for the emptiest one, as long as that makes the
  fullest one smaller, and the slowest stage has no greater share of the time
  than the fullest had of memory.

  Args:
    seconds: The time of each stage.
    memory_bytes: The bytes of each stage without tables.
    tables: The tables.
    memory_limit: Bytes of a stage; above it, time does not count. None for no
      limit.
    slack: How much slower the slowest stage may be in any case, as a fraction.
  """
  stages = [table.home for table in tables]
  held = np.array(memory_bytes, dtype=np.float64)
  for table in tables:
    held[table.home] += table.num_bytes
  time = np.array(seconds, dtype=np.float64)
  slowest = time.max() * (1 + slack)
  while held.max() > _EVEN * held.mean():
    fullest, emptiest = int(held.argmax()), int(held.argmin())
    gap = held[fullest] - held[emptiest]
    moved = [
      index
      for index, table in enumerate(tables)
      if stages[index] == fullest and 0 < (1 + _GAIN) * table.num_bytes <= gap
    ]
    if not moved:
      break
    # What leaves the two stages most alike.
    index = min(moved, key=lambda i: abs(gap - 2 * tables[i].num_bytes))
    after = time + _sending(tables[index], emptiest, len(time))
    after -= _sending(tables[index], fullest, len(time))
    is_over = memory_limit is not None and held.max() > memory_limit
    share = held.max() / held.sum() * time.sum()
    if not is_over and after.max() > max(slowest, share):
      break
    time = after
    stages[index] = emptiest
    held[fullest] -= tables[index].num_bytes
    held[emptiest] += tables[index].num_bytes
  return stages


def _sending(table: Table, stage: int, num_stages: int) -> np.ndarray:
  """Returns the time of each stage for the rows of a table on one of them."""
  seconds = np.zeros(num_stages)
  for user, spent in table.sent_seconds.items():
    if user != stage:
      seconds[[user, stage]] += spent
  return seconds
