"""Branches: which ops of a graph may not run in a step.

A v1 `tf.cond` has both branches in the graph. The ops of the one that is not
taken are dead, and so is whatever waits for one of them, up to the `Merge` that
ends the branches. So nothing outside may wait for an op in a branch.
"""

from collections.abc import Sequence

import tensorflow as tf

_SWITCHES = frozenset(["Switch", "RefSwitch"])
_MERGES = frozenset(["Merge", "RefMerge"])
_LOOP_ENDS = frozenset(["NextIteration", "RefNextIteration"])
_ENTERS = frozenset(["Enter", "RefEnter"])
_EXITS = frozenset(["Exit", "RefExit"])


def ops_in_branches(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops that v1 conds and loops run in some cases only.

  The gradient of a branch is one too, though TensorFlow does not mark it. What
  is inside a v1 loop is among them, but not what the loop returns.

  Args:
    ops: The ops of a graph, in the order in which they were made.
  """
  depths: dict[tf.Operation, int] = {}
  if not any(op.type in _SWITCHES for op in ops):
    return set()
  changed = True
  while changed:  # A `Switch` is made after the op in the branch.
    changed = False
    for op in ops:
      depth = _depth(op, depths)
      changed = changed or depth != depths.get(op, 0)
      depths[op] = depth
  return {op for op, depth in depths.items() if depth > (op.type in _SWITCHES)}


def _depth(op: tf.Operation, depths: dict[tf.Operation, int]) -> int:
  """Returns in how many branches the outputs of an op are."""
  # What comes back from the end of a loop's body is as deep as its beginning.
  sources = [t.op for t in op.inputs if t.op.type not in _LOOP_ENDS]
  controls = [
    depths.get(c, 0) - (c.type in _SWITCHES) for c in op.control_inputs
  ]
  depth = max((depths.get(s, 0) for s in sources), default=0)
  if op.type in _SWITCHES:
    depth += 1
  elif op.type in _EXITS or (
    op.type in _MERGES and len(sources) == len(op.inputs)
  ):
    depth -= 1
  return max(0, depth, *controls)


def ops_in_loops(ops: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops of v1 loops, clones of loops too, with both their ends.

  Args:
    ops: The ops of a graph, in the order in which they were made.
  """
  if not any(op.type in _ENTERS for op in ops):
    return set()
  depths: dict[tf.Operation, int] = {}
  changed = True
  while changed:  # Gradients of a loop add ops that the loop itself reads.
    changed = False
    for op in ops:
      depth = _loop_depth(op, depths)
      changed = changed or depth != depths.get(op, 0)
      depths[op] = depth
  return {op for op, depth in depths.items() if depth or op.type in _EXITS}


def _loop_depth(op: tf.Operation, depths: dict[tf.Operation, int]) -> int:
  """Returns in how many loops the outputs of an op are."""
  before = [t.op for t in op.inputs if t.op.type not in _LOOP_ENDS]
  depth = max(
    (depths.get(x, 0) for x in (*before, *op.control_inputs)), default=0
  )
  return max(0, depth + (op.type in _ENTERS) - (op.type in _EXITS))
