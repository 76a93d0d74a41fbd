"""Colocation groups: ops that have to share a device.

TensorFlow refuses, or pays dearly for, some separations:

- a variable and the ops that read, gather from, or assign it;
- ops that are colocated by name (`tf.compat.v1.colocate_with`), but gradients;
- the ops of one v1 loop: a loop whose body spans devices does not colocate its
  gradient, so a loop belongs to one stage as a whole. A functional `While` is
  one op anyway.
"""

from collections.abc import Iterable, Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types, savers
from estimator_mp.graph import variables as variables_lib

import tensorflow as tf

_COLOCATED_WITH = b"loc:@"


class ColocationGroups:
  """A division of ops into groups, by union and find.

  Ops can be added as a graph grows; groups only ever merge.
  """

  def __init__(self) -> None:
    self._parents: dict[tf.Operation, tf.Operation] = {}
    self._by_name: dict[str, tf.Operation] = {}
    # Ops that are colocated with one that is made after them, by its name, as
    # initializers are with their variable.
    self._early: dict[str, list[tf.Operation]] = {}
    self._by_loop: dict[int, tf.Operation] = {}
    self._by_outside_variable: dict[tf.Operation, tf.Operation] = {}

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Adds ops, and merges the groups that they join.

    Args:
      ops: Ops in the order in which they were made. Ops that they are joined
        to but that were never added are left out; a variable among these,
        such as the global step, joins the ops that use it.
    """
    for op in ops:
      self._parents[op] = op
      self._by_name[op.name] = op
      for other in (*self._joined_to(op), *self._early.pop(op.name, ())):
        self._merge(op, other)
      if op_types.is_call(op):
        for first, *others in map(list, variables_lib.used_together(op)):
          for other in others:
            self._merge(first, other)

  def of(self, op: tf.Operation) -> tf.Operation:
    """Returns the op that stands for the group of an op.

    Args:
      op: An op that was added.
    """
    root = op
    while self._parents[root] is not root:
      root = self._parents[root]
    while self._parents[op] is not root:
      self._parents[op], op = root, self._parents[op]
    return root

  def __contains__(self, op: tf.Operation) -> bool:
    return op in self._parents

  def _merge(self, op: tf.Operation, other: tf.Operation) -> None:
    if op in self._parents and other in self._parents:
      self._parents[self.of(op)] = self.of(other)

  def _joined_to(self, op: tf.Operation) -> Iterable[tf.Operation]:
    """Returns earlier ops that an op has to share a device with."""
    # A call may use variables of several devices, if each op of it uses one's.
    is_bound = op.type not in op_types.SAVES and not (
      op_types.is_call(op) and len(variables_lib.used_together(op)) > 1
    )
    for tensor in op.inputs:
      if op_types.is_handle(tensor) and is_bound:
        # The switch of a v1 cond, between the two, is made after its reader.
        variable = variables_lib.variable_of(tensor)
        if variable in self._parents:
          yield variable
        else:
          yield self._by_outside_variable.setdefault(variable, op)
    if op.type in op_types.ASSIGNS and savers.is_restored(op.inputs[1].op):
      yield op.inputs[1].op  # It goes to its variable's device at once.
    for name in () if _is_gradient(op) else colocated_with(op):
      if name in self._by_name:
        yield self._by_name[name]
      else:
        self._early.setdefault(name, []).append(op)
    loop = graph_reads.outermost_loop(op)
    if loop is not None:
      yield self._by_loop.setdefault(id(loop), op)


def _is_gradient(op: tf.Operation) -> bool:
  """Whether an op is of a gradient of `tf.gradients`, or sums several.

  TensorFlow colocates a sum with its first term, and the gradient that reads
  the sum with both: those of all residual blocks, on whatever stages they are.
  """
  if op.type == "AddN":
    return any(graph_reads.differentiated(x.op) is not None for x in op.inputs)
  return graph_reads.differentiated(op) is not None


def colocated_with(op: tf.Operation) -> list[str]:
  """Returns the names of the ops that an op is colocated with, or its own.

  Args:
    op: The op. The initializer of a variable names the variable, which is made
      after it.
  """
  groups = graph_reads.colocation_groups(op)
  return [x.removeprefix(_COLOCATED_WITH).decode() for x in groups] or [op.name]


def ops_colocated_with(
  variables: Sequence[tf.Operation],
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns the ops that have to be where a variable is, and itself.

  The shape of a lookup's gradient, say, is colocated with the lookup.

  Args:
    variables: The ops of variables of one graph.

  Returns:
    The ops of each variable.
  """
  groups = {v: [v, *variables_lib.users(v.outputs[0])] for v in variables}
  by_name = {op.name: v for v, bound in groups.items() for op in bound}
  by_name |= {v.name: v for v in variables}
  for op in variables[0].graph.get_operations() if variables else ():
    for name in colocated_with(op):
      if name in by_name and name != op.name:
        groups[by_name[name]].append(op)
        by_name.setdefault(op.name, by_name[name])
  return groups
