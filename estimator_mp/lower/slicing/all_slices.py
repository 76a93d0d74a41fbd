"""All slices: the passes when model_fn has returned, as slice 0 is there.

cut, read            what slices read
mirror, clone        further micro-batches and replicas
join, accumulate     what is executed once reads the whole batch
order                the cells of each device, and collectives
update               each replica keeps its variables equal
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from compat.private import graph_edits, graph_reads
from estimator_mp import mesh as mesh_lib
from estimator_mp.collectives import sparse
from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.config.schedules.orders import AUTO
from estimator_mp.config.schedules.schedule import Cell, Schedule
from estimator_mp.graph import clones as clones_lib
from estimator_mp.graph import control_flow, op_types, traversal
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph.calls import grouping
from estimator_mp.graph.ledger import Ledger, Role, made_in
from estimator_mp.lower import accumulation, ordering, recompute
from estimator_mp.lower import replicas as replicas_lib
from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import reports, slice_zero
from estimator_mp.lower.slicing import runs as runs_lib
from estimator_mp.lower.slicing import slices as slices_lib
from estimator_mp.lower.slicing.bridges import Bridge, Kind
from estimator_mp.lower.slicing.runs import Run
from estimator_mp.pipeline import auto_schedule, recomputation
from estimator_mp.pipeline import cells as cells_lib
from estimator_mp.plan import (
  batch_report,
  collective_order,
  gradient_sums,
  phase_costs,
  segments,
  sharding_plan,
)
from estimator_mp.plan.batch_plan import BatchOps

import tensorflow as tf

_ENDS = frozenset([Kind.JOIN, Kind.SUM, Kind.FIRST])


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
      ledger: What was made in the graph.
    """
    self._ledger = ledger
    self._config = config
    self._mesh = mesh
    self._policy = recomputation.make_policy(config.recompute, schedule)
    self._recomputation = recomputation.Recomputation({}, ())
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
    self._found = batch_report.Segments(0)

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

  def finish(
    self,
    spec: tf.estimator.EstimatorSpec,
    new: Sequence[tf.Operation],
    stages: Mapping[tf.Operation, int],
    batch: BatchOps,
  ) -> tf.estimator.EstimatorSpec:
    """Makes all slices, and lets the rest of the graph read all of them.

    Args:
      spec: What model_fn returned.
      new: The ops that were made since the last request for gradients.
      stages: The stages of ops.
      batch: What depends on the batch.

    Returns:
      The spec of the whole batch.
    """
    graph = tf.compat.v1.get_default_graph()
    with tf.control_dependencies(None):
      self._zero.template.redirect(new)
      spec = spec._replace(
        loss=self._zero.whole(spec.loss),
        predictions=self._zero.whole(spec.predictions),
      )
      ops = [
        op
        for op in graph.get_operations()
        if self._ledger.role(op) is not Role.CUT
      ]
      bridges = [*self._bridges.all.values()]
      step = _ops_of_step(spec)
      own, late = self._slice(ops, bridges)
      runs = self._find_runs(own, bridges, step)
      self._report(spec, ops, own, step, len(runs), batch)
      self._fill_reads(bridges, own, batch)
      own = self._plan_products(runs, own, ops, bridges, stages)
      self._plan_schedule(runs, stages)
      own = self._recompute(runs, own, stages)
      inside = set(own)
      read = [x for op in own for x in traversal.sources(op)]
      self._replicas.mirror(
        self._shared([x for x in read if x not in inside], inside)
      )
      self._clone(runs, own)
      summed = self._fill_ends(bridges, runs)
      for number, waits in late.items():
        for tensor in summed.get(number, ()):
          graph_edits.add_control_inputs(tensor.op, waits)
      self._wait_for_all(ops, own)
      for run in runs:
        run.order(self._clones, self._policy.kept, self._of_cells)
    # What is done once leads to the loss, too, or was made for its gradients.
    results = traversal.ops_run_with(*_ops_of_results(spec))
    once = {x for x in results if not op_types.is_variable(x)}
    passes = {*own, *once, *self._backward}
    passes.update(self._ledger.with_role(Role.PASS))
    spec = self._replicas.keep_equal(spec, passes)
    ordering.order_collectives(collective_order.collectives_of(graph))
    return spec

  def _slice(
    self, ops: Sequence[tf.Operation], bridges: Sequence[Bridge]
  ) -> tuple[list[tf.Operation], dict[int, list[tf.Operation]]]:
    """Returns what slice 0 has; it does not wait for what is done once.

    Returns:
      The ops, and for each request what its gradients wait for instead.
    """
    ends = {x.op for x in bridges if x.kind in _ENDS}
    begins = {x.op for x in bridges} - ends
    own_numbers = (self._slices.sizes[0], self._slices.weights[0])
    begins |= {x.op for x in own_numbers if isinstance(x, tf.Tensor)}
    between = segments.ops_between(
      ops, begins, ends, self._backward, self._zero.template.ops
    )
    inside = set(between)
    read = [x for op in ends for x in traversal.inputs(op)]
    own = _needed(between, read, ops)
    late: dict[int, list[tf.Operation]] = {}
    for op in [*own, *self._once_for([*begins, *own], inside | ends)]:
      waits = [x for x in op.control_inputs if x not in inside]
      if waits and op in self._backward and not op.op_def.is_stateful:
        kept = [x for x in op.control_inputs if x in inside]
        graph_edits.set_control_inputs(op, kept)
        # A bridge that slices begin at is not run itself, and gradients wait
        # for each other only so that they come at once.
        others = [x for x in waits if x not in self._backward.keys() | begins]
        late.setdefault(self._backward[op], []).extend(others)
    return own, {k: [*dict.fromkeys(v)] for k, v in late.items()}

  def _once_for(
    self, readers: Collection[tf.Operation], others: Collection[tf.Operation]
  ) -> list[tf.Operation]:
    """Returns what is made once for gradients, and slices wait for.

    Args:
      readers: What slices begin at, and what they have.
      others: What is not made once.
    """

    def before(op: tf.Operation) -> list[tf.Operation]:
      return [x for x in traversal.sources(op) if x not in others]

    found = set(traversal.walk(readers, before)) - {*readers}
    found.intersection_update(self._backward)
    if not found:
      return []
    graph = tf.compat.v1.get_default_graph()
    inner = control_flow.ops_in_branches(graph.get_operations())
    return [
      op
      for op in self._backward
      if op in found
      and op not in inner
      and graph_reads.outermost_loop(op) is None
    ]

  def _report(
    self,
    spec: tf.estimator.EstimatorSpec,
    ops: Sequence[tf.Operation],
    own: Sequence[tf.Operation],
    step: Collection[tf.Operation],
    num_segments: int,
    batch: BatchOps,
  ) -> None:
    """Finds what the plan says of the batch, and what it may not say."""
    captured = reports.Captured(
      [op for op in ops if op in step],
      own,
      [x for x in self._bridges.all.values() if x.op in step],
      self._made_for(),
      self._backward,
      batch,
    )
    self._found = reports.segments_of(
      captured,
      _ops_of_results(spec),
      num_segments,
      self._slices.count,
      self._slices.num_examples,
    )
    batch_report.check(self._found, self._config.fallback)

  def _fill_reads(
    self,
    bridges: Sequence[Bridge],
    own: Collection[tf.Operation],
    batch: BatchOps,
  ) -> None:
    """Puts rows and whole tensors where slices read them.

    Args:
      bridges: All bridges.
      own: What slice 0 has.
      batch: What depends on the batch.
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
            # What is made for slice 0 shall not know how many rows it has.
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
    """Returns what is the same for all slices, whatever is in the batch.

    Args:
      read: What slices read.
      ends: What is not looked behind.

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

  def _find_runs(
    self,
    own: Sequence[tf.Operation],
    bridges: Sequence[Bridge],
    step: Collection[tf.Operation],
  ) -> list[Run]:
    """Returns what slices do in a step, segment by segment."""
    ends = {x.op for x in bridges if x.kind in (Kind.JOIN, Kind.SUM)}
    graph = tf.compat.v1.get_default_graph()
    numbers = segments.segments_of_ops(
      graph.get_operations(), set(own), ends, self._backward
    )
    found: dict[int, Run] = {}
    run_of: dict[tf.Operation, Run] = {}
    for op in filter(step.__contains__, own):
      run_of[op] = found.setdefault(numbers[op], Run(self._backward))
      run_of[op].ops.append(op)
    for bridge in bridges:
      if bridge.of is not None and bridge.source.op in run_of:
        run_of[bridge.source.op].gradients.append(bridge)
    return [found[number] for number in sorted(found)]

  def _plan_products(
    self,
    runs: Sequence[Run],
    own: Sequence[tf.Operation],
    ops: Sequence[tf.Operation],
    bridges: Sequence[Bridge],
    stages: Mapping[tf.Operation, int],
  ) -> list[tf.Operation]:
    """Decides what micro-batches multiply at once; returns what each has."""
    made = self._backward
    if self._schedule.splits_backward:
      ordering.open_gates(made, made, stages)
    mode = self._config.weight_gradients
    products: set[tf.Operation] = set()
    if mode != "each" and not self._policy.stages:
      for run in runs:
        products.update(
          run.plan_products(mode, self._schedule, stages, self._clones)
        )
    waiting = [
      op
      for op in made
      if any(
        not products.isdisjoint(x.control_inputs) for x in op.control_inputs
      )
    ]
    ordering.open_gates(waiting, made, stages)
    made_of = {
      bridge.op: run.made_of(bridge) for run in runs for bridge in run.gradients
    }
    read = [
      x.op
      for bridge in bridges
      if bridge.kind in _ENDS
      for x in made_of.get(bridge.op, [bridge.source])
    ]
    needed = _needed(own, read, ops)
    inside = set(needed)
    for run in runs:
      run.ops = [op for op in run.ops if op in inside]
    return needed

  def _plan_schedule(
    self, runs: Sequence[Run], stages: Mapping[tf.Operation, int]
  ) -> None:
    """Decides in which order micro-batches pass the stages."""
    self._settle(runs, stages)
    if self._schedule.name == AUTO:
      costs = phase_costs.phase_costs(
        self._passes(runs),
        self._schedule.num_stages,
        self._measured(),
        self._slices.count,
      )
      self._schedule = auto_schedule.fastest(self._schedule, costs)
      self._settle(runs, stages)

  def _settle(
    self, runs: Sequence[Run], stages: Mapping[tf.Operation, int]
  ) -> None:
    for run in runs:
      run.settle(stages, self._schedule)

  def _measured(self) -> dict[str, float] | None:
    """Returns the measured seconds of ops of slice 0, by their names."""
    measured = self._config.measured_seconds
    if measured is None:
      return None
    return {
      copy.name: measured[op.name]
      for copy, op in self._made_for().items()
      if op.name in measured
    }

  def _made_for(self) -> dict[tf.Operation, tf.Operation]:
    """Returns the ops of slice 0, with those whose work they do."""
    made_for = self._ledger.made_for
    return {op: made_for[op] for op in self._ledger.with_role(Role.SLICE)}

  def _passes(self, runs: Sequence[Run]) -> dict[tf.Operation, cells_lib.Pass]:
    return {op: x for run in runs for op, x in run.passes.items()}

  def _recompute(
    self,
    runs: Sequence[Run],
    own: Sequence[tf.Operation],
    stages: Mapping[tf.Operation, int],
  ) -> list[tf.Operation]:
    """Lets backward passes compute activations again; returns all ops."""
    if not self._policy.stages:
      return list(own)
    inside = set(own)
    self._recomputation = recomputation.plan_recomputation(
      own,
      self._passes(runs),
      self._policy.stages,
      lambda tensor: tensor.op in inside,
    )
    number_of = {op: i for i, run in enumerate(runs) for op in run.ops}
    made = self._recomputed = recompute.compute_again(self._recomputation)
    self._backward.update(dict.fromkeys(made, 0))
    for op in reversed([*made]):  # As soon as one of the segments reads it.
      readers = [
        number_of[x] for x in traversal.consumers(op) if x in number_of
      ]
      number_of[op] = min(readers, default=len(runs) - 1)
      run = runs[number_of[op]]
      run.recomputed[op] = made[op]
      run.ops.append(op)
    for run in runs:
      run.ops = traversal.in_order(run.ops)
    self._settle(runs, stages)
    return traversal.in_order([*own, *made])

  def _clone(self, runs: Sequence[Run], own: Sequence[tf.Operation]) -> None:
    """Makes the other slices."""
    groups: Mapping[tf.Operation, Any] = {}
    if self._config.cells == "functions" and not self._policy.kept:
      keys = {
        op: (number, of_op, op.device)
        for number, run in enumerate(runs)
        for op, of_op in run.passes.items()
        if op.device
      }
      groups = grouping.groups_of(own, keys)
    read = {x.source.op for x in self._bridges.all.values()}
    made = [x.op for run in runs for y in run.gradients for x in run.made_of(y)]
    with self._ledger.creating(Role.PASS):
      self._clones.add(own, groups, frozenset([*read, *made]))
    slices = range(self._slices.count)
    kept = [x for x in slices if x % self._count in self._policy.kept]
    recompute.keep(self._recomputation, self._clones, kept)
    for run in runs:
      run.start_sums(self._clones)

  def _fill_ends(
    self,
    bridges: Sequence[Bridge],
    runs: Sequence[Run],
  ) -> dict[int, list[tf.Tensor]]:
    """Lets what is done once read what all slices make.

    Returns:
      The sums of gradients, and what else was joined, by the requests for
      which that was.
    """
    found: dict[int, list[tf.Tensor]] = {}
    number_of = {x.op: i for i, run in enumerate(runs) for x in run.gradients}
    # What is added up at once waits for no other sum.
    together: dict[tuple[int, int], list[Bridge]] = {}
    indices = {x.together.op for x in bridges if x.together is not None}
    for position, bridge in enumerate(bridges):
      if bridge.op in indices or bridge.kind not in (Kind.JOIN, Kind.SUM):
        continue
      if bridge.of is not None:
        alone = -1 - position
        key = (bridge.request or 0, number_of.get(bridge.op, alone))
        together.setdefault(key, []).append(bridge)
        continue
      is_sum = bridge.kind is Kind.SUM
      whole = self._sum(bridge) if is_sum else self._join(bridge)
      self._replace_whole(bridge, whole)
      if bridge.request is not None:
        found.setdefault(bridge.request, []).append(whole)
    for (request, _), group in together.items():
      sums = self._sum_gradients(group, runs)
      found.setdefault(request, []).extend(sums)
    return found

  def _sum(self, bridge: Bridge) -> tf.Tensor:
    copies = [bridge.source, *self._clones.of(bridge.source)]
    with bridges_lib.outside(bridge.op.device):
      return tf.add_n(copies)

  def _join(self, bridge: Bridge) -> tf.Tensor:
    copies = [bridge.source, *self._clones.of(bridge.source)]
    rank = bridge.output.shape.rank
    with bridges_lib.outside(bridge.op.device):
      joined = self._slices.join(copies, bridge.rows, rank)
    joined.set_shape(bridge.output.shape)
    return joined

  def _sum_gradients(
    self, bridges: Sequence[Bridge], runs: Sequence[Run]
  ) -> list[tf.Tensor]:
    """Adds up gradients, those of each replica first."""
    place = {op: i for run in runs for i, op in enumerate(run.ops)}
    dense = {x.op for x in bridges if x.together is None}
    by_calls = self._config.cells == "functions"
    alone = accumulation.Accumulation(self._clones, self._schedule)
    with (
      bridges_lib.outside(""),
      tf.compat.v1.name_scope(None),
      tf.compat.v1.name_scope("aggregate"),
    ):
      with self._ledger.creating(Role.PASS):
        known: dict[tf.Operation, Sequence[gradient_lib.Gradient]] = {}
        for run in runs:
          own = [x for x in run.gradients if x.op in dense]
          known |= run.totals(own, by_calls) if own else {}
        parts: list[Sequence[gradient_lib.Gradient]] = []
        for bridge in bridges:
          if bridge.together is not None:
            parts.append(self._rows_of_replicas(bridge))
          elif bridge.op in known:
            parts.append(known[bridge.op])
          else:  # A constant, or no part of a step.
            parts.append(alone.totals(bridge.source, {}))
      planned = self._replicas.plan_sums(
        [_variable_of(x.of.op) for x in bridges if x.of is not None],
        parts,
        [place.get(x.source.op, 0) for x in bridges],
      )
      sums = self._replicas.sum(parts, planned)
    self._sums.append(planned)
    for bridge, total in zip(bridges, sums, strict=True):
      if bridge.together is None:
        self._replace_whole(bridge, total)
      else:
        total = self._rows_of(total)
        self._replace_whole(bridge, total.values)
        self._replace_whole(bridge.together, total.indices)
    return runs_lib.flat(sums)

  def _rows_of(self, total: gradient_lib.Gradient) -> tf.IndexedSlices:
    """Returns a gradient that was summed as a dense one as all of its rows."""
    if isinstance(total, tf.IndexedSlices):
      return total
    with bridges_lib.outside(total.device):
      rows = tf.range(tf.shape(total)[0])
      return tf.IndexedSlices(total, rows, tf.shape(total))

  def _rows_of_replicas(self, bridge: Bridge) -> list[tf.IndexedSlices]:
    """Returns the rows of a sparse gradient that each replica's slices list."""
    assert bridge.together is not None
    values, indices = (
      [x.source, *self._clones.of(x.source)] for x in (bridge, bridge.together)
    )
    found = []
    for replica in range(self._replicas.count):
      own = slice(replica * self._count, (replica + 1) * self._count)
      rows = [
        tf.IndexedSlices(*x, bridge.dense_shape)
        for x in zip(values[own], indices[own], strict=True)
      ]
      found.append(sparse.sum_on(rows[0].values.device, rows))
    return found

  def _replace_whole(self, bridge: Bridge, whole: tf.Tensor) -> None:
    """Lets what reads a bridge, or fetches it, read the whole batch's value."""
    bridges_lib.replace(bridge.output, whole)
    if not whole.shape.is_compatible_with(bridge.source.shape):
      # An input keeps the sizes that it had: those of a slice.
      with bridges_lib.outside(bridge.op.device):
        shape = [None] * whole.shape.rank
        whole = tf.compat.v1.placeholder_with_default(whole, shape)
    graph_edits.replace_input(bridge.op, 0, whole)

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
      segments=self._found,
    )


def _ops_of_step(spec: tf.estimator.EstimatorSpec) -> set[tf.Operation]:
  """Returns the ops that a step runs."""
  fetches = [spec.train_op, spec.loss]
  if spec.train_op is None:
    fetches += [spec.predictions, spec.eval_metric_ops]
  flat = [x for x in tf.nest.flatten(fetches) if x is not None]
  return traversal.ops_run_with(*flat)


def _needed(
  inside: Sequence[tf.Operation],
  read: Iterable[tf.Operation],
  ops: Iterable[tf.Operation],
) -> list[tf.Operation]:
  """Returns what a slice has to run of its ops.

  Args:
    inside: The ops that it has, in order.
    read: What is read of it.
    ops: All ops: what else waits for some of the slice.
  """
  own = set(inside)
  awaited = [
    x
    for op in ops
    if op not in own and not own.isdisjoint(op.control_inputs)
    for x in op.control_inputs
  ]
  found = traversal.walk(
    [x for x in (*read, *awaited) if x in own],
    lambda x: own.intersection(traversal.sources(x)),
  )
  needed = set(found)
  return [op for op in inside if op in needed]


def _ops_of_results(spec: tf.estimator.EstimatorSpec) -> list[tf.Operation]:
  """Returns the ops of a model's loss, or else of its predictions."""
  results = spec.predictions if spec.loss is None else spec.loss
  return [x.op for x in tf.nest.flatten(results) if x is not None]


def _variable_of(op: tf.Operation) -> tf.Operation:
  """Returns the variable that slices read, or what else they do."""
  while op.type in op_types.WHOLE_READS and op.inputs:
    op = op.inputs[0].op
  return op
