"""Tables: the stages of the tables that a model looks up rows in.

A layer is where its computation is. A table is nothing but memory: its stage
sends rows to those that use them. So tables are placed after the cut, on stages
with free memory, as recommendation models place them (Naumov et al., 2019,
arXiv:1906.00091).

This file knows numbers only: no graph, no TensorFlow.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

# Stages are even enough if the fullest one has at most this much of the mean.
_EVEN = 1.3
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
  latency_seconds: float = 0.0,
  slack: float = 0.0,
) -> list[int]:
  """Returns the stage of each table.

  Tables leave the fullest stage for the emptiest one, one after the other. Of
  these moves as many are made as leave the least load, which is the larger of
  two shares: of the time on the slowest stage, of memory on the fullest.

  Args:
    seconds: The time of each stage.
    memory_bytes: The bytes of each stage without tables.
    tables: The tables.
    memory_limit: Bytes of a stage, which count before the load; None for no
      limit.
    latency_seconds: The time of sending anything at all from a stage to another
      and back, in addition to that of rows.
    slack: How much more than the least the load may be, as a fraction, where
      that saves memory.
  """
  moves = [*_moves(memory_bytes, tables)]
  total_seconds = max(sum(seconds), 1e-30)
  total_bytes = max(sum(memory_bytes) + sum(x.num_bytes for x in tables), 1e-30)
  fullest = [_bytes(memory_bytes, tables, stages).max() for stages in moves]
  loads = [
    max(
      _seconds(seconds, tables, stages, latency_seconds).max() / total_seconds,
      most / total_bytes,
    )
    for stages, most in zip(moves, fullest, strict=True)
  ]
  fits = [
    memory_limit is None or most <= max(memory_limit, fullest[-1])
    for most in fullest
  ]
  least = min(x for x, is_fit in zip(loads, fits, strict=True) if is_fit)
  chosen = [
    stages
    for stages, load, is_fit in zip(moves, loads, fits, strict=True)
    if is_fit and load <= least * (1 + slack)
  ]
  return list(chosen[-1])


def _moves(
  memory_bytes: Sequence[float], tables: Sequence[Table]
) -> Iterator[tuple[int, ...]]:
  """Yields the stages of tables, at home and after each move."""
  stages = [table.home for table in tables]
  yield tuple(stages)
  num_bytes = _bytes(memory_bytes, tables, stages)
  while num_bytes.max() > _EVEN * num_bytes.mean():
    fullest, emptiest = int(num_bytes.argmax()), int(num_bytes.argmin())
    gap = num_bytes[fullest] - num_bytes[emptiest]
    movable = [
      index
      for index, table in enumerate(tables)
      if stages[index] == fullest and 0 < (1 + _GAIN) * table.num_bytes <= gap
    ]
    if not movable:
      return
    # The table that leaves the two stages most alike.
    index = min(movable, key=lambda i: abs(gap - 2 * tables[i].num_bytes))
    stages[index] = emptiest
    num_bytes[fullest] -= tables[index].num_bytes
    num_bytes[emptiest] += tables[index].num_bytes
    yield tuple(stages)


def _bytes(
  memory_bytes: Sequence[float], tables: Sequence[Table], stages: Sequence[int]
) -> np.ndarray:
  """Returns the bytes of each stage with its tables."""
  num_bytes = np.array(memory_bytes, dtype=np.float64)
  for table, stage in zip(tables, stages, strict=True):
    num_bytes[stage] += table.num_bytes
  return num_bytes


def _seconds(
  seconds: Sequence[float],
  tables: Sequence[Table],
  stages: Sequence[int],
  latency_seconds: float,
) -> np.ndarray:
  """Returns the time of each stage, with that of sending and receiving rows."""
  time = np.array(seconds, dtype=np.float64)
  pairs = set()
  for table, stage in zip(tables, stages, strict=True):
    for user, spent in table.sent_seconds.items():
      if user != stage:
        time[[user, stage]] += spent
        pairs.add((user, stage))
  for pair in pairs:
    time[[*pair]] += latency_seconds
  return time
