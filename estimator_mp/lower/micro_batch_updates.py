"""Updates of variables by each micro-batch, one after the other.

The first micro-batch comes last: its update is the one that model_fn knows and
runs, so that the others are run with it.
"""

from compat.private import graph_edits
from estimator_mp.graph import clones as clones_lib
from estimator_mp.pipeline import micro_batch_updates

import tensorflow as tf


def repeat_for_micro_batches(
  plan: micro_batch_updates.MicroBatchUpdates, clones: clones_lib.Clones
) -> None:
  """Lets each micro-batch make updates after the one before.

  Args:
    plan: The updates.
    clones: Gets the clones of the updates.
  """
  clones.add(plan.ops)
  last: dict[tf.Operation, tf.Operation] = {}
  for micro_batch in [*range(1, clones.count + 1), 0]:
    for update in plan.updates:
      if update.variable in last:
        for op in update.turn:
          own = _own(op, micro_batch, clones)
          graph_edits.add_control_inputs(own, [last[update.variable]])
    for update in plan.updates:
      last[update.variable] = _own(update.write, micro_batch, clones)


def _own(
  op: tf.Operation, micro_batch: int, clones: clones_lib.Clones
) -> tf.Operation:
  """Returns what stands for an op in a micro-batch."""
  return clones.op(micro_batch - 1, op) if micro_batch else op
