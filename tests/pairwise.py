"""Few cases that have every two values that go together.

Most defects need at most two values to show (Kuhn, Wallace and Gallo, 2004,
"Software Fault Interactions"), so a test of each combination says little more
than one of each pair. Cases are chosen greedily, as in AETG (Cohen et al.,
1997): the next one has the most pairs that none has yet.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

Case: TypeAlias = dict[str, Any]


def pairs(
  factors: Mapping[str, Sequence[Any]],
  go_together: Callable[..., bool] = lambda **case: True,
) -> list[Case]:
  """Chooses cases that have all pairs of values that go together.

  Args:
    factors: The values of each factor; the texts of two values differ.
    go_together: Whether there is a case, given its values by their factors.

  Returns:
    The cases, in the order of their values.
  """
  rows = [
    row
    for row in itertools.product(*factors.values())
    if go_together(**dict(zip(factors, row, strict=True)))
  ]
  of_rows = _pairs_of_rows(rows, len(factors))
  is_left = np.zeros(of_rows.max() + 1, bool)
  is_left[of_rows] = True
  chosen = []
  while is_left.any():
    best = is_left[of_rows].sum(axis=1).argmax()
    is_left[of_rows[best]] = False
    chosen.append(best)
  return [dict(zip(factors, rows[i], strict=True)) for i in sorted(chosen)]


def of_each(factor: str, cases: Sequence[Case]) -> list[Case]:
  """Chooses one case for each value of a factor.

  Args:
    factor: The factor.
    cases: Those to choose from.

  Returns:
    For each value the case with the most pairs that none before it has.
  """
  seen: set[tuple[tuple[str, str], ...]] = set()
  chosen = []
  for value in dict.fromkeys(str(case[factor]) for case in cases):
    of_value = [case for case in cases if str(case[factor]) == value]
    best = max(of_value, key=lambda case: len(_pairs_of(case) - seen))
    seen |= _pairs_of(best)
    chosen.append(best)
  return chosen


def _pairs_of(case: Case) -> set[tuple[tuple[str, str], ...]]:
  values = [(factor, str(value)) for factor, value in case.items()]
  return {*itertools.combinations(values, 2)}


def _pairs_of_rows(rows: Sequence[tuple[Any, ...]], width: int) -> Any:
  """The numbers of the pairs in each row, [rows, pairs of columns]."""
  columns = [
    np.unique([str(row[i]) for row in rows], return_inverse=True)[1]
    for i in range(width)
  ]
  numbers, start = [], 0
  for left, right in itertools.combinations(columns, 2):
    pair = left * (right.max() + 1) + right
    numbers.append(start + pair)
    start += pair.max() + 1
  return np.stack(numbers, axis=1)


def name(case: Case) -> str:
  """The name of a case, for a test: its values, one after the other."""
  words = "_".join(map(str, case.values()))
  return "".join(x if x.isalnum() else "_" for x in words)
