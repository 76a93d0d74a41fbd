"""Split rules: the variables that are split over devices, and their dimension.

    split=[("attention/(query|key|value)/kernel", 1), ("embeddings", "mod")]

A rule is a regular expression for names of variables, and the split of these: a
dimension, or one of `TABLES`, or None for never. It is data, which
`estimator_mp.planning.split_options` reads.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from estimator_mp.config import name_rules

# The word for axes that are searched for.
AUTO = "auto"
# How tables of embeddings are split: row i on device i % N; consecutive rows;
# columns; each table on one device, chosen by bytes.
TABLES = ("mod", "div", "columns", "whole")
# An expression for names of variables, and their split.
SplitRule: TypeAlias = tuple[str, int | str | None]

_TABLE_WORDS = ", ".join(f'"{word}"' for word in TABLES)


class SplitError(ValueError):
  """Rules of splits, or the search for splits, do not fit a model."""


def checked_split(
  split: Any, spec: str, axes: Mapping[str, int]
) -> str | tuple[SplitRule, ...]:
  """Returns `AUTO`, or rules as tuples, if they are right.

  Args:
    split: The option.
    spec: The text of the mesh.
    axes: The sizes of its axes, by name.

  Raises:
    ValueError: If it is another text, there is no rule, one is malformed, or
      the mesh has no axis for one.
  """
  if split == AUTO:
    return AUTO
  if not isinstance(split, list | tuple):
    raise ValueError(
      f'split={split!r} is unknown; use "auto", or rules such as '
      '[("ffn/kernel", 1), ("table", "mod")]'
    )
  if not split:
    raise ValueError(
      'split=() has no rule; give at least one, such as (".*", None) to keep '
      'all variables whole, or split="auto"'
    )
  rules = name_rules.checked(
    "split",
    split,
    _is_split,
    f"a dimension from 0, one of {_TABLE_WORDS}, or None",
    '("ffn/kernel", 1)',
  )
  for rule in rules:
    _check_axis(rule, spec, axes)
  return rules


def _is_split(split: Any) -> bool:
  """Whether a value is the split of a rule."""
  if type(split) is int:  # True is an int for isinstance.
    return split >= 0
  return split is None or split in TABLES


def _check_axis(rule: SplitRule, spec: str, axes: Mapping[str, int]) -> None:
  """Raises if a mesh has no axis that a rule could split a variable over."""
  if "model" in axes:
    return
  if "data" not in axes:
    raise ValueError(
      f"split rule {rule!r} is for an axis that does not exist: mesh {spec!r} "
      "has no model axis to split variables over, and no data axis to split "
      f"tables over; use a mesh such as {spec + ',model:2'!r}, or split=auto"
    )
  if isinstance(rule[1], int):
    raise ValueError(
      f"split rule {rule!r} is for an axis that does not exist: mesh {spec!r} "
      "has no model axis, and over the data axis only tables are split, by "
      f"{_TABLE_WORDS}; use one of them, or a mesh such as "
      f"{spec + ',model:2'!r}"
    )


def rule_for(rules: Iterable[SplitRule], name: str) -> SplitRule | None:
  """Returns the first rule whose expression is found in a variable's name.

  Args:
    rules: The rules, in order.
    name: The name, without ":0".
  """
  for rule in rules:
    if re.search(rule[0], name):
      return rule
  return None
