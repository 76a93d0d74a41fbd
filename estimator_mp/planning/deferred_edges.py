"""Deferred edges: waits that move from slices to later ops.

    with tf.control_dependencies(updates_of_moving_averages):
      train_op = optimizer.minimize(loss)

Here each op of the gradients waits for updates that read the results of all
slices, so none could begin before all slices had passed forward. The time at
which an op without state is executed does not change its result. So its control
dependency moves on: to ops that read it and have state, or are executed once.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from compat.private import op_registry
from estimator_mp.graph import control_edges, op_types, traversal
from estimator_mp.graph.control_edges import ControlEdges

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class DeferredEdges:
  """Control dependencies of the ops of a step.

  Attributes:
    waits: The control inputs of each op.
    late: For ops that do not wait, the ops that are to be over before somebody
      else sees their results.
  """

  waits: ControlEdges
  late: Mapping[tf.Operation, Sequence[tf.Operation]]


def plan_waits(
  ops: Sequence[tf.Operation],
  in_slices: Collection[tf.Operation],
  bound: Collection[tf.Operation],
) -> DeferredEdges:
  """Decides the control inputs of ops.

  Args:
    ops: The ops of a step, each after those that it reads or waits for.
    in_slices: Those that each slice has, and that something waits for.
    bound: Those that keep their control inputs, which say whether they are
      executed: in branches and loops.
  """
  needed = set(traversal.ancestors(in_slices, ops))
  waits = ControlEdges()
  after: set[tf.Operation] = set()  # Ops that wait for slices, executed once.
  late: dict[tf.Operation, tuple[tf.Operation, ...]] = {}
  # Nothing has to wait for an op without side effects.
  effective: set[tf.Operation] = set()
  for op in ops:
    awaited = traversal.control_inputs(op)
    sources = [*traversal.inputs(op), *awaited]
    if _has_effect(op) or not effective.isdisjoint(sources):
      effective.add(op)
    inherited = dict.fromkeys(
      x for source in sources for x in late.get(source, ())
    )
    # An op that is executed once for all slices waits for none of them either.
    is_once = op not in in_slices
    dropped = [x for x in awaited if x in after or (is_once and x in in_slices)]
    # An op in a loop, or a branch, never waits for ops outside.
    is_entry = op.type in op_types.ENTERS or op.type in op_types.SWITCHES
    is_free = op in needed and op not in bound and not is_entry
    if is_free and _is_without_state(op):
      behind = [*inherited, *(x for x in dropped if x in effective)]
      if behind:
        late[op] = tuple(dict.fromkeys(behind))
      if dropped:
        waits.replace(op, [x for x in awaited if x not in dropped])
    elif inherited:
      waits.replace(op, dict.fromkeys([*awaited, *inherited]))
    if is_once and any(x in in_slices or x in after for x in waits.sources(op)):
      after.add(op)
  return DeferredEdges(waits, late)


def _has_effect(op: tf.Operation) -> bool:
  """Whether somebody else may see that an op was executed."""
  if not op_registry.definition_of(op).is_stateful and not any(
    map(op_types.is_handle, op.inputs)
  ):
    return False
  return op.type not in _SEEN_BY_NOBODY


def _is_without_state(op: tf.Operation) -> bool:
  return not (
    op_registry.definition_of(op).is_stateful
    or any(map(op_types.is_reference, op.inputs))
  )


_SEEN_BY_NOBODY = (
  op_types.STATE_READS
  | op_types.REFERENCE_READS
  | op_types.PASSES_HANDLE
  | op_types.ITERATOR_READS
  | op_types.ITERATORS
  | op_types.VARIABLES
  | op_types.FIXED_TABLES
  | op_types.RANDOM
)

OF_THE_GRAPH = DeferredEdges(control_edges.OF_THE_GRAPH, {})
