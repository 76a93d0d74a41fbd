"""The plan's report of the batch, read off a template and its bridges."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types, traversal
from estimator_mp.graph.waits import Waits
from estimator_mp.plan import batch_report, segments
from estimator_mp.plan.batch_plan import BatchOps
from estimator_mp.plan.batch_report import Crossing, Once, Where
from estimator_mp.plan.bridge import Bridge, Kind

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Captured:
  """A graph with slice 0, before there are others.

  Attributes:
    ops: The ops of a step, in the order of the graph.
    own: Those of slice 0.
    bridges: The bridges that a step passes.
    made_for: For each op that was made for slice 0, the op of the plain graph.
    backward: The ops that were made for gradients.
    batch: The ops that depend on the batch.
    waits: The control dependencies of ops.
  """

  ops: Sequence[tf.Operation]
  own: Sequence[tf.Operation]
  bridges: Sequence[Bridge]
  made_for: Mapping[tf.Operation, tf.Operation]
  backward: Collection[tf.Operation]
  batch: BatchOps
  waits: Waits

  def ops_of(self, *kinds: Kind) -> set[tf.Operation]:
    """Returns the ops of bridges of some kinds.

    Args:
      *kinds: The kinds.
    """
    return {x.op for x in self.bridges if x.kind in kinds}

  def plain(self, op: tf.Operation) -> tf.Operation | None:
    """Returns the op of the plain graph that is to be named for an op.

    Args:
      op: An op of a step.

    Returns:
      That which it was made for, or whose gradient it is part of; None if
      several share it, or if lowering made it alone.
    """
    found: tf.Operation | None = op
    while found is not None and found in self.backward:
      found = graph_reads.differentiated(found)
    if found is None:
      return None
    found = self.made_for.get(found, found)
    return None if any(x.op is found for x in self.bridges) else found


def segments_of(
  captured: Captured,
  targets: Sequence[tf.Operation],
  count: int,
  num_slices: int,
  num_examples: int | None,
) -> batch_report.Segments:
  """Returns what the plan says of the batch.

  Args:
    captured: The graph.
    targets: The ops of the model's loss, or else of its predictions.
    count: The number of segments.
    num_slices: The number of slices.
    num_examples: How many examples the batch has, if the graph knows.
  """
  made_for = map(captured.made_for.get, captured.own)
  in_parts = {x for x in made_for if x is not None}
  once = [
    op
    for op in captured.ops
    if op in captured.batch.depends
    and op not in captured.backward
    and op not in in_parts
  ]
  flops, flops_in_parts = batch_report.flops([*in_parts, *once], in_parts)
  stopped_by = None
  if flops_in_parts < batch_report.LEAST_SHARE * flops:
    stopped_by = _stopped_by(captured, once)
  cuts = [x for x in captured.bridges if x.kind is Kind.CUT]
  of_inputs = {x.op for x in cuts if _is_of_inputs(captured, x)}
  return batch_report.Segments(
    count,
    tuple(_waits(captured, targets, in_parts, once)),
    flops,
    flops_in_parts,
    batch_report.moved(_crossings(x for x in cuts if x.op in of_inputs)),
    batch_report.moved(_crossings(x for x in cuts if x.op not in of_inputs)),
    batch_report.moved(
      _crossings(x for x in captured.bridges if _joins(captured, x))
    ),
    num_slices,
    num_examples,
    stopped_by,
  )


def _stopped_by(
  captured: Captured, once: Sequence[tf.Operation]
) -> Once | None:
  """Returns the op for which most of the work is executed once."""
  whole = captured.batch.whole
  op = batch_report.stopping_op(once, whole)
  if op is None:
    return None
  why = batch_report.why_once(op, whole.get(op, True))
  is_of_inputs = op in captured.batch.of_inputs
  where = Where.BEFORE if is_of_inputs else Where.AFTER
  return Once(op.name, op.type, why, where)


def _is_of_inputs(captured: Captured, cut: Bridge) -> bool:
  return cut.source.op in captured.batch.of_inputs


def _joins(captured: Captured, bridge: Bridge) -> bool:
  """Whether a bridge joins anything but a gradient of a variable."""
  if bridge.kind not in (Kind.JOIN, Kind.SUM):
    return False
  of = bridge.of
  if of is None:
    return bridge.kind is Kind.SUM or bridge.rows is not None
  return (
    of.op in captured.batch.depends
    or of.op in captured.made_for
    or any(x.op is of.op for x in captured.bridges)
  )


def _crossings(bridges: Iterable[Bridge]) -> list[Crossing]:
  found = []
  for bridge in bridges:
    whole = bridge.output if bridge.kind is Kind.JOIN else bridge.source
    rank = whole.shape.rank
    shape = None if rank is None else tuple(whole.shape.as_list())
    found.append(Crossing(shape, bridge.rows, whole.dtype.size or 8))
  return found


def _waits(
  captured: Captured,
  targets: Sequence[tf.Operation],
  in_parts: Collection[tf.Operation],
  once: Sequence[tf.Operation],
) -> list[Once]:
  """Returns where slices wait, and what is executed once on activations."""
  joins = captured.ops_of(Kind.JOIN)
  # Sums of slices, and the ops that make the shares.
  sums = {x.op: x.source.op for x in captured.bridges if x.kind is Kind.SUM}
  begins = captured.ops_of(Kind.CUT, Kind.READ)
  between = segments.ops_that_end(
    captured.ops, captured.own, begins, {*joins, *sums}, captured.waits
  )
  # Sums that slices read at once, with nothing between.
  read = {sums[x] for op in begins for x in traversal.inputs(op) if x in sums}
  read -= {*captured.backward}
  statistics = [op for op in captured.own if op in read]
  of_slices = [op for op in once if op not in captured.batch.of_inputs]
  no_sums = [
    op for op in of_slices if sums.keys().isdisjoint(traversal.inputs(op))
  ]
  work = batch_report.once_on_activations(no_sums, targets, captured.ops)
  follows = set(of_slices)
  found: dict[tf.Operation, Once] = {}
  joined = [op for op in work if not joins.isdisjoint(traversal.inputs(op))]
  for where, ops in (
    (Where.BETWEEN, between + statistics),
    (Where.AFTER, joined),
    (Where.BEFORE, work),
  ):
    for op in map(captured.plain, ops):
      if op is None or op in found:
        continue
      before = captured.waits.sources(op)
      if not follows.isdisjoint(traversal.inputs(op)):
        continue  # It comes after one that is named.
      if op.type in op_types.FUSED_BATCH_NORMS and op in in_parts:
        why = batch_report.Why.MOMENTS
      elif op in in_parts or not sums.keys().isdisjoint(before):
        why = batch_report.Why.SUM
      else:
        why = batch_report.why_once(op)
      found[op] = Once(op.name, op.type, why, where)
  place = {op: i for i, op in enumerate(captured.ops)}
  return [found[op] for op in sorted(found, key=lambda op: place.get(op, -1))]
