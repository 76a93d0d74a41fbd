"""Effects: what a step leaves behind besides its loss.

A variable that is written, a queue that is fed, or a Python function that is
called from the graph has to see the whole batch, even if the loss does not.
"""

from collections.abc import Iterable, Mapping, Sequence

from estimator_mp.graph import op_types, traversal
from estimator_mp.graph import variables as variables_lib

import tensorflow as tf


def has_effect(op: tf.Operation) -> bool:
  """Whether an op leaves something behind, or tells somebody.

  Args:
    op: An op.
  """
  if op.type in op_types.REPORTS:
    return False
  return op_types.is_write(op) or op_types.has_own_state(op)


def leading_to_effects(
  ops: Iterable[tf.Operation], ends: Sequence[tf.Operation]
) -> Mapping[tf.Operation, Sequence[str]]:
  """Returns the ops that lead to an effect of a training step.

  Args:
    ops: Ops that are there once, in the order of the graph.
    ends: What a training step runs.

  Returns:
    For each op the names of the variables that it leads to, or of ops that
    have another effect.
  """
  inside = list(ops)
  running = traversal.ops_run_with(*ends)
  found: dict[tf.Operation, dict[str, None]] = {}
  for op in inside:
    if op in running and op.inputs and (op in ends or has_effect(op)):
      found[op] = {_changed_by(op): None}
  for op in reversed(inside):
    for tensor in op.inputs if op in found else ():
      if not has_effect(tensor.op):
        found.setdefault(tensor.op, {}).update(found[op])
  return {op: list(names) for op, names in found.items()}


def _changed_by(op: tf.Operation) -> str:
  """Returns the name of the variable that an op writes, or of the op."""
  variable = variables_lib.variable_of(op.inputs[0])
  return str(variable.name if op_types.is_variable(variable) else op.name)
