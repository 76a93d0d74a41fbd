"""Updates of variables that each micro-batch makes itself, as data.

Batch normalisation updates its moving averages from what it sees. By default
that happens once per batch; here it happens for each micro-batch, as if these
were batches: what reads the variable, and what writes it, is there for each of
them, and waits until the one before has written.

What each replica repeats, with the gradients of the whole batch, is something
else: see `replicas.replica_updates`.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence

from estimator_mp.graph import op_types, traversal

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class MicroBatchUpdate:
  """An update of a variable.

  Attributes:
    write: The op that writes the variable.
    turn: What waits until the micro-batch before has written it: the write, and
      what it reads of the variable.
  """

  write: tf.Operation
  turn: Sequence[tf.Operation]

  @property
  def variable(self) -> tf.Operation:
    """The variable."""
    return self.write.inputs[0].op


@dataclasses.dataclass(frozen=True)
class MicroBatchUpdates:
  """The updates that each micro-batch makes.

  Attributes:
    ops: All that they are made of, in the order of the graph.
    updates: The updates, in the same order.
  """

  ops: Sequence[tf.Operation]
  updates: Sequence[MicroBatchUpdate]


def plan_micro_batch_updates(
  ops: Sequence[tf.Operation],
  done: Collection[tf.Operation],
  differs: Callable[[tf.Tensor], bool],
  is_cloned: Callable[[tf.Tensor], bool],
) -> MicroBatchUpdates:
  """Returns the updates that depend on what a micro-batch sees.

  Args:
    ops: All ops that are no clones, in the order of the graph.
    done: Those that each micro-batch has already.
    differs: Says whether a tensor differs between micro-batches.
    is_cloned: Says whether each micro-batch has its own of a tensor, even if
      the op that cuts the batch is there once.

  Raises:
    ValueError: If something else reads what an update reads of its variable.
  """
  found: set[tf.Operation] = set()
  updates = []
  for write in ops:
    if (
      write in done
      or not op_types.is_write(write)
      or not any(differs(tensor) for tensor in write.inputs)
    ):
      continue
    made_of = _made_of(write, done, differs, is_cloned)
    variable = write.inputs[0].op
    reads = [op for op in ops if op in made_of and _reads(op, variable)]
    _check_readers(write, reads, made_of)
    found |= made_of
    updates.append(MicroBatchUpdate(write, [*reads, write]))
  return MicroBatchUpdates([op for op in ops if op in found], updates)


def _made_of(
  write: tf.Operation,
  done: Collection[tf.Operation],
  differs: Callable[[tf.Tensor], bool],
  is_cloned: Callable[[tf.Tensor], bool],
) -> set[tf.Operation]:
  """Returns what an update is made of: what differs, and its variable's value.

  What each micro-batch has already is left out.
  """
  variable = write.inputs[0].op

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [
      x.op
      for x in (() if _reads(op, variable) else op.inputs)
      if x.op not in done
      and not is_cloned(x)
      and (differs(x) or _is_made_of(x, variable))
    ]

  return set(traversal.walk([write], before))


def _check_readers(
  write: tf.Operation,
  reads: Sequence[tf.Operation],
  made_of: Collection[tf.Operation],
) -> None:
  """Raises if others read what an update reads of its variable."""
  for read in reads:
    for reader in read.outputs[0].consumers():
      if reader not in made_of:
        raise ValueError(
          f"{write.name} updates {write.inputs[0].op.name} by {read.name}, "
          f"which {reader.name} reads, too, so micro-batches cannot update it "
          'one after the other; use batch_norm="deferred", or let each read '
          "the variable by itself (tf.identity of it)"
        )


def _is_made_of(tensor: tf.Tensor, variable: tf.Operation) -> bool:
  """Whether a tensor is computed from the value of a variable."""

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [] if op.op_def.is_stateful else traversal.inputs(op)

  return any(_reads(op, variable) for op in traversal.walk([tensor.op], before))


def _reads(op: tf.Operation, variable: tf.Operation) -> bool:
  """Whether an op gets the value of a variable."""
  is_read = op.type in op_types.WHOLE_READS
  return is_read and op.inputs[0].op is variable
