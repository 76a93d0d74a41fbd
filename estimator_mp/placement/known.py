"""A known placement: the user gives it, or training has saved it."""

from collections.abc import Mapping

from estimator_mp.config.placement import Placement
from estimator_mp.graph import op_types, shapes
from estimator_mp.placement.unplaced import Stages, Unplaced

import tensorflow as tf


def stages_of_given(unplaced: Unplaced, placement: Placement) -> Stages:
  """Returns the stages of ops that have a name of the user's placement.

  Args:
    unplaced: The ops.
    placement: The placement.

  Raises:
    ValueError: If a trainable variable has no place, as it is of another model;
      or variables that share a device are apart.
  """
  planned = placement.ops
  trainable = {v.op.name for v in tf.compat.v1.trainable_variables()}
  for op in op_types.variables_of(unplaced.model):
    if op.name in trainable and op.name not in planned:
      raise ValueError(
        f"variable {op.name!r} is not among the {len(planned)} ops of "
        "the placement, which is of another model; give the placement.json "
        'of this one, or placement="auto"'
      )
  conflict = _conflict(planned, unplaced)
  if conflict:
    raise ValueError(f"{conflict}; give one that has both on one stage")
  return _stages_by_name(planned, unplaced)


def stages_of_saved(
  unplaced: Unplaced, placement: Placement, mode: str
) -> Stages:
  """Returns the stages of ops that have a name of the placement of training.

  Ops that training did not have follow their inputs.

  Args:
    unplaced: The ops.
    placement: The placement that training has saved.
    mode: The purpose of this graph.
  """
  conflict = _conflict(placement.ops, unplaced)
  if conflict:  # Such as decoding in a loop, which training does without.
    tf.compat.v1.logging.warning("To %s, variables move: %s", mode, conflict)
  return _stages_by_name(placement.ops, unplaced)


def _stages_by_name(planned: Mapping[str, int], unplaced: Unplaced) -> Stages:
  """Returns the stages of those ops that have a planned name.

  An op that shares a device with variables has their stage (where they had
  several, that of most of their bytes): the same numbered name, such as
  `AssignVariableOp_5`, may be of another variable in another graph. Of other
  ops that share a device the first one counts.
  """
  of_group: dict[tf.Operation, int | None] = {}
  for group, variables in _variables_of_groups(unplaced).items():
    sizes: dict[int, int] = {}
    for variable in variables:
      if variable.name in planned:
        stage = planned[variable.name]
        size = shapes.variable_bytes(variable)
        sizes[stage] = sizes.get(stage, 0) + size
    of_group[group] = max(sizes, key=sizes.__getitem__) if sizes else None
  stages = {}
  for op in unplaced.ops:
    if op.name in planned:
      group = unplaced.groups.of(op)
      stage_of_group = of_group.setdefault(group, planned[op.name])
      if stage_of_group is not None:
        stages[op] = stage_of_group
  return stages


def _conflict(planned: Mapping[str, int], unplaced: Unplaced) -> str:
  """Returns an error if variables share a device, but not a stage; or ""."""
  for variables in _variables_of_groups(unplaced).values():
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
  unplaced: Unplaced,
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns the variables of each group that has some."""
  by_group: dict[tf.Operation, list[tf.Operation]] = {}
  for variable in op_types.variables_of(unplaced.ops):
    by_group.setdefault(unplaced.groups.of(variable), []).append(variable)
  return by_group
