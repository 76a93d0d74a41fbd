"""A known placement: the user gives it, or training has saved it."""

from collections.abc import Mapping, Sequence

from estimator_mp.config.placement import Placement
from estimator_mp.graph import colocation, op_types, shapes

import tensorflow as tf


class Given:
  """The placement that the user gives; a `Strategy`."""

  def __init__(self, placement: Placement):
    """Takes the placement."""
    self._planned = placement.ops

  def stages_of(
    self,
    ops: Sequence[tf.Operation],
    targets: Sequence[tf.Operation],
    groups: colocation.ColocationGroups,
  ) -> dict[tf.Operation, int]:
    """Returns the stages of ops that have a name of the placement.

    Raises:
      ValueError: If variables that share a device are apart in the placement.
    """
    del targets
    conflict = _conflict(self._planned, ops, groups)
    if conflict:
      raise ValueError(f"{conflict}; give one that has both on one stage")
    return _stages_by_name(self._planned, ops, groups)

  def check(self, ops: Sequence[tf.Operation]) -> None:
    """Raises if a trainable variable has no place: it is of another model."""
    trainable = {v.op.name for v in tf.compat.v1.trainable_variables()}
    for op in op_types.variables_of(ops):
      if op.name in trainable and op.name not in self._planned:
        raise ValueError(
          f"variable {op.name!r} is not among the {len(self._planned)} ops of "
          "the placement, which is of another model; give the placement.json "
          'of this one, or placement="auto"'
        )


class Saved:
  """The placement that training has saved, for another mode; a `Strategy`."""

  def __init__(self, placement: Placement, mode: str):
    """Takes the placement, and what the graph is for."""
    self._planned = placement.ops
    self._mode = mode

  def stages_of(
    self,
    ops: Sequence[tf.Operation],
    targets: Sequence[tf.Operation],
    groups: colocation.ColocationGroups,
  ) -> dict[tf.Operation, int]:
    """Returns the stages of ops that have a name of the placement."""
    del targets
    conflict = _conflict(self._planned, ops, groups)
    if conflict:  # Such as decoding in a loop, which training does without.
      tf.compat.v1.logging.warning(
        "To %s, variables move: %s", self._mode, conflict
      )
    return _stages_by_name(self._planned, ops, groups)

  def check(self, ops: Sequence[tf.Operation]) -> None:
    """Does nothing: what training did not have follows what it reads."""


def _stages_by_name(
  planned: Mapping[str, int],
  ops: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
) -> dict[tf.Operation, int]:
  """Returns the stages of those ops that have a planned name.

  An op that shares a device with variables has their stage (where they had
  several, that of most of their bytes): the same numbered name, such as
  `AssignVariableOp_5`, may be of another variable in another graph. Of other
  ops that share a device the first one counts.
  """
  of_group: dict[tf.Operation, int | None] = {}
  for group, variables in _variables_of_groups(ops, groups).items():
    held: dict[int, int] = {}
    for variable in variables:
      if variable.name in planned:
        stage = planned[variable.name]
        size = shapes.variable_bytes(variable)
        held[stage] = held.get(stage, 0) + size
    of_group[group] = max(held, key=held.__getitem__) if held else None
  stages = {}
  for op in ops:
    if op.name in planned:
      found = of_group.setdefault(groups.of(op), planned[op.name])
      if found is not None:
        stages[op] = found
  return stages


def _conflict(
  planned: Mapping[str, int],
  ops: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
) -> str:
  """Returns which variables are planned apart, but share a device; or ""."""
  for variables in _variables_of_groups(ops, groups).values():
    first, *others = [v.name for v in variables if v.name in planned] or [""]
    for other in others:
      if planned[other] != planned[first]:
        return (
          f"the placement has variable {first!r} on stage {planned[first]} "
          f"and {other!r} on stage {planned[other]}, but an op of this graph "
          "(a loop, a condition or a function) works on both, so they share a "
          "device"
        )
  return ""


def _variables_of_groups(
  ops: Sequence[tf.Operation], groups: colocation.ColocationGroups
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns the variables of each group that has some."""
  found: dict[tf.Operation, list[tf.Operation]] = {}
  for variable in op_types.variables_of(ops):
    found.setdefault(groups.of(variable), []).append(variable)
  return found
