"""Control flow of TensorFlow 1: ops of a graph that may not run in a step.

A v1 `tf.cond` has both branches in the graph. The ops of the one that is not
taken are dead, and so is whatever waits for one of them, up to the `Merge` that
ends the branches. So nothing outside may wait for an op in a branch.
"""

import collections
from collections.abc import Callable, Collection, Sequence

from estimator_mp.graph import op_types, traversal

import tensorflow as tf

_Depths = dict[tf.Operation, int]


def ops_in_branches(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops that v1 conds and loops run in some cases only.

  The gradient of a branch is one too, though TensorFlow does not mark it. Ops
  inside a v1 loop are among them, but not the loop's results.

  Args:
    ops: The ops of a graph, in the order in which they were made.
  """
  switches = {op for op in ops if op.type in op_types.SWITCHES}
  if not switches:
    return set()
  depths = _stable_depths(ops, switches, _depth)
  return {op for op, depth in depths.items() if depth > (op in switches)}


def _depth(op: tf.Operation, depths: _Depths) -> int:
  """Returns in how many branches the outputs of an op are."""
  inputs = _inputs_from_before(op)
  controls = [
    depths.get(c, 0) - (c.type in op_types.SWITCHES) for c in op.control_inputs
  ]
  depth = max((depths.get(x, 0) for x in inputs), default=0)
  if op.type in op_types.SWITCHES:
    depth += 1
  elif op.type in op_types.EXITS or (
    op.type in op_types.MERGES and len(inputs) == len(op.inputs)
  ):
    depth -= 1
  return max(0, depth, *controls)


def ops_in_loops(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops of v1 loops, clones of loops too, with both their ends.

  Args:
    ops: The ops of a graph, in the order in which they were made.
  """
  enters = {op for op in ops if op.type in op_types.ENTERS}
  if not enters:
    return set()
  depths = _stable_depths(ops, enters, _loop_depth)
  return {op for op in ops if depths[op] or op.type in op_types.EXITS}


def _loop_depth(op: tf.Operation, depths: _Depths) -> int:
  """Returns in how many loops the outputs of an op are."""
  before = [*_inputs_from_before(op), *op.control_inputs]
  depth = max((depths.get(x, 0) for x in before), default=0)
  is_begin, is_end = op.type in op_types.ENTERS, op.type in op_types.EXITS
  return max(0, depth + is_begin - is_end)


def _inputs_from_before(op: tf.Operation) -> list[tf.Operation]:
  """Returns the inputs of an op, but for those back from a loop's end.

  These are as deep as the loop's beginning.
  """
  inputs = traversal.inputs(op)
  return [x for x in inputs if x.type not in op_types.NEXT_ITERATIONS]


def _stable_depths(
  ops: Sequence[tf.Operation],
  starts: Collection[tf.Operation],
  depth_of: Callable[[tf.Operation, _Depths], int],
) -> _Depths:
  """Returns the depths of ops, each by those of its sources.

  Args:
    ops: The ops.
    starts: Those that are deeper than what they read; all others follow.
    depth_of: Returns the depth of an op by those of others.
  """
  depths = dict.fromkeys(ops, 0)
  waiting = collections.defaultdict(list)
  for op in ops:
    for before in op.control_inputs:
      waiting[before].append(op)
  # No order of ops is right: a `Switch` is made after the op in the branch, and
  # the gradient of a loop adds ops that the loop itself reads.
  todo = collections.deque(op for op in ops if op in starts)
  while todo:
    op = todo.popleft()
    depth = depth_of(op, depths)
    if depth != depths[op]:
      depths[op] = depth
      readers = (x for x in traversal.consumers(op) if x in depths)
      todo.extend([*readers, *waiting.get(op, ())])
  return depths
