"""Repeated updates: each replica changes its own copy of the weights.

Every replica has the sum of the gradients, so each can do the optimizer's work
by itself: the ops between the gradients and the writes of mirrored variables
are cloned for each replica, and the optimizer's slots with them. Scalars
(learning rates, norms for clipping), random ops and others with a state are
computed once, in replica 0, so that all replicas stay equal.

An update that cannot be repeated (in a branch of a v1 `cond`, or in a function)
is left to `mirrors`, which copies the variable after it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import control_flow, op_types, traversal
from estimator_mp.graph import variables as variables_lib
from estimator_mp.graph.clones import Clones

import tensorflow as tf

_Writes = Mapping[tf.Operation, Sequence[tf.Operation]]


def find_updates(
  ops: Sequence[tf.Operation],
  variables: Sequence[tf.Operation],
  copied: Clones,
) -> list[tf.Operation]:
  """Finds the updates of variables that each replica can repeat.

  Args:
    ops: The ops that are not part of a forward or backward pass, in the order
      of the graph, without those that give variables their first values.
    variables: The variables that replicas have mirrors of.
    copied: The copies that replicas have, such as sums of gradients.

  Returns:
    The ops to clone: variables, such as an optimizer's slots, and then writes,
    and their sources, in the order of the graph.
  """
  graph = tf.compat.v1.get_default_graph()
  inner = control_flow.ops_in_branches(graph.get_operations())
  inner |= {op for op in ops if graph_reads.outermost_loop(op) is not None}
  able = {op for op in ops if op not in inner}
  writes: dict[tf.Operation, list[tf.Operation]] = {}
  for op in ops:
    for variable in variables_lib.written_variables(op):
      if variable.type == "VarHandleOp":
        writes.setdefault(variable, []).append(op)

  def values(op: tf.Operation) -> list[tf.Operation]:
    """Returns the inputs of an op that each replica can compute."""
    return [
      x.op
      for x in op.inputs
      if x.op in able and x.shape.rank != 0 and x not in copied
      if not x.op.op_def.is_stateful or x.op.type in op_types.VARIABLE_READS
    ]

  first = [op for variable in variables for op in writes.get(variable, ())]
  repeated = _repeated(first, variables, writes, able, values)
  known = set(variables)
  slots = [x for x in repeated if x not in known]
  of_writes = {op for x in repeated for op in writes.get(x, ())}
  needed = {*traversal.walk(of_writes, values)}
  within = [op for op in ops if op in needed]
  differing = traversal.descendants(
    [
      op
      for op in within
      if any(x in copied or x.op in repeated for x in op.inputs)
    ],
    within,
  )
  return [*slots, *differing]


def _repeated(
  first: Sequence[tf.Operation],
  variables: Sequence[tf.Operation],
  writes: _Writes,
  able: Collection[tf.Operation],
  values: Callable[[tf.Operation], Sequence[tf.Operation]],
) -> Collection[tf.Operation]:
  """Returns the variables, slots among them, that each replica can update.

  Args:
    first: The writes of variables.
    variables: The variables.
    writes: The ops that may write each variable, but for references.
    able: The ops that a replica may repeat.
    values: Returns the ops whose results an op reads.
  """

  def used(op: tf.Operation) -> list[tf.Operation]:
    """Returns the variables that an op gets the handles of."""
    states = map(variables_lib.variable_of, op.inputs)
    return [x for x in states if x.type == "VarHandleOp"]

  def is_slot(variable: tf.Operation) -> bool:
    is_scalar = tf.TensorShape(variable.get_attr("shape")).rank == 0
    return variable in writes and not is_scalar

  def before(op: tf.Operation) -> list[tf.Operation]:
    slots = filter(is_slot, used(op))
    return [*(x for slot in slots for x in writes[slot]), *values(op)]

  reached = [*traversal.walk(first, before)]
  slots = [x for op in reached for x in used(op) if is_slot(x)]
  updated = dict.fromkeys(
    x
    for x in (*variables, *slots)
    if all(op in able and op_types.is_write(op) for op in writes.get(x, ()))
  )
  # All variables of a write are repeated, or none.
  while apart := [
    x
    for x in updated
    for op in writes.get(x, ())
    if not updated.keys() >= {*used(op)}
  ]:
    for variable in dict.fromkeys(apart):
      del updated[variable]
  return updated.keys()
