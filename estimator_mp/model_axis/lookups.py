"""Lookups: those of one table that share an exchange of rows.

All of a slice that can: those whose ids are known before any part of the model
is split. One whose ids follow from rows of the same table cannot, nor can one
in a branch, which may not run.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

from estimator_mp.graph import op_types
from estimator_mp.model_axis.decisions import Decision, LookUp

import tensorflow as tf


def together(
  ops: Sequence[tf.Operation],
  decisions: Mapping[tf.Operation, Decision],
  place: Callable[[tf.Operation], Hashable],
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns for each lookup those that share its exchange, itself among them.

  Args:
    ops: Ops of the model, in the order of the graph.
    decisions: The decisions about them.
    place: Returns where an op's rows are wanted.
  """
  found: dict[Hashable, list[tf.Operation]] = {}
  groups: dict[tf.Operation, list[tf.Operation]] = {}
  apart: set[tf.Operation] = set()
  for op in ops:
    decision = decisions.get(op)
    before = [*(tensor.op for tensor in op.inputs[1:]), *op.control_inputs]
    if isinstance(decision, LookUp):
      key: Hashable = op
      if apart.isdisjoint(before):
        key = op.inputs[0].name, frozenset(op.control_inputs), place(op)
      groups[op] = found.setdefault(key, [])
      groups[op].append(op)
    inputs = (tensor.op for tensor in op.inputs)
    if (
      decision is not None
      or op.type in op_types.SWITCHES
      or not apart.isdisjoint(inputs)
      or not apart.isdisjoint(op.control_inputs)
    ):
      apart.add(op)
  return groups
