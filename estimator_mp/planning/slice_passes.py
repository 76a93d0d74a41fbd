"""The passes of slices through stages, segment by segment, as data.

Slices pass the stages in the order of a schedule, as long as they do not wait
for each other. An op that reads the whole of a tensor in parts waits for all of
them: it begins another segment, with an order of its own.
"""

from collections.abc import Collection, Mapping, Sequence

from estimator_mp.config.schedules.schedule import Schedule
from estimator_mp.graph import op_types
from estimator_mp.graph.control_edges import OF_THE_GRAPH, ControlEdges
from estimator_mp.pipeline import cells
from estimator_mp.planning import segments
from estimator_mp.propagate.layouts import Partial, is_whole
from estimator_mp.propagate.propagation import Propagation

import tensorflow as tf


def plan_passes(
  ops: Sequence[tf.Operation],
  batch: Propagation,
  of_inputs: Collection[tf.Operation],
  backward: Collection[tf.Operation],
  stages: Mapping[tf.Operation, int],
  schedule: Schedule,
  waits: ControlEdges = OF_THE_GRAPH,
  loop_of: cells.LoopOf = lambda op: None,
) -> list[dict[tf.Operation, cells.Pass]]:
  """Returns the passes of ops that are executed in parts, of each segment.

  Args:
    ops: The ops of a step, each after those that it reads.
    batch: How they are executed over slices.
    of_inputs: Ops that depend on inputs alone: they wait for no slice.
    backward: Those that come after the forward pass.
    stages: The stages of ops.
    schedule: The order of micro-batches.
    waits: The control inputs of ops.
    loop_of: Returns the outermost loop that an op is in; None if it is in none.
  """
  # A loop is as a whole in the forward pass, or after it.
  loops = {loop_of(op) for op in backward} - {None}
  behind = {op for op in ops if op in backward or loop_of(op) in loops}
  in_parts = [op for op in ops if op in batch.parts and op not in of_inputs]
  inside = frozenset(in_parts)
  segment_of = segments.segments_of_ops(
    ops,
    inside,
    {op for op in ops if waits_for_all(op, batch, inside, waits)},
    behind,
    waits,
  )
  numbers = sorted({segment_of[op] for op in in_parts})
  passes: list[dict[tf.Operation, cells.Pass]] = []
  for number in numbers:
    members = [op for op in in_parts if segment_of[op] == number]
    makers: list[Collection[tf.Operation]] = []
    if schedule.splits_backward:
      makers = [{op} for op in members if _makes_sum(op, batch)]
    passes.append(
      cells.passes_of_ops(
        members,
        {op for op in members if op in behind},
        {op: stages[op] for op in members if op in stages},
        makers,
        waits,
        loop_of,
      )
    )
  return passes


def waits_for_all(
  op: tf.Operation,
  batch: Propagation,
  inside: Collection[tf.Operation],
  waits: ControlEdges = OF_THE_GRAPH,
) -> bool:
  """Whether an op reads the whole of a tensor in parts.

  Args:
    op: The op.
    batch: How ops are executed over slices.
    inside: Those that slices have.
    waits: The control inputs of ops.
  """
  parts = batch.parts.get(op)
  # Sizes are made of those of inputs, and constants wait for no slice.
  if op.type in op_types.MEASURES or op.type == "Const":
    return False
  if parts is None:
    return any(x in inside for x in waits.sources(op))
  if parts.exchanges:
    return True
  reads = zip(op.inputs, parts.reads, strict=True)
  return any(
    tensor.op in inside
    and not is_whole(batch.layout(tensor))
    and batch.layout(tensor) != read
    for tensor, read in reads
  )


def _makes_sum(op: tf.Operation, batch: Propagation) -> bool:
  """Whether the parts of an op's outputs are added up behind it."""
  return any(
    isinstance(batch.layout(tensor), Partial)
    and any(reader not in batch.parts for reader in tensor.consumers())
    for tensor in op.outputs
  )
