"""Savers: ops by which a graph writes checkpoints, and reads them.

model_fn may make them itself: a Saver of averages, `init_from_checkpoint`. They
touch every variable, and so they say nothing of where anything belongs: their
numbered names (`save/AssignVariableOp_5`) mean other variables in other graphs,
and the "/cpu:0" that TensorFlow gives some of them is the host's, no stage's.
They follow the variables; those with strings run on the host.
"""

from collections.abc import Iterable, Sequence

from compat.private import op_registry
from estimator_mp.graph import op_types, traversal

import tensorflow as tf

_PASSES_ON = frozenset(["Identity", "Reshape"])
_ENDS = frozenset(["Identity", "NoOp"])


def saver_ops(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns those ops that belong to Savers.

  Args:
    ops: Ops in the order in which they were made, a Saver's all at once.

  Returns:
    The ops that save and restore, those that lead to these alone, those that
    take a restored value to its variable, and those that wait until all is
    saved.
  """
  members = {op for op in ops if op.type in op_types.SAVER_OPS}
  if not members:
    return members
  for op in ops:
    waits_for = op.control_inputs
    is_end = op.type in _ENDS and waits_for and members.issuperset(waits_for)
    if is_end or is_restored(op):
      members.add(op)
  for op in reversed(ops):
    consumers = traversal.consumers(op)
    is_value = (
      op.type == "ReadVariableOp"
      or not op_registry.definition_of(op).is_stateful
    )
    if is_value and consumers and members.issuperset(consumers):
      members.add(op)
  return members


def work_on_variables(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
  """Returns those ops of Savers that have to be where their variable is.

  They may have the device of the block that the Saver was made in.

  Args:
    ops: Ops of Savers.
  """
  return [
    op
    for op in ops
    if op.type in op_types.ASSIGNS or op.type == "ReadVariableOp"
  ]


def is_restored(op: tf.Operation) -> bool:
  """Whether an op passes on a value of a checkpoint, or assigns it.

  Args:
    op: An op. One that computes something else with it is none of these.
  """
  if op.type in op_types.ASSIGNS:
    source = op.inputs[1].op
  elif op.type in _PASSES_ON:
    source = op.inputs[0].op
  else:
    return False
  while source.type in _PASSES_ON:
    source = source.inputs[0].op
  return source.type in op_types.RESTORES
