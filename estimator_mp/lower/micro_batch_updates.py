"""Updates of variables by each micro-batch, one after the other.

Batch normalisation updates its moving averages from what it sees. By default
that happens once per batch; here it happens for each micro-batch, as if these
were batches: what reads the variable, and what writes it, is cloned, and waits
until the micro-batch before has written.

The first micro-batch comes last: its update is the one that model_fn knows and
runs, so that the others are run with it.
"""

from collections.abc import Sequence

from compat.private import graph_edits
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import op_types, traversal
from estimator_mp.pipeline import slices

import tensorflow as tf


def repeat_updates(
  ops: Sequence[tf.Operation],
  done: set[tf.Operation],
  finder: slices.SliceFinder,
  clones: clones_lib.Clones,
) -> list[tf.Operation]:
  """Lets each micro-batch make the updates that depend on its features.

  Args:
    ops: All ops that are no clones, in the order of the graph.
    done: Those that were cloned already.
    finder: Says what differs between micro-batches.
    clones: Gets the clones of the updates.

  Returns:
    The ops that were cloned.
  """
  writes = [
    op
    for op in ops
    if op not in done
    and op_types.is_write(op)
    and any(finder.differs(tensor) for tensor in op.inputs)
  ]
  paths = {op: _path(op, done, finder, clones) for op in writes}
  cloned = [op for op in ops if any(op in path for path in paths.values())]
  clones.add(cloned)
  last: dict[tf.Operation, list[tf.Operation]] = {}
  for micro_batch in [*range(1, clones.count + 1), 0]:
    for write in writes:
      variable = write.inputs[0].op
      turn = [op for op in paths[write] if op is write or _reads(op, variable)]
      copies = [
        op if micro_batch == 0 else clones.op(micro_batch - 1, op)
        for op in turn
      ]
      for copy in copies:
        graph_edits.add_control_inputs(copy, last.get(variable, []))
    for write in writes:
      copy = write if micro_batch == 0 else clones.op(micro_batch - 1, write)
      last[write.inputs[0].op] = [copy]
  return cloned


def _path(
  write: tf.Operation,
  done: set[tf.Operation],
  finder: slices.SliceFinder,
  clones: clones_lib.Clones,
) -> set[tf.Operation]:
  """Returns what an update is made of: what differs, and its variable's value.

  Raises:
    ValueError: If something else reads that value by the same op.
  """
  variable = write.inputs[0].op

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [
      x.op
      for x in (() if _reads(op, variable) else op.inputs)
      # Inputs are in `clones`: what cuts a batch is there once.
      if x.op not in done
      and x not in clones
      and (finder.differs(x) or _is_made_of(x, variable))
    ]

  path = set(traversal.walk([write], before))
  for op in path:
    readers = op.outputs[0].consumers() if _reads(op, variable) else []
    others = [reader for reader in readers if reader not in path]
    if others:
      raise ValueError(
        f"{write.name} updates {variable.name} by {op.name}, which "
        f"{others[0].name} reads, too, so micro-batches cannot update it one "
        'after the other; use batch_norm="deferred", or let each read the '
        "variable by itself (tf.identity of it)"
      )
  return path


def _is_made_of(tensor: tf.Tensor, variable: tf.Operation) -> bool:
  """Whether a tensor is computed from the value of a variable."""

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [] if op.op_def.is_stateful else traversal.inputs(op)

  return any(_reads(op, variable) for op in traversal.walk([tensor.op], before))


def _reads(op: tf.Operation, variable: tf.Operation) -> bool:
  """Whether an op gets the value of a variable."""
  is_read = op.type in ("ReadVariableOp", "Identity")
  return is_read and op.inputs[0].op is variable
