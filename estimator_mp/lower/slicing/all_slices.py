"""All slices: the passes when model_fn has returned, as slice 0 is there.

cut, read            what slices read
mirror, clone        further micro-batches and replicas
join, accumulate     what is executed once reads the whole batch
order                the cells of each device, and collectives
update               each replica keeps its variables equal
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from compat.private import graph_edits
from estimator_mp import mesh as mesh_lib
from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.config.schedules.schedule import Cell, Schedule
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import op_types, traversal
from estimator_mp.graph.ledger import Ledger, Role, made_in
from estimator_mp.lower import accumulation, ordering, recompute
from estimator_mp.lower import replicas as replicas_lib
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import ends as ends_lib
from estimator_mp.lower.slicing import slice_zero
from estimator_mp.lower.slicing import slices as slices_lib
from estimator_mp.lower.slicing.runs import Run
from estimator_mp.plan import (
  batch_report,
  collective_order,
  finish_plan,
  gradient_sums,
  sharding_plan,
)
from estimator_mp.plan.batch_plan import BatchOps
from estimator_mp.plan.bridge import Bridge, Kind

import tensorflow as tf


class AllSlices:
  """Makes slices of one graph, of what may be done in slices.

  Attributes:
    cuts_of_inputs: The ops that cut what inputs alone make.
  """

  def __init__(
    self,
    config: sharding_config.ShardingConfig,
    mesh: mesh_lib.Mesh,
    schedule: Schedule,
    inputs: Sequence[tf.Operation],
    slices: slices_lib.Slices,
    zero: slice_zero.SliceZero,
    ledger: Ledger,
  ):
    """Starts before model_fn is called.

    Args:
      config: How the model is sharded.
      mesh: The devices.
      schedule: In which order each replica's micro-batches pass the stages.
      inputs: The ops of the features and labels that have examples.
      slices: The slices of the batch.
      zero: Slice 0.
      ledger: The ledger of the ops that lowering makes in the graph.
    """
    self._ledger = ledger
    self._config = config
    self._mesh = mesh
    self._recomputed: dict[tf.Operation, int] = {}  # With their stages.
    self._schedule = schedule
    self._count = schedule.num_micro_batches
    self._slices = slices
    self._zero = zero
    self._replicas = replicas_lib.Replicas(
      config, mesh, ledger, slices.count // self._count
    )
    self._inputs = inputs
    self.cuts_of_inputs = ledger.with_role(Role.CUT)
    self._bridges = zero.bridges
    self._backward = ledger.request_of
    self._sums: list[tuple[gradient_sums.GradientSum, ...]] = []
    self._clones = clones_lib.Clones(self._replicas.homes(self._count))
    self._of_cells: list[dict[str, Cell]] = [
      {} for _ in range(self._replicas.count)
    ]
    self._segments = batch_report.Segments(0)

  def spread(self, variables: Iterable[tf.Operation]) -> None:
    """Enters variables that are there once, on whichever replica's device.

    Args:
      variables: Shards of tables, and what they are shards of.
    """
    self._replicas.spread(variables)

  def mirror(self) -> None:
    """Gives replicas the variables that slices read so far.

    That is before an optimizer makes slots, which are where their variable is.
    """
    bridges = self._bridges.all.values()
    read = [x.source.op for x in bridges if x.kind is Kind.READ]
    ends = {x.op for x in bridges}
    with tf.control_dependencies(None):
      self._replicas.mirror(self._shared(read, ends))

  def redirect(
    self, spec: tf.estimator.EstimatorSpec, new: Sequence[tf.Operation]
  ) -> tf.estimator.EstimatorSpec:
    """Lets what model_fn has built last read slice 0, or what it returns.

    Args:
      spec: The spec that model_fn returned.
      new: The ops that were made since the last request for gradients.

    Returns:
      The spec of the whole batch.
    """
    with tf.control_dependencies(None):
      self._zero.template.redirect(new)
      return spec._replace(
        loss=self._zero.whole(spec.loss),
        predictions=self._zero.whole(spec.predictions),
      )

  def of_slice_zero(
    self,
    spec: tf.estimator.EstimatorSpec,
    stages: Mapping[tf.Operation, int],
    batch: BatchOps,
  ) -> finish_plan.SliceZeroOps:
    """Returns the graph with slice 0, before there are others, for a plan.

    Args:
      spec: The result of `redirect`.
      stages: The stages of ops.
      batch: The ops that depend on the batch.
    """
    ops = tf.compat.v1.get_default_graph().get_operations()
    made_for = self._ledger.made_for
    numbers = (self._slices.sizes[0], self._slices.weights[0])
    return finish_plan.SliceZeroOps(
      [op for op in ops if self._ledger.role(op) is not Role.CUT],
      [*self._bridges.all.values()],
      self._zero.template.ops,
      dict(self._backward),
      {op: made_for[op] for op in self._ledger.with_role(Role.SLICE)},
      self._zero.template.all_rows,
      [x.op for x in numbers if isinstance(x, tf.Tensor)],
      _ops_of_step(spec),
      _ops_of_results(spec),
      batch,
      stages,
      self._slices.count,
      self._slices.num_examples,
    )

  def finish(
    self,
    spec: tf.estimator.EstimatorSpec,
    zero: finish_plan.SliceZeroOps,
    plan: finish_plan.FinishPlan,
  ) -> tf.estimator.EstimatorSpec:
    """Makes all slices, and lets the rest of the graph read all of them.

    Args:
      spec: The result of `redirect`.
      zero: The graph with slice 0, before there are others.
      plan: The work of all slices.

    Returns:
      The spec of the whole batch.
    """
    self._schedule, self._segments = plan.schedule, plan.segments
    graph = tf.compat.v1.get_default_graph()
    with tf.control_dependencies(None):
      for op, kept in plan.waits.kept.items():
        graph_edits.set_control_inputs(op, kept)
      self._fill_reads(zero.bridges, plan.own, zero.batch)
      runs = [
        Run(x, plan.schedule, zero.stages, self._clones) for x in plan.runs
      ]
      own = self._recompute(runs, plan)
      inside = set(own)
      read = [x for op in own for x in traversal.sources(op)]
      self._replicas.mirror(
        self._shared([x for x in read if x not in inside], inside)
      )
      self._clone(own, plan)
      ends = ends_lib.Ends(
        self._slices,
        self._clones,
        self._replicas,
        self._ledger,
        accumulation.Accumulation(self._clones, plan.schedule),
      )
      summed = ends.fill(zero.bridges, runs)
      self._sums = ends.sums
      for number, waits in plan.late.items():
        for tensor in summed.get(number, ()):
          graph_edits.add_control_inputs(tensor.op, waits)
      self._wait_for_all(zero.ops, own)
      self._join_late_reads(plan.late_reads)
      for run in runs:
        run.order(plan.policy.kept, self._of_cells)
    # Ops executed once lead to the loss, too, or were made for its gradients.
    results = traversal.ops_run_with(*_ops_of_results(spec))
    once = {x for x in results if not op_types.is_variable(x)}
    passes = {*own, *once, *self._backward}
    passes.update(self._ledger.with_role(Role.PASS))
    spec = self._replicas.keep_equal(spec, passes)
    ordering.order_collectives(collective_order.collectives_of(graph))
    return spec

  def _fill_reads(
    self,
    bridges: Sequence[Bridge],
    own: Collection[tf.Operation],
    batch: BatchOps,
  ) -> None:
    """Puts rows and whole tensors where slices read them.

    Args:
      bridges: All bridges.
      own: The ops of slice 0.
      batch: The ops that depend on the batch.
    """
    inside = set(own)
    sizes, weights = self._slices.sizes, self._slices.weights
    if tf.is_tensor(sizes[0]):
      self._clones.pair(sizes[0], sizes[1:])
      self._clones.pair(weights[0], weights[1:])
    for bridge in bridges:
      if bridge.kind is Kind.READ:
        bridges_lib.replace(bridge.output, bridge.source)
      elif bridge.kind is Kind.CUT and bridge.rows is not None:
        with (
          made_in(bridge.op.graph) as cuts,
          bridges_lib.outside(self._place_of_cut(bridge)),
        ):
          pieces = self._slices.cut(bridge.source, bridge.rows)
          first_shape = pieces[0].shape.as_list()
          if any(x.shape.as_list() != first_shape for x in pieces):
            # Ops made for slice 0 shall not know how many rows it has.
            pieces[0] = tf.compat.v1.placeholder_with_default(
              pieces[0], bridge.output.shape
            )
          if bridge.request is not None and weights[0] is not None:
            pieces = [
              piece * tf.cast(weight, piece.dtype)
              for piece, weight in zip(pieces, weights, strict=True)
            ]
        self._clones.pair(pieces[0], pieces[1:])
        bridges_lib.replace(bridge.output, pieces[0])
        # Some shapes are of the inputs' sizes, but measured in a slice.
        if bridge.source.op in batch.of_inputs and inside.isdisjoint(
          traversal.ops_run_with(bridge.source)
        ):
          self.cuts_of_inputs += cuts

  def _place_of_cut(self, bridge: Bridge) -> str:
    """Returns where a tensor is cut: where all slices read it, if they do."""
    readers = {str(x.device) for x in bridge.output.consumers() if x.device}
    if len(readers) == 1 and self._replicas.count == 1:
      return readers.pop()
    return str(bridge.source.device)

  def _shared(
    self, read: Iterable[tf.Operation], ends: Collection[tf.Operation]
  ) -> list[tf.Operation]:
    """Returns the ops that are the same for all slices, in any batch.

    Args:
      read: The ops that slices read.
      ends: The ops at which the walk backward ends, which are not returned.

    Returns:
      Those ops, and what leads to them, in the order of the graph.
    """
    ops = tf.compat.v1.get_default_graph().get_operations()
    loops = traversal.Loops(ops)

    def readers(op: tf.Operation) -> list[tf.Operation]:
      found = [x for tensor in op.outputs for x in tensor.consumers()]
      return [*found, *loops.ops_with(op)]

    of_batch = set(traversal.walk(self._inputs, readers))
    found = set(traversal.walk(read, traversal.sources, ends)) - of_batch
    return [op for op in ops if op in found]

  def _recompute(
    self, runs: Sequence[Run], plan: finish_plan.FinishPlan
  ) -> list[tf.Operation]:
    """Lets backward passes compute activations again; returns all ops."""
    if not plan.policy.stages:
      return list(plan.own)
    number_of = {op: i for i, run in enumerate(runs) for op in run.ops}
    made = self._recomputed = recompute.compute_again(plan.recomputation)
    self._backward.update(dict.fromkeys(made, 0))
    of_runs: list[dict[tf.Operation, int]] = [{} for _ in runs]
    for op in reversed([*made]):  # As soon as one of the segments reads it.
      readers = [
        number_of[x] for x in traversal.consumers(op) if x in number_of
      ]
      number_of[op] = min(readers, default=len(runs) - 1)
      of_runs[number_of[op]][op] = made[op]
    for run, ops in zip(runs, of_runs, strict=True):
      run.add_recomputed(ops, self._backward)
    return traversal.in_order([*plan.own, *made])

  def _clone(
    self, own: Sequence[tf.Operation], plan: finish_plan.FinishPlan
  ) -> None:
    """Makes the other slices."""
    with self._ledger.creating(Role.PASS):
      self._clones.add(own)
    slices = range(self._slices.count)
    kept = [x for x in slices if x % self._count in plan.policy.kept]
    recompute.keep(plan.recomputation, self._clones, kept)

  def _join_late_reads(self, reads: finish_plan.LateReads) -> None:
    """Lets what is fetched read what slices have read of variables."""
    for tensor, part in reads.joined:
      copies = [part, *self._clones.of(part)]
      rows = self._zero.template.all_rows[tensor.name]
      with bridges_lib.outside(tensor.device):
        joined = self._slices.join(copies, rows, tensor.shape.rank)
      joined.set_shape(tensor.shape)
      bridges_lib.replace(tensor, joined)
    for op in reads.ops:
      op.graph.prevent_fetching(op)

  def _wait_for_all(
    self, ops: Iterable[tf.Operation], own: Sequence[tf.Operation]
  ) -> None:
    """Lets what waits for an op of slice 0 wait for those of all slices."""
    inside = set(own)
    for op in ops:
      waits = op.control_inputs
      if op in inside or inside.isdisjoint(waits):
        continue
      more = [
        self._clones.op(i, x)
        for x in waits
        if x in inside
        for i in range(self._clones.count)
      ]
      graph_edits.add_control_inputs(op, more)

  @property
  def mirrors(self) -> Mapping[str, tuple[str, ...]]:
    """The names of variables' mirrors, by the names of the variables."""
    return self._replicas.mirrors

  def plan(
    self, placement: placement_lib.Placement, train_op: str | None
  ) -> sharding_plan.ShardingPlan:
    """Returns how the graph is sharded, once `finish` has returned.

    Args:
      placement: The stages of ops.
      train_op: As in `ShardingPlan`.
    """
    pipeline = sharding_plan.PipelinePlan(
      self._mesh,
      self._schedule,
      tuple(MappingProxyType(cells) for cells in self._of_cells),
      MappingProxyType(
        {op.name: stage for op, stage in self._recomputed.items()}
      ),
    )
    return sharding_plan.ShardingPlan(
      placement,
      pipeline,
      tuple(self._sums),
      MappingProxyType(dict(self.mirrors)),
      MappingProxyType(dict(self._replicas.zero_shards)),
      train_op,
      segments=self._segments,
    )


def _ops_of_step(spec: tf.estimator.EstimatorSpec) -> set[tf.Operation]:
  """Returns the ops that a step runs."""
  fetches = [spec.train_op, spec.loss]
  if spec.train_op is None:
    fetches += [spec.predictions, spec.eval_metric_ops]
  flat = [x for x in tf.nest.flatten(fetches) if x is not None]
  return traversal.ops_run_with(*flat)


def _ops_of_results(spec: tf.estimator.EstimatorSpec) -> list[tf.Operation]:
  """Returns the ops of a model's loss, or else of its predictions."""
  results = spec.predictions if spec.loss is None else spec.loss
  return [x.op for x in tf.nest.flatten(results) if x is not None]
