"""Repeated updates: each replica changes its own copy of the weights.

Every replica has the sum of the gradients, so each can do the optimizer's work
by itself: what lies between the gradients and the writes of mirrored variables
is cloned for each replica, and the optimizer's slots with it. Scalars (learning
rates, norms for clipping), random numbers and whatever else has a state are
computed once, in replica 0, so that all replicas stay equal.

An update that cannot be repeated (in a branch of a v1 `cond`, or in a function)
is left to `mirrors`, which copies the variable after it.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import control_flow, op_types, traversal
from estimator_mp.graph import variables as variables_lib

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Updates:
  """The ops of updates that each replica can repeat.

  Attributes:
    ops: The ops to clone, in the order of the graph.
    slots: The variables among them, such as an optimizer's slots; first.
    writes: The writes among them.
  """

  ops: list[tf.Operation]
  slots: list[tf.Operation]
  writes: list[tf.Operation]


def find_updates(
  ops: Sequence[tf.Operation],
  variables: Sequence[tf.Operation],
  has_copies: Collection[str],
) -> Updates:
  """Finds the updates of variables that each replica can repeat.

  Args:
    ops: The ops that are not part of a forward or backward pass, in the order
      of the graph, without those that give variables their first values.
    variables: The variables that replicas have mirrors of.
    has_copies: The names of other tensors that replicas have copies of, such
      as sums of gradients.
  """
  graph = tf.compat.v1.get_default_graph()
  inner = control_flow.ops_in_branches(graph.get_operations())
  inner |= {op for op in ops if graph_reads.outermost_loop(op) is not None}
  rest = {op for op in ops if op not in inner}
  writes = _writes(ops)
  slots = _slots(variables, writes, rest, has_copies)
  kept = {
    variable
    for variable in (*variables, *slots)
    if all(
      op in rest and op_types.is_write(op) for op in writes.get(variable, ())
    )
  }

  def before(op: tf.Operation) -> set[tf.Operation]:
    """Returns the variables that an op gets the handles of."""
    found = map(variables_lib.variable_of, op.inputs)
    return {variable for variable in found if variable.type == "VarHandleOp"}

  # All variables of a write are repeated, or none.
  while apart := {
    variable
    for variable in kept
    for op in writes.get(variable, ())
    if not before(op) <= kept
  }:
    kept -= apart
  repeated = {op for variable in kept for op in writes.get(variable, ())}
  roots = {v.outputs[0].name for v in kept.union(variables)}.union(has_copies)
  differing = _differing(ops, rest, repeated, roots)
  needed = traversal.ancestors(repeated, differing)
  slots = [variable for variable in slots if variable in kept]
  return Updates(
    [*slots, *needed], slots, [op for op in needed if op in repeated]
  )


def _writes(
  ops: Sequence[tf.Operation],
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns the ops that may write each variable, but for references."""
  writes: dict[tf.Operation, list[tf.Operation]] = {}
  for op in ops:
    for variable in variables_lib.written_variables(op):
      if variable.type == "VarHandleOp":
        writes.setdefault(variable, []).append(op)
  return writes


def _slots(
  variables: Sequence[tf.Operation],
  writes: Mapping[tf.Operation, Sequence[tf.Operation]],
  rest: Collection[tf.Operation],
  has_copies: Collection[str],
) -> list[tf.Operation]:
  """Returns the other variables that writes of variables read or write."""

  def slots_of(op: tf.Operation) -> list[tf.Operation]:
    return [
      source
      for source in traversal.inputs(op)
      if source.type == "VarHandleOp"
      and source in writes
      and tf.TensorShape(source.get_attr("shape")).rank != 0  # Not a scalar.
    ]

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [
      *(write for slot in slots_of(op) for write in writes[slot]),
      *(
        tensor.op
        for tensor in op.inputs
        if tensor.op in rest
        and tensor.name not in has_copies
        and tensor.shape.rank != 0
      ),
    ]

  first = [op for variable in variables for op in writes.get(variable, ())]
  found = dict.fromkeys(
    slot for op in traversal.walk(first, before) for slot in slots_of(op)
  )
  return [slot for slot in found if slot not in variables]


def _differing(
  ops: Sequence[tf.Operation],
  rest: Collection[tf.Operation],
  repeated: Collection[tf.Operation],
  roots: Collection[str],
) -> Collection[tf.Operation]:
  """Returns the ops that each replica can have a clone of."""
  found: dict[tf.Operation, None] = {}  # In order.
  for op in ops:
    is_pure = not op.op_def.is_stateful or op.type in op_types.VARIABLE_READS
    is_large = any(t.shape.rank != 0 for t in op.outputs)
    if op in repeated or (
      op in rest
      and is_pure
      and is_large
      and any(t.name in roots or t.op in found for t in op.inputs)
    ):
      found[op] = None
  return found
