"""Rules: placement by the names of variables and ops.

A rule is a regular expression and a stage. The first rule whose expression is
found in the name of a variable or op says where it goes, like the partition
rules by parameter name of GSPMD programs.
"""

import re
from collections.abc import Callable, Sequence

from compat.private import graph_reads
from estimator_mp.config.sharding_options import PlacementRule
from estimator_mp.graph import colocation, op_types
from estimator_mp.placement.unplaced import Stages, Unplaced

import tensorflow as tf


def stages_of(
  unplaced: Unplaced,
  rules: Sequence[PlacementRule],
  unmatched: Callable[[ValueError], None],
) -> Stages:
  """Returns the stages of the ops that a rule matches.

  Where a variable and the ops that read or initialise it match different rules,
  the variable's rule counts: its ops have to be where it is. Where ops were
  colocated, as the branches of a v1 cond are with their inputs, the first one's
  rule counts.

  Args:
    unplaced: The ops.
    rules: The rules in order; the first one that matches a name counts.
    unmatched: Raises the error of a rule that matches nothing, unless the graph
      may lack a part of the model.

  Raises:
    ValueError: If two rules put parts of one group on different stages, a rule
      matches nothing, or a trainable variable is matched by none.
  """
  _check_coverage(unplaced.model, rules, unmatched)
  ops, groups = unplaced.ops, unplaced.groups
  matched_by = _matches(rules, ops)
  initial = _initializers(ops)
  matched_by = {op: i for op, i in matched_by.items() if op not in initial}
  variables = op_types.variables_of(list(matched_by))
  of_variables = {groups.of(op) for op in variables}
  first: dict[tf.Operation, tf.Operation] = {}
  for op, index in matched_by.items():
    group = groups.of(op)
    if group in of_variables and not op_types.is_variable(op):
      continue
    other = first.setdefault(group, op)
    other_rule, rule = rules[matched_by[other]], rules[index]
    is_firm = op_types.is_variable(op) or graph_reads.outermost_loop(op)
    if is_firm and other_rule[1] != rule[1]:
      raise ValueError(
        f"placement rules {other_rule!r} and {rule!r} are in conflict: "
        f"{other.name!r} and {op.name!r} share a device (a variable with its "
        "ops, a loop or a colocation group) and belong to one stage"
      )
  return {op: rules[matched_by[first[groups.of(op)]]][1] for op in matched_by}


def _check_coverage(
  model: Sequence[tf.Operation],
  rules: Sequence[PlacementRule],
  unmatched: Callable[[ValueError], None],
) -> None:
  """Raises if rules and a model do not cover each other."""
  variables = op_types.variables_of(model)
  for rule in rules:
    if not any(re.search(rule[0], op.name) for op in model):
      names = ", ".join(op.name for op in variables[:3])
      unmatched(
        ValueError(
          f"placement rule {rule!r} matches no variable or op of the model; "
          f"its variables are such as {names}"
        )
      )
  trainable = {v.op.name for v in tf.compat.v1.trainable_variables()}
  matched_by = _matches(rules, variables)
  for op in variables:
    if op.name in trainable and op not in matched_by:
      raise ValueError(
        f"variable {op.name!r} is matched by none of the {len(rules)} "
        "placement rule(s); add a rule for it, the last one may be "
        '(".*", stage)'
      )


def _initializers(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops that initialize variables: these share their group."""
  names = {op.name for op in op_types.variables_of(ops)}
  return {
    op
    for op in ops
    if not op_types.is_variable(op)
    and not names.isdisjoint(colocation.colocated_with(op))
  }


def _matches(
  rules: Sequence[PlacementRule], ops: Sequence[tf.Operation]
) -> dict[tf.Operation, int]:
  """Returns the index of the first rule that matches each op."""
  expressions = [re.compile(expression) for expression, _ in rules]
  matched_by = {}
  for op in ops:
    for index, expression in enumerate(expressions):
      if expression.search(op.name):
        matched_by[op] = index
        break
  return matched_by
