"""Late reads: plain ops that would read a variable after a step has updated it.

Slices execute the plain ops of a model, so a step runs these for a fetch alone:
that of a hook, or of a summary. One that reads a variable by itself, as a
lookup in a table or a loop does, is not ordered with the update then. So what
reads it reads what slices make instead, which comes before; and it is not
fetched itself. What reads the value that slices read, as of a `ReadVariableOp`,
has the value from before the update as it is; and so has what a step runs, as
for a shape that slices read.
"""

from collections.abc import Collection, Iterable, Mapping

from estimator_mp.graph import op_types, variables
from estimator_mp.plan.batch_plan import Rows
from estimator_mp.plan.finish_plan import LateReads

import tensorflow as tf


def find(
  copies: Mapping[tf.Operation, tf.Operation],
  rows: Mapping[str, Rows],
  step: Iterable[tf.Operation],
) -> LateReads:
  """Returns which ops read too late.

  Args:
    copies: The ops of slice 0 that a step runs, by those of the plain graph, in
      the order of the graph.
    rows: How slices lie in the tensors of the plain graph, by name.
    step: The ops of a step.
  """
  run = set(step)
  written = {x for op in run for x in variables.written_variables(op)}
  ops: list[tf.Operation] = []
  late: set[str] = set()  # What no slice makes rows of.
  joined: list[tuple[tf.Tensor, tf.Tensor]] = []
  for op, copy in copies.items():
    is_late = _reads(op, written) or any(x.name in late for x in op.inputs)
    if op in run or not is_late:
      continue
    ops.append(op)
    # A loop whose gradient is asked for gets more outputs.
    for tensor, part in zip(op.outputs, copy.outputs, strict=False):
      if tensor.name in rows and tensor.shape.rank:
        joined.append((tensor, part))
      else:
        late.add(tensor.name)
  return LateReads(ops, joined)


def _reads(op: tf.Operation, written: Collection[tf.Operation]) -> bool:
  """Whether an op reads one of some variables, and not for others."""
  return op.type != "ReadVariableOp" and any(
    op_types.is_handle(x) and variables.variable_of(x) in written
    for x in op.inputs
  )
