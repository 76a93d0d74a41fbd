"""Groups of ops that one function can compute.

An op can be part of a function if it computes the same of the same inputs
wherever it is: it has no state, calls no other function, and is no part of a
loop or branch of TensorFlow 1, nor of the gradient of a branch: if one input of
a call is dead, so is all that it returns. A group of them can be one function
if whatever leaves the group never comes back to it, as a function starts when
all that it reads is there.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence

from compat.private import graph_reads, op_registry
from estimator_mp.graph import control_flow, op_types, traversal
from estimator_mp.graph.calls import functions

import tensorflow as tf

_HANDLES = (tf.resource, tf.variant)

# A group of fewer ops is not worth a call.
_FEWEST_OPS = 4


def groups_of(
  ops: Sequence[tf.Operation],
  keys: Mapping[tf.Operation, Hashable],
) -> dict[tf.Operation, Hashable]:
  """Returns the group of each op that one function can compute with others.

  An op is as deep as the number of groups that it comes after. So nothing
  leads from a group to itself but by ops of it, whose depth is the same.

  Args:
    ops: Ops, in the order of the graph.
    keys: Only ops of one key can be in one group; ops without one are in none.
  """
  inside = set(ops)
  graph = next((op.graph for op in ops), None)
  dead = control_flow.ops_in_branches(graph.get_operations() if graph else ())
  kinds = {
    op: keys[op]
    for op in ops
    if op in keys and op not in dead and may_be_called(op)
  }
  groups = _if_free_of_cycles(ops, inside, kinds)
  if groups is None:
    groups = _by_depth(ops, inside, kinds)
  sizes: dict[Hashable, int] = {}
  for group in groups.values():
    sizes[group] = sizes.get(group, 0) + 1
  return {op: g for op, g in groups.items() if sizes[g] >= _FEWEST_OPS}


def may_be_called(op: tf.Operation) -> bool:
  """Whether a function can compute an op, which is in no v1 branch.

  Args:
    op: An op.
  """
  if op.type in op_types.V1_CONTROL_FLOW or op.type in op_types.RANDOM:
    return False
  if graph_reads.outermost_loop(op) is not None:
    return False
  if op_registry.is_stateful(op.type) or functions.functions_of(op.node_def):
    return False
  return not any(
    tensor.dtype in _HANDLES or tensor.dtype != tensor.dtype.base_dtype
    for tensor in (*op.inputs, *op.outputs)
  )


def _if_free_of_cycles(
  ops: Sequence[tf.Operation],
  inside: Collection[tf.Operation],
  kinds: Mapping[tf.Operation, Hashable],
) -> dict[tf.Operation, Hashable] | None:
  """Returns one group for each kind; None if some would wait for each other."""
  before: dict[Hashable, set[Hashable]] = {}
  for op in ops:
    own = kinds.get(op, op)
    known = before.setdefault(own, set())
    for source in traversal.sources(op):
      if source in inside and kinds.get(source, source) != own:
        known.add(kinds.get(source, source))
  after: dict[Hashable, list[Hashable]] = {}
  for own, sources in before.items():
    for source in sources:
      after.setdefault(source, []).append(own)
  missing = {own: len(sources) for own, sources in before.items()}
  ready = [own for own, count in missing.items() if not count]
  num_done = 0
  while ready:
    num_done += 1
    for own in after.get(ready.pop(), ()):
      missing[own] -= 1
      if not missing[own]:
        ready.append(own)
  return dict(kinds) if num_done == len(before) else None


def _by_depth(
  ops: Sequence[tf.Operation],
  inside: Collection[tf.Operation],
  kinds: Mapping[tf.Operation, Hashable],
) -> dict[tf.Operation, Hashable]:
  """Returns groups by kind and depth; see `groups_of`."""
  depths: dict[tf.Operation, int] = {}
  for op in traversal.in_order(ops):
    kind = kinds.get(op)
    depths[op] = max(
      (
        depths[source] + (kind is None or kinds.get(source) != kind)
        for source in traversal.sources(op)
        if source in inside and source in depths
      ),
      default=0,
    )
  return {op: (kind, depths[op]) for op, kind in kinds.items()}
