"""Lowering: the ops of a plan, added to the graph of a step.

Ops in parts are instantiated for each slice of the batch, and ops that are
executed once read the results of slices; sums go over replicas; the schedule
becomes control dependencies. What is left to decide follows from the graph that
is there by then, and from the options of replicas: the mirrors of variables and
who updates them (`replicas`), the gradients that a round of updates sums over
replicas (`planning.update_reads`, `planning.gradient_sums`), lookups at once.
"""

import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from estimator_mp.config.schedules.schedule import Cell, Phase
from estimator_mp.graph import (
  control_flow,
  device_assignment,
  feeds,
  op_types,
  traversal,
  variables,
)
from estimator_mp.graph.control_edges import ControlEdges
from estimator_mp.lower import ordering
from estimator_mp.lower.instantiation import Instantiation
from estimator_mp.lower.lookups import Lookups
from estimator_mp.lower.replicas import Replicas
from estimator_mp.lower.source import Source
from estimator_mp.pipeline import cells
from estimator_mp.planning import gradient_sums, update_reads
from estimator_mp.planning.deferred_edges import DeferredEdges
from estimator_mp.planning.step_graph import Fetch, StepGraph
from estimator_mp.planning.step_plan import StepPlan
from estimator_mp.propagate.layouts import ONCE, Layout, Layouts

import tensorflow as tf

_Value = TypeVar("_Value")


class Lowering:
  """Lowers the plan of one graph.

  Attributes:
    fetches: The stand-ins for fetches of a step; after `run`, as all others.
    cells: For each replica the cells of ops that were made, by their names.
    recomputed: The stages of ops that the first slice recomputes, by names.
    sums: How replicas sum gradients, for each round of updates.
    cuts_of_inputs: The ops that cut inputs, and measure them.
    forward: The ops of all slices.
  """

  def __init__(
    self,
    step: StepGraph,
    plan: StepPlan,
    replicas: Replicas,
    lookups: Lookups | None = None,
    checks: Collection[tf.Operation] = (),
  ):
    """Reads the plan.

    Args:
      step: The graph of the step.
      plan: Its plan.
      replicas: The replicas, of which nothing is made yet.
      lookups: Those of tables whose rows are split.
      checks: The ops that check the numbers of examples.
    """
    self._step = step
    self._graph = step.graph
    self._plan = plan
    self._replicas = replicas
    self._lookups = lookups
    self._checks = checks
    self._mesh = plan.mesh
    self._stages = self._by_op(plan.stages)
    self._positions = self._by_op(plan.positions)
    self._layouts = Layouts(plan.layouts, self._by_op(plan.parts))
    self._of_inputs = frozenset(self._ops(plan.of_inputs))
    edges = ControlEdges()
    for name, waits in plan.edges.items():
      edges.replace(self._op(name), self._ops(waits))
    deferred = {
      self._op(name): self._ops(waits) for name, waits in plan.deferred.items()
    }
    self._late = DeferredEdges(edges, deferred)
    self._passes = [self._by_op(of_one) for of_one in plan.passes]
    self._segments = {
      op: i for i, of_one in enumerate(self._passes) for op in of_one
    }
    self._last_phases = [
      max(x.phase for x in of_one.values()) for of_one in self._passes
    ]
    self._recomputed = {
      self._op(copy): self._op(name) for copy, name in plan.recomputed.items()
    }
    self.fetches: list[Fetch] = []
    self.cells: list[dict[str, Cell]] = [{} for _ in plan.slices]
    self.recomputed: dict[str, int] = {}
    self.sums: list[tuple[gradient_sums.GradientSum, ...]] = []
    self.cuts_of_inputs: list[tf.Operation] = []
    self.forward: set[tf.Operation] = set()

  def _op(self, name: str) -> tf.Operation:
    return self._graph.get_operation_by_name(name)

  def _ops(self, names: Iterable[str]) -> list[tf.Operation]:
    return [*map(self._op, names)]

  def _by_op(self, by_name: Mapping[str, _Value]) -> dict[tf.Operation, _Value]:
    return {self._op(name): value for name, value in by_name.items()}

  def run(self) -> None:
    """Makes the slices, and orders them."""
    plan = self._plan
    self._assign_devices()
    self._mirror()
    updates = {*self._ops(plan.updates)}
    of_slices = {*self._step.ops} - updates
    reads = update_reads.find(
      self._step.ops,
      updates,
      set(self._aggregated_for()),
      self._layout_for_updates,
    )
    aggregated = {read.tensor.name for read in reads}
    before = set(self._graph.get_operations())
    source = Source(
      self._graph,
      self._step.shapes,
      self._layouts,
      self._step.frames,
      self._step.measured,
      self._of_inputs,
      self._step.examples,
      plan.batched,
      self._replicas.copy_of,
      self._order_of_sums,
    )
    slices = Instantiation(
      source,
      plan.slices,
      self._device,
      # Ops that no step runs, as summaries of gradients, read the same.
      lambda op, tensor: op not in of_slices and tensor.name in aggregated,
      self._late,
      self._kept_of_recomputed(),
    )
    slices.add(self._step.ops)
    # Such as summaries: they read the results of a step, and no plain op.
    slices.redirect(self._graph.get_operations())
    slices.keep_state(self._ops(plan.stateful))
    self.fetches = slices.apply(self._step.fetches)
    self.cuts_of_inputs = self._find_cuts(slices, before)
    with tf.compat.v1.name_scope("aggregate"):
      self._aggregate(slices, reads)
    for op in self._layouts.parts:
      if op not in self._of_inputs:
        feeds.prevent_feeding(op)
    firsts = {op: slices.copies(op)[0] for op in self._recomputed}
    self.recomputed = {
      x.name: self._stages[op] for op, x in firsts.items() if x is not None
    }
    for segment in range(len(self._passes)):
      self._order_segment(slices, segment)
    if (lookups := self._lookups) is not None:
      rows = lookups.exchange(self._lookups_at_once(lookups, slices))
      self.fetches = [rows.get(x.name, x) for x in self.fetches]
    self.forward = of_slices.union(self._graph.get_operations()) - (
      before - of_slices
    )

  # Devices and variables.

  def _assign_devices(self) -> None:
    axis = self._plan.split_axis or "model"
    for place in range(self._mesh.axis_size(axis)):
      stages = {
        op: stage
        for op, stage in self._stages.items()
        if self._positions.get(op, 0) == place
      }
      devices = self._mesh.stage_devices(**{axis: place})
      device_assignment.assign(stages, devices)
    device_assignment.leave_other_devices(self._graph.get_operations())

  def _mirror(self) -> None:
    """Gives replicas variables of their own, if they are to have any."""
    alike = {*self._ops(self._plan.alike)}
    self._replicas.mirror(
      [
        op
        for op in self._graph.get_operations()
        if op in alike and self._step.frames.loop(op) is None
      ]
    )
    if self._lookups is not None and self._replicas.variables:
      for replica in range(1, self._replicas.count):
        self._lookups.mirror(
          functools.partial(self._replicas.copy_of, replica=replica)
        )

  def _aggregated_for(self) -> Sequence[tf.Operation]:
    """Returns the variables for which replicas aggregate gradients."""
    if self._replicas.variables or self._replicas.count == 1:
      return self._replicas.variables
    return op_types.variables_of(self._ops(self._plan.alike))  # One has all.

  def _device(self, op: tf.Operation, replica: int) -> str:
    """Returns the device of an op on a replica; "" if it has no stage."""
    stage = self._stages.get(op)
    if stage is None:
      return ""
    variable = self._looked_up(op)
    if variable is not None:  # It is executed where that is.
      return str(self._replicas.copy_of(variable.outputs[0], replica).op.device)
    position = {"data": replica}
    if self._plan.split_axis is not None and op in self._positions:
      position[self._plan.split_axis] = self._positions[op]
    return self._mesh.device(stage=stage, **position)

  def _looked_up(self, op: tf.Operation) -> tf.Operation | None:
    """Returns the variable that an op of slices works on, if it has a place."""
    if op_types.is_call(op):
      return None
    if self._lookups is not None and op in self._lookups:
      return None  # Its rows are wanted here.
    for x in op.inputs:
      variable = variables.variable_of(x) if op_types.is_resource(x) else None
      if variable is not None and not variable.inputs:
        return variable if variable.device else None
    return None

  # Sums.

  def _layout_for_updates(self, tensor: tf.Tensor) -> Layout:
    """Returns the layout of which updates read parts; `Once` of plain ops.

    A replica that reads its own batch tells others which rows it has looked up.
    """
    if tensor.op in self._of_inputs and not self._step.examples.pieces:
      return ONCE
    return self._layouts.layout(tensor)

  def _aggregate(
    self, slices: Instantiation, reads: Sequence[update_reads.UpdateRead]
  ) -> None:
    """Lets updates read the aggregates of replicas."""
    totals: dict[str, tf.Tensor] = {}
    replicas = self._replicas
    read = [x for x in reads if x.tensor.name in slices.of_replicas]
    in_rounds = sorted(read, key=lambda x: x.round)
    for _, of_round in itertools.groupby(in_rounds, lambda x: x.round):
      planned, results = replicas.aggregate([*of_round], slices.of_replicas)
      totals |= results
      self.sums.append(planned)
    slices.read_aggregated(totals)

  def _order_of_sums(self, op: tf.Operation) -> Sequence[int]:
    """Returns the order in which micro-batches make the terms of a sum."""
    schedule = self._plan.schedule
    number = self._segments.get(op)
    if number is None:
      return range(schedule.num_micro_batches)
    cell = self._pass_of_sum(op, number)
    return schedule.micro_batches(cell.stage, cell.phase)

  def _pass_of_sum(self, op: tf.Operation, segment: int) -> cells.Pass:
    """Returns the pass in which the results of an op are added up.

    Nothing waits for the sum of losses, so no forward pass does; unless there
    is nothing else.
    """
    stage, phase = self._passes[segment][op]
    last = self._last_phases[segment]
    return cells.Pass(stage, max(phase, min(last, Phase.BACKWARD)))

  # Order.

  def _order_segment(self, slices: Instantiation, segment: int) -> None:
    """Orders the cells of one segment."""
    for span, cells_of_ops in zip(self._plan.slices, self.cells, strict=True):
      self._order(slices, segment, span)
      for op, of_op in self._passes[segment].items():
        for i, copy in enumerate(slices.copies(op)[span.start : span.stop]):
          if copy is not None:
            cell = Cell(of_op.stage, i, of_op.phase)
            cells_of_ops.setdefault(copy.name, cell)

  def _order(
    self,
    slices: Instantiation,
    segment: int,
    span: Sequence[int],
  ) -> None:
    """Lets slices of a replica pass the stages in the order of the schedule."""
    passes = self._passes[segment]
    schedule = self._plan.schedule
    device_of = schedule.device_of
    sums: dict[Cell, list[tf.Operation]] = {}
    elsewhere: dict[Cell, list[tf.Operation]] = {}
    in_branches = control_flow.ops_in_branches(self._graph.get_operations())
    for op, added in slices.accumulated.items():
      if op not in passes or op not in self._stages or op in in_branches:
        continue  # Nothing may wait for a sum in a branch that is not taken.
      of_sum = self._pass_of_sum(op, segment)
      is_here = device_of(self._stages[op]) == device_of(of_sum.stage)
      here = sums if is_here else elsewhere
      for number, name in added:
        add = slices.op_named(name)
        if number in span and add is not None:
          cell = Cell(of_sum.stage, number - span[0], of_sum.phase)
          here.setdefault(cell, []).append(add)
    copies = {op: list(slices.copies(op)) for op in passes}
    for op in self._recomputed.keys() & copies.keys():
      for number in self._plan.kept_micro_batches:
        copies[op][span[number]] = None  # It reads kept activations.
    done = {op: x for op, x in passes.items() if any(copies[op])}
    ordering.order_cells(
      schedule,
      cells.ends_of_passes(
        schedule, done, self._stages, self._step.frames.loop
      ),
      lambda number, op: copies[op][span[number]],
      sums,
      elsewhere,
    )

  def _kept_of_recomputed(
    self,
  ) -> dict[tuple[tf.Operation, int], tf.Operation]:
    """Returns the kept activations, for slices that recompute nothing."""
    return {
      (op, span[number]): original
      for op, original in self._recomputed.items()
      if original in self._layouts.parts  # Fewer ops read it now.
      for span in self._plan.slices
      for number in self._plan.kept_micro_batches
    }

  # Cuts of inputs, and lookups.

  def _find_cuts(
    self, slices: Instantiation, before: Collection[tf.Operation]
  ) -> list[tf.Operation]:
    """Returns the ops that were made to cut inputs: no layer of a slice.

    Args:
      slices: The ops of slices.
      before: The ops that were there before.
    """
    layers = {x for op in self._layouts.parts for x in slices.copies(op)}
    inside = traversal.ops_run_with(*self._step.of_examples)
    cuts: list[tf.Operation] = []
    every = self._graph.get_operations()
    inner = control_flow.ops_in_branches(every)
    for op in every:
      is_plain = op in before and op not in self._checks
      if is_plain or op in layers or op in inner:
        continue
      if op.type in op_types.V1_CONTROL_FLOW:
        continue
      read = traversal.sources(op)
      if all(
        x in inside or (x.type == "Const" and x not in inner) for x in read
      ):
        inside.add(op)
        cuts.append(op)
    return cuts

  def _lookups_at_once(
    self, lookups: Lookups, slices: Instantiation
  ) -> list[list[tf.Operation]]:
    """Returns lookups of tables that are made together, for each slice.

    Args:
      lookups: Those of the plain graph.
      slices: The ops of slices.
    """
    groups: list[list[tf.Operation]] = []
    for group in lookups.groups:
      of_passes: dict[object, list[tf.Operation]] = {}
      for op in group:
        segment = self._segments.get(op)
        of_op = None if segment is None else self._passes[segment][op]
        place = self._stages.get(op), segment, of_op, op in self._recomputed
        of_passes.setdefault(place, []).append(op)
      for ops in of_passes.values():
        if ops[0] not in self._layouts.parts:
          groups.append(ops)
          continue
        of_slices = zip(*map(slices.copies, ops), strict=True)
        groups += [[x for x in copies if x is not None] for copies in of_slices]
    known = {op for group in groups for op in group}
    for op in self._graph.get_operations():
      if op not in lookups or op in known:
        continue
      if op.outputs[0].consumers():
        groups.append([op])
      else:  # As that of the whole batch, of which slices do theirs.
        lookups.detach(op)
    return [group for group in groups if group]
