"""The report of the batch, read off the plan of a finished graph."""

import dataclasses
import functools
from collections.abc import Collection, Iterable, Sequence

from compat.private import graph_reads, op_registry
from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.graph import op_types, traversal
from estimator_mp.graph.control_edges import ControlEdges
from estimator_mp.planning import batch_report, slice_passes
from estimator_mp.planning.batch_report import (
  BatchReport,
  ExecutedOnce,
  Moved,
  Where,
  Why,
)
from estimator_mp.planning.reshards import Kind, Reshard
from estimator_mp.propagate.layouts import Partial, is_whole
from estimator_mp.propagate.propagation import Propagation
from estimator_mp.rules import all_rules
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class PlannedBatch:
  """The plan of a batch.

  Attributes:
    ops: The ops of a step, each after those that it reads.
    inputs: Those that make features and labels.
    results: The ops of the loss, or else of predictions.
    depends: Ops that depend on the batch.
    of_inputs: Those that depend on inputs alone.
    backward: Those that come after the forward pass.
    shapes: The sizes of tensors.
    layouts: How ops are executed over slices.
    reshards: The tensors that are cut, joined and summed.
    control: The control inputs of ops.
    num_segments: How many segments there are: one more than slices wait for
      each other.
    num_slices: How many slices there are.
  """

  ops: Sequence[tf.Operation]
  inputs: Collection[tf.Operation]
  results: Sequence[tf.Operation]
  depends: Collection[tf.Operation]
  of_inputs: Collection[tf.Operation]
  backward: Collection[tf.Operation]
  shapes: SymbolicShapes
  layouts: Propagation
  reshards: Sequence[Reshard]
  control: ControlEdges
  num_segments: int
  num_slices: int

  def is_in_parts(self, op: tf.Operation) -> bool:
    """Whether an op is executed in parts."""
    return op in self.layouts.parts

  @functools.cached_property
  def forward(self) -> list[tf.Operation]:
    """The ops of the forward pass that depend on the batch."""
    return [
      op
      for op in self.ops
      if op in self.depends
      and op not in self.inputs
      and op not in self.backward
      and not graph_reads.is_of_gradient(op)
    ]

  @functools.cached_property
  def once(self) -> list[tf.Operation]:
    """Those of them that are executed once."""
    return [op for op in self.forward if not self.is_in_parts(op)]

  @functools.cached_property
  def flops(self) -> tuple[int, int]:
    """Floating-point operations of the forward pass, and those in parts."""
    return batch_report.flops(
      self.forward, set(self.forward).difference(self.once)
    )

  @property
  def is_stopped(self) -> bool:
    """Whether most of the work is executed once."""
    flops, in_parts = self.flops
    return in_parts < batch_report.LEAST_SHARE * flops

  @functools.cached_property
  def of_slices(self) -> frozenset[tf.Operation]:
    """The ops that are executed in parts, and that something waits for."""
    return frozenset(self.layouts.parts).difference(self.of_inputs)

  @functools.cached_property
  def before_parts(self) -> frozenset[tf.Operation]:
    """The ops that some op in parts needs."""
    return frozenset(traversal.ancestors(self.layouts.parts, self.ops))

  def waits(self, op: tf.Operation) -> bool:
    """Whether an op waits for all slices."""
    return slice_passes.waits_for_all(
      op, self.layouts, self.of_slices, self.control
    )

  def reads_sum(self, op: tf.Operation) -> bool:
    """Whether an op that is executed once reads a sum of slices."""
    return any(
      isinstance(self.layouts.layout(x), Partial)
      for x in op.inputs
      if x.op not in self.of_inputs
    )


def report_of(batch: PlannedBatch) -> BatchReport:
  """Returns the report of a batch.

  Args:
    batch: Its plan.
  """
  stopped_by = stopping_op(batch) if batch.is_stopped else None
  examples = batch.shapes.num_examples
  graph = batch.ops[0].graph
  cuts = [
    x
    for x in batch.reshards
    if x.kind is Kind.SLICE
    and traversal.tensor_of_name(graph, x.tensor).op in batch.depends
  ]
  return BatchReport(
    batch.num_segments,
    tuple(_once(batch)),
    *batch.flops,
    _moved((x for x in cuts if x.is_of_inputs), examples),
    _moved((x for x in cuts if not x.is_of_inputs), examples),
    _moved(_joined(batch), examples),
    batch.num_slices,
    examples if isinstance(examples, int) else None,
    None if stopped_by is None else _executed_once(stopped_by, batch),
  )


def stopping_op(batch: PlannedBatch) -> tf.Operation | None:
  """Returns the op for which most of the work is executed once, if it is known.

  Args:
    batch: The plan of a batch that is stopped.
  """
  could = {
    op
    for op in batch.once
    if op.type not in op_types.MEASURES
    and any(
      not is_whole(batch.layouts.layout(tensor))
      and not isinstance(batch.layouts.layout(tensor), Partial)
      for tensor in op.inputs
    )
  }
  return batch_report.stopping_op(batch.once, could)


def _executed_once(op: tf.Operation, batch: PlannedBatch) -> ExecutedOnce:
  where = Where.BEFORE if op in batch.of_inputs else Where.AFTER
  return ExecutedOnce(op.name, op.type, why_once(op, batch), where)


def _once(batch: PlannedBatch) -> Iterable[ExecutedOnce]:
  """Returns where slices wait, and ops executed once on activations."""
  waiting = [
    op
    for op in batch.ops
    if op in batch.before_parts
    and op not in batch.of_inputs
    and batch.waits(op)
  ]
  of_slices = [op for op in batch.once if op not in batch.of_inputs]
  no_sums = [
    op
    for op in of_slices
    if not batch.reads_sum(op) and not batch.layouts.is_in_region(op)
  ]
  work = batch_report.once_on_activations(no_sums, batch.results, batch.ops)
  follows = set(of_slices)
  shown: dict[tf.Operation, ExecutedOnce] = {}

  def enter(op: tf.Operation | None, where: Where) -> None:
    # An op after one that is named says nothing new.
    if (
      op is None or op in shown or not follows.isdisjoint(traversal.inputs(op))
    ):
      return
    shown[op] = ExecutedOnce(op.name, op.type, _why(op, batch), where)

  for op in waiting:
    for named in _named(op, batch):
      enter(named, Where.BETWEEN)
  for op in work:
    enter(op, Where.AFTER if batch.waits(op) else Where.BEFORE)
  # All ops of a loop come after others of it.
  needed = set(traversal.ancestors(batch.results, batch.ops))
  for op in of_slices:
    refuses = batch.layouts.refuses(op)
    if refuses is not None and op in needed:
      named = _forward(refuses, batch) or op
      shown[named] = ExecutedOnce(
        named.name, named.type, Why.FUNCTION, Where.AFTER
      )
  return [shown[op] for op in batch.ops if op in shown]


def _named(op: tf.Operation, batch: PlannedBatch) -> list[tf.Operation]:
  """Returns the forward ops that are named for one that waits for slices."""
  parts = batch.layouts.parts.get(op)
  named = [op]
  if parts is not None and not parts.exchanges:
    # Parts read a sum at once, with nothing between: it is named itself.
    named = [
      tensor.op
      for tensor, read in zip(op.inputs, parts.reads, strict=True)
      if isinstance(batch.layouts.layout(tensor), Partial)
      and read != batch.layouts.layout(tensor)
      and tensor.op not in batch.backward
    ]
  return [x for y in named if (x := _forward(y, batch)) is not None]


def _forward(op: tf.Operation, batch: PlannedBatch) -> tf.Operation | None:
  """Returns an op, or that whose gradient it is part of."""
  forward: tf.Operation | None = op
  while forward is not None and forward in batch.backward:
    forward = graph_reads.differentiated(forward)
  return forward


def _why(op: tf.Operation, batch: PlannedBatch) -> Why:
  is_in_parts = batch.is_in_parts(op)
  if is_in_parts and op.type in op_types.FUSED_BATCH_NORMS:
    return Why.MOMENTS
  if is_in_parts or batch.reads_sum(op):
    return Why.SUM
  return why_once(op, batch)


def why_once(op: tf.Operation, batch: PlannedBatch) -> Why:
  """Returns why an op is executed once, not in parts.

  Args:
    op: The op; it reads tensors that are in parts.
    batch: The plan of the batch.
  """
  if op.type in op_types.CALLS_PYTHON:
    return Why.PYTHON
  if op.type in op_types.RANDOM - op_types.REORDERS:
    return Why.RANDOM
  if batch.layouts.is_in_region(op):
    return Why.FUNCTION
  if op.type in all_rules.TABLE.types:
    has_sizes = batch.shapes.rule(op) is not None
    return Why.ACROSS if has_sizes else Why.SIZES
  return Why.STATE if op_registry.definition_of(op).is_stateful else Why.NO_RULE


def _joined(batch: PlannedBatch) -> Iterable[Reshard]:
  """Returns the joins and sums, but for gradients of variables."""
  of_updates = {
    op.name
    for op in batch.ops
    if op in batch.backward and op not in batch.before_parts
  }
  for reshard in batch.reshards:
    if reshard.kind is Kind.SLICE:
      continue
    if not reshard.readers or not of_updates.issuperset(reshard.readers):
      yield reshard


def _moved(reshards: Iterable[Reshard], examples: Size) -> Moved:
  """Returns the bytes that are moved in a step."""
  per_example = per_slice = num_unknown = 0
  for reshard in reshards:
    if reshard.kind is Kind.REDUCE:
      if isinstance(reshard.num_bytes, int):
        per_slice += reshard.num_bytes
        continue
    elif reshard.num_bytes is not None:
      each = polynomials.quotient(reshard.num_bytes, examples)
      if isinstance(each, int):
        per_example += each
        continue
    num_unknown += 1
  return Moved(per_example, per_slice, num_unknown)
