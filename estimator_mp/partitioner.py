"""The partitioner: a finished graph of the whole batch becomes one of slices.

model_fn has returned, and its graph is the plain program's: forward, backward,
clipping, updates. Nothing of it is intercepted. What is split, and where, is
decided on that graph (`analysis`, `propagate`, `plan`), made as data
(`lower.instantiation`), and added to it at once; then what is executed once
reads what slices make.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import (
  Collection,
  Iterable,
  Mapping,
  Sequence,
)
from types import MappingProxyType

from compat.private import graph_reads
from estimator_mp import devices, model_partitioner
from estimator_mp import mesh as mesh_lib
from estimator_mp.analysis.symbolic_shapes import (
  EXAMPLES,
  MEASURES,
  SymbolicShapes,
)
from estimator_mp.capture import batch_size, replica_batches
from estimator_mp.config import sharding_config, split_rules
from estimator_mp.config.schedules.orders import AUTO
from estimator_mp.config.schedules.schedule import Cell, Phase, Schedule
from estimator_mp.graph import (
  batch_inputs,
  control_flow,
  device_assignment,
  draws,
  feeds,
  frames,
  op_types,
  shapes,
  traversal,
  variables,
)
from estimator_mp.graph.calls import inlining
from estimator_mp.graph.frames import Frames
from estimator_mp.lower import ordering, process_sums, recompute, sends
from estimator_mp.lower.instantiation import (
  SLICE,
  Fetch,
  Instantiation,
  ReadApart,
)
from estimator_mp.lower.lookups import Lookups
from estimator_mp.lower.replicas import Replicas
from estimator_mp.pipeline import (
  auto_schedule,
  cells,
  recomputation,
  weight_products,
)
from estimator_mp.pipeline.weight_products import WeightProduct
from estimator_mp.placement import half_sends
from estimator_mp.plan import (
  batch_report,
  finished_report,
  gradient_sums,
  late_waits,
  phase_costs,
  reshards,
  slice_passes,
  split_options,
  split_plan,
  unordered_reads,
  update_reads,
)
from estimator_mp.plan import stages as stages_lib
from estimator_mp.plan.purpose import TRAINING, Purpose
from estimator_mp.propagate import splits
from estimator_mp.propagate.layouts import ONCE, Layout, Partition, Shard
from estimator_mp.propagate.propagation import Propagation, is_without_state
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial, Size

import numpy as np
import tensorflow as tf


class Partitioner:
  """Partitions the graph of one call of a model_fn over slices of its batch.

  Attributes:
    ops: What a step runs, each op after those that it reads.
    shapes: The sizes of tensors.
    batch: Their layouts over slices.
    stages: The stages of ops.
    passes: For each segment the passes of ops through stages.
    reshards: What slices cut, join and sum.
    report: What is to be told of slices; None if there are none.
    schedule: The order of micro-batches.
    cells: For each replica the cells of what `lower` has made, by their names.
    recomputed: The stages of what the first slice computes again, by names;
      after `lower`.
    replicas: The replicas.
    sums: How they sum gradients, for each round of updates; after `lower`.
    splits: The variables that are split over the model axis.
    model_axis: What has split them; None if nothing is split.
    cuts_of_inputs: The ops that cut inputs, and measure them; after `lower`.
  """

  def __init__(
    self,
    inputs: Sequence[batch_inputs.Input],
    fetches: Sequence[Fetch],
    config: sharding_config.ShardingConfig,
    mesh: mesh_lib.Mesh,
    purpose: Purpose = TRAINING,
    given: Collection[tf.Operation] = (),
    marks: Mapping[tf.Operation, bool] = MappingProxyType({}),
  ):
    """Decides how ops are executed.

    Calls of functions are inlined first, and reads come before writes: that is
    still the plain graph. Nothing else is edited before `lower`.

    Args:
      inputs: Features and labels with a dimension of examples.
      fetches: What a step runs: the loss and what trains, or results.
      config: How the model is sharded.
      mesh: The devices.
      purpose: What the graph is for.
      given: The ops that were there before model_fn was called.
      marks: The marks of what is summed over processes, of `process_sums.mark`.

    Raises:
      ValueError: If the model cannot be placed, or the batch not be cut, as the
        configuration says.
    """
    self._graph = fetches[0].graph
    self._inputs = list(inputs)
    self._of_examples = tf.nest.flatten(
      [x.value for x in inputs], expand_composites=True
    )
    self._fetches = list(fetches)
    self._mesh = mesh
    self._purpose = purpose
    self.schedule = config.create_schedule()
    self._slices = slices_of_replicas(self.schedule, mesh, purpose)
    if not (inputs or purpose.trains):
      self._slices = [range(1)]
    self.replicas = Replicas(config, mesh, len(self._slices))
    self.sums: list[tuple[gradient_sums.GradientSum, ...]] = []
    self.splits: split_plan.SplitPlan | None = None
    self.model_axis: model_partitioner.ModelPartitioner | None = None
    self._split_axis = split_options.split_axis(config, mesh, purpose)
    self._parts: dict[tf.Operation, int] = {}  # Of that axis.
    # What was made in the place of ops of gradients.
    self._gradients: set[tf.Operation] = set()
    self.cuts_of_inputs: list[tf.Operation] = []
    self._read_apart = ReadApart()
    before = set(self._graph.get_operations())
    self._num_examples = self._checked_size() if self.has_slices else None
    self._checks = set(self._graph.get_operations()) - before
    # They are on the host, whatever stages are there.
    self._given = self._checks.union(given)
    self._inline(op_types.FUNCTION_CALLS)
    if purpose.trains:
      self._order_reads()
    if self.has_slices:
      self._inline(inlining.INLINED)
      if purpose.trains:
        self._order_reads()  # A loop has ended before each of its ops has.
    self._per_example = [re.compile(x) for x in config.per_example]
    self._draws_per_slice = config.draws == "per_slice"
    self._norms_per_slice = config.batch_norm == "per_micro_batch"
    self._kept: frozenset[int] = frozenset()
    self._recomputed: dict[tf.Operation, tf.Operation] = {}
    self.recomputed: dict[str, int] = {}
    self._forward: set[tf.Operation] = set()
    self.cells: list[dict[str, Cell]] = [{} for _ in self._slices]
    self._analyse()
    self._backward = self._find_backward()
    of_input = traversal.ops_run_with(*self._of_examples).union(self._given)
    self.stages = dict(
      stages_lib.plan_stages(
        [op for op in self._graph.get_operations() if op not in of_input],
        self._backward,
        config,
        mesh,
        self._purpose,
      )
    )
    if purpose.trains and config.transfer_dtype != "float32":
      self._send_in_half(tf.dtypes.as_dtype(config.transfer_dtype))
    self._marks = dict(marks)
    if self._split_axis is not None:
      self._split_variables(config, self._split_axis)
    if marks:
      self._sum_over_processes(config.horovod_op)
    self._plan_passes()
    if self.schedule.name == AUTO:
      self.schedule = auto_schedule.fastest(
        self.schedule,
        phase_costs.phase_costs(
          self._all_passes, self.schedule.num_stages, config.measured_seconds
        ),
      )
    if purpose.trains and self.has_slices:
      self._recompute(config.recompute)
    self.reshards = reshards.find(
      self.ops,
      self.batch,
      self._of_inputs,
      self.shapes,
      [x for x in self._fetches if isinstance(x, tf.Tensor)],
    )
    is_kept = not self._recomputed
    self._products = self._plan_products(
      config.weight_gradients if is_kept else "each"
    )
    self.report = self._report() if self.has_slices else None
    if self.report is not None:
      batch_report.check(self.report, config.fallback)

  def _analyse(self) -> None:
    """Reads the graph: what a step runs, its sizes, and its layouts."""
    live = traversal.ops_run_with(*self._fetches)
    every = self._graph.get_operations()
    self._frames = Frames(every)
    self.ops = frames.in_order([op for op in every if op in live], self._frames)
    self.shapes = SymbolicShapes(
      self._inputs, self._frames, self._is_per_example
    )
    self.shapes.add(self.ops)
    self._of_inputs = self._find_of_inputs()
    starts = [tensor.op for tensor in self._of_examples]
    self._depends = set(traversal.descendants(starts, every))
    self._updates = self._find_updates()
    # One example is in one slice, and each size of 1 could be of examples.
    is_cut = self.has_slices and self.shapes.num_examples != 1
    self.batch = self._propagate(
      filter(self._may_be_in_parts, self.ops) if is_cut else ()
    )

  def _find_updates(self) -> set[tf.Operation]:
    """Returns what is made of gradients, and no gradient of it."""
    gradients = [
      op
      for op in self.ops
      if op in self._gradients or graph_reads.is_of_gradient(op)
    ]
    behind = traversal.descendants(gradients, self.ops)
    before = set(traversal.ancestors(gradients, self.ops))
    return {op for op in behind if op not in before and op.type != "AddN"}

  def _find_backward(self) -> set[tf.Operation]:
    """Returns what comes after the forward pass."""
    every = self._graph.get_operations()
    values = [op for op in every if op.type not in MEASURES]
    starts = [tensor.op for tensor in self._of_examples]
    of_values = set(traversal.descendants(starts, values))
    return set(stages_lib.backward_of(traversal.in_order(every), of_values))

  def _send_in_half(self, dtype: tf.DType) -> None:
    """Lets stages send what is of examples by casts, and analyses once more.

    Args:
      dtype: What they send it as.
    """
    batch = self.batch
    if not self.has_slices:  # What slices would have parts of is of examples.
      batch = self._propagate(filter(is_without_state, self.ops))
    found = half_sends.find_half_sends(
      self.ops,
      set(self.ops),
      self.stages,
      self._mesh.stage_devices(),
      self._of_examples,
    )
    made = sends.send_in_half(
      [x for x in found if isinstance(batch.layout(x.tensor), Shard)], dtype
    )
    self.stages.update(made)
    self._analyse()
    self._backward = self._find_backward()

  def _split_variables(
    self, config: sharding_config.ShardingConfig, axis: str
  ) -> None:
    """Splits variables over an axis, and analyses what that has made."""
    count = self._mesh.axis_size(axis)
    of_model = op_types.variables_of(self._graph.get_operations())
    users = {
      op
      for x in of_model
      if x.type == "VarHandleOp"
      for op in variables.users(x.outputs[0])
    }
    branches = inlining.INLINED - op_types.FUNCTIONAL_LOOPS
    self._inline_calls([op for op in users if op.type in branches], branches)
    results = self._purpose.results
    decided, undecided = self._asked_splits(config, of_model, count)
    self.model_axis = model_partitioner.ModelPartitioner(
      self._inputs,
      count,
      lambda op: [
        self._mesh.device(stage=self.stages.get(op, 0), **{axis: part})
        for part in range(count)
      ],
    )
    made = self.model_axis.split(
      [*self._fetches, *results],
      decided,
      undecided,
      {*self._backward, *filter(graph_reads.is_of_gradient, self.ops)},
      config.memory_limit,
      lambda write: (
        config.initial_values == "by_shard"
        or max(map(shapes.tensor_bytes, write.inputs), default=0)
        > config.plain_initial_bytes
      ),
      # What has a seed as its input draws the same wherever it is.
      lambda op: self._draws_per_slice and draws.may_differ(op.node_def),
    )
    self.splits = made.plan
    split_options.check_gathers(made.plan.gathers, config, self._graph)
    num_fetches = len(self._fetches)
    self._fetches = list(made.fetches[:num_fetches])
    self._purpose = dataclasses.replace(
      self._purpose, results=tuple(made.fetches[num_fetches:])
    )
    if axis == "data":
      self.replicas.spread(made.handles)
    for op, (plain, part) in (*made.made_for.items(), *made.handles.items()):
      self._parts[op] = part
      if plain in self.stages:
        self.stages[op] = self.stages[plain]
      if plain in self._backward:
        self._backward.add(op)
      if plain in self._gradients or graph_reads.is_of_gradient(plain):
        self._gradients.add(op)
      if plain in self._marks and op.type == plain.type:
        self._marks[op] = self._marks[plain]
    self._analyse()

  def _sum_over_processes(self, method: str) -> None:
    """Lets updates read the gradients of all processes, and analyses those.

    Args:
      method: "mean" or "sum".
    """
    run = {*self.ops}
    marks = {op: rows for op, rows in self._marks.items() if op in run}
    for op, mark in process_sums.sum_marked(marks, method).items():
      if mark in self.stages:
        self.stages[op] = self.stages[mark]
      self._parts[op] = self._parts.get(mark, 0)
      self._backward.add(op)
    self._analyse()

  def _asked_splits(
    self,
    config: sharding_config.ShardingConfig,
    of_model: Iterable[tf.Operation],
    count: int,
  ) -> tuple[dict[tf.Operation, splits.Shard | None], list[tf.Operation]]:
    """Returns how a user wants variables split, and those to be searched."""
    handles = [
      x for x in of_model if x.type == "VarHandleOp" and x not in self._given
    ]
    trained = {x.op for x in tf.compat.v1.trainable_variables()}
    if config.split == split_rules.AUTO:
      return {}, [x for x in handles if x in trained and _is_matrix(x)]
    return split_options.splits_of_rules(
      config.split, handles, trained, count
    ), []

  def _plan_passes(self) -> None:
    """Decides what slices wait for, and which passes ops are in."""
    in_loops = {op for op in self.ops if self._frames.read_in(op) is not None}
    every = self._graph.get_operations()
    self._late = late_waits.plan_waits(
      self.ops,
      self.batch.parts.keys() - self._of_inputs,
      control_flow.ops_in_branches(every) | in_loops,
    )
    self.passes = slice_passes.plan_passes(
      self.ops,
      self.batch,
      self._of_inputs,
      self._backward,
      self.stages,
      self.schedule,
      self._late.waits,
      self._frames.loop,
    )
    self._segments = {
      op: i for i, of_one in enumerate(self.passes) for op in of_one
    }
    self._last_phases = [
      max(x.phase for x in of_one.values()) for of_one in self.passes
    ]

  @property
  def _all_passes(self) -> dict[tf.Operation, cells.Pass]:
    return {op: x for of_one in self.passes for op, x in of_one.items()}

  def _recompute(self, option: str) -> None:
    """Lets backward passes compute activations again, and plans once more."""
    policy = recomputation.make_policy(option, self.schedule)
    in_parts = [op for op in self.ops if op in self._segments]
    parts = self.batch.parts
    plan = recomputation.plan_recomputation(
      in_parts,
      self._all_passes,
      policy.stages,
      lambda tensor: tensor.op in parts,
      [op for op in in_parts if parts[op].exchanges],
    )
    if not plan.reads:
      return
    made = recompute.compute_again(plan)
    originals = [op for ops in plan.again.values() for op in ops]
    self._recomputed = dict(zip(made, originals, strict=True))
    self._kept = policy.kept
    self.stages.update(made)
    self._parts.update(
      {
        copy: self._parts[op]
        for copy, op in self._recomputed.items()
        if op in self._parts
      }
    )
    self._backward.update(made)
    self._analyse()
    self._plan_passes()

  def lower(self) -> list[Fetch]:
    """Makes the slices, and orders them.

    Returns:
      What stands for the loss, and for what trains.
    """
    axis = self._split_axis or "model"
    for part in range(self._mesh.axis_size(axis)):
      of_part = {
        op: stage
        for op, stage in self.stages.items()
        if self._parts.get(op, 0) == part
      }
      devices = self._mesh.stage_devices(**{axis: part})
      device_assignment.assign(of_part, devices)
    # What an op of slices need not wait for is none of theirs.
    inside = {*self.ops}
    of_slices = inside.intersection(
      traversal.walk(self.batch.parts, self._late.waits.sources)
    )
    alike = of_slices - self._depends  # In all slices.
    lookups = self.model_axis.lookups if self.model_axis else None
    if lookups is not None:  # A lookup reads the first shard until it is made.
      alike |= {y for x in alike for y in lookups.shards_with(x)}
    self.replicas.mirror(
      [
        op
        for op in self._graph.get_operations()
        if op in alike and self._frames.loop(op) is None
      ]
    )
    if lookups is not None and self.replicas.variables:
      for replica in range(1, self.replicas.count):
        lookups.mirror(
          functools.partial(self.replicas.copy_of, replica=replica)
        )
    updates = {op for op in self.ops if op not in of_slices}
    aggregated_for = self.replicas.variables
    if not aggregated_for and self.replicas.count > 1:  # One has all of them.
      aggregated_for = op_types.variables_of(alike)
    reads = update_reads.find(
      self.ops,
      updates,
      set(aggregated_for),
      self._layout_for_updates,
    )
    aggregated = {read.tensor.name for read in reads}
    # What no step runs, as summaries of gradients, reads the same.
    others = of_slices.union(self.ops) - updates
    before = set(self._graph.get_operations())
    made = Instantiation(
      self._graph,
      self.shapes,
      self.batch,
      self._of_inputs,
      self._slices,
      self._measured_input(),
      self._device,
      self._frames,
      self._num_examples,
      self.replicas.copy_of,
      lambda op, tensor: op not in others and tensor.name in aggregated,
      self._order_of_sums,
      self._late,
      self._products,
      self._kept_of_recomputed(),
      self._read_apart,
    )
    made.add(self.ops)
    # Such as summaries: they read what a step has made, and no plain op.
    made.redirect(self._graph.get_operations())
    made.keep_state(self._depends_on_state())
    fetches = made.apply(self._fetches)
    self.cuts_of_inputs = self._find_cuts(made, before)
    with tf.compat.v1.name_scope("aggregate"):
      self._aggregate(made, reads)
    for op in self.batch.parts:
      if op not in self._of_inputs:
        feeds.refuse(op)
    firsts = {op: made.copies(op)[0] for op in self._recomputed}
    self.recomputed = {
      x.name: self.stages[op] for op, x in firsts.items() if x is not None
    }
    device_assignment.leave_other_devices(self._graph.get_operations())
    for segment, passes in enumerate(self.passes):
      for own, cells_of_ops in zip(self._slices, self.cells, strict=True):
        self._order(made, segment, own)
        for op, of_op in passes.items():
          for number, copy in enumerate(made.copies(op)[own.start : own.stop]):
            if copy is not None:
              cell = Cell(of_op.stage, number, of_op.phase)
              cells_of_ops.setdefault(copy.name, cell)
    if lookups is not None:
      rows = lookups.exchange(self._lookups_at_once(lookups, made))
      fetches = [rows.get(x.name, x) for x in fetches]
    self._forward = of_slices.union(self._graph.get_operations()) - (
      before - of_slices
    )
    return fetches

  def _lookups_at_once(
    self, lookups: Lookups, made: Instantiation
  ) -> list[list[tf.Operation]]:
    """Returns lookups of tables that are made together, for each slice.

    Args:
      lookups: Those of the plain graph.
      made: What was made of it.
    """
    found: list[list[tf.Operation]] = []
    for group in lookups.groups:
      of_passes: dict[object, list[tf.Operation]] = {}
      for op in group:
        segment = self._segments.get(op)
        own = None if segment is None else self.passes[segment][op]
        place = self.stages.get(op), segment, own, op in self._recomputed
        of_passes.setdefault(place, []).append(op)
      for ops in of_passes.values():
        if ops[0] not in self.batch.parts:
          found.append(ops)
          continue
        of_slices = zip(*map(made.copies, ops), strict=True)
        found += [[x for x in own if x is not None] for own in of_slices]
    known = {op for group in found for op in group}
    for op in self._graph.get_operations():
      if op not in lookups or op in known:
        continue
      if op.outputs[0].consumers():
        found.append([op])
      else:  # As that of the whole batch, of which slices do theirs.
        lookups.leave(op)
    return [group for group in found if group]

  def keep_equal(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Returns a spec that trains all replicas' variables alike.

    Args:
      spec: One with what `lower` has returned.
    """
    spec = self.replicas.keep_equal(spec, self._forward)
    if self.replicas.variables:  # Mirrors have reads and writes of their own.
      step = traversal.ops_run_with(spec.loss, spec.train_op)
      ops = [op for op in self._graph.get_operations() if op in step]
      ordering.read_before_writing(unordered_reads.find(ops, lookups=True))
    return spec

  def _find_cuts(
    self, made: Instantiation, before: Collection[tf.Operation]
  ) -> list[tf.Operation]:
    """Returns what was made to cut inputs: no layer of a slice.

    Args:
      made: What was made.
      before: The ops that were there before.
    """
    layers = {x for op in self.batch.parts for x in made.copies(op)}
    inside = traversal.ops_run_with(*self._of_examples)
    found: list[tf.Operation] = []
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
        found.append(op)
    return found

  def _layout_for_updates(self, tensor: tf.Tensor) -> Layout:
    """Returns the layout of which updates read parts; `Once` of plain ops.

    A replica that reads its own batch tells others which rows it has looked up.
    """
    if tensor.op in self._of_inputs and not self._read_apart.pieces:
      return ONCE
    return self.batch.layout(tensor)

  def _aggregate(
    self, made: Instantiation, reads: Sequence[update_reads.UpdateRead]
  ) -> None:
    """Lets updates read what replicas have aggregated."""
    totals: dict[str, tf.Tensor] = {}
    read = [x for x in reads if x.tensor.name in made.of_replicas]
    in_rounds = sorted(read, key=lambda x: x.round)
    for _, of_round in itertools.groupby(in_rounds, lambda x: x.round):
      planned: list[gradient_sums.GradientSum] = []
      added = []
      for x in of_round:
        parts = made.of_replicas[x.tensor.name]
        if isinstance(x.layout, Shard):
          planned.append(self.replicas.plan_rows(x.variable, parts))
          totals[x.tensor.name] = self.replicas.gather(
            x.variable, parts, x.layout.axis
          )
        else:
          added.append(x)
      if added:
        names = [x.tensor.name for x in added]
        of_names = [made.of_replicas[name] for name in names]
        variables = [x.variable for x in added]
        sums = self.replicas.plan_sums(variables, of_names, range(len(added)))
        summed = self.replicas.sum(of_names, sums)
        totals.update(zip(names, summed, strict=True))
        planned += sums
      self.sums.append(tuple(planned))
    made.read_aggregated(totals)

  @property
  def has_slices(self) -> bool:
    """Whether the batch is in slices."""
    return self._slices[-1].stop > 1

  def _measured_input(self) -> tuple[tf.Tensor, int] | None:
    """Returns an input, and its dimension of examples; None without inputs."""
    return next(((x.value, x.axis) for x in self._dense), None)

  @property
  def _dense(self) -> list[batch_inputs.Input]:
    """The inputs that slices are cut of."""
    composites = batch_inputs.COMPOSITES
    return [x for x in self._inputs if not isinstance(x.value, composites)]

  def _device(self, op: tf.Operation, replica: int) -> str:
    """Returns the device of an op on a replica; "" if it has no stage."""
    stage = self.stages.get(op)
    if stage is None:
      return ""
    variable = self._looked_up(op)
    if variable is not None:  # It is executed where that is.
      return str(self.replicas.copy_of(variable.outputs[0], replica).op.device)
    position = {"data": replica}
    if self._split_axis is not None and op in self._parts:
      position[self._split_axis] = self._parts[op]
    return self._mesh.device(stage=stage, **position)

  def _looked_up(self, op: tf.Operation) -> tf.Operation | None:
    """Returns the variable that an op of slices works on, if it has a place."""
    if op_types.is_call(op):
      return None
    if self.model_axis is not None and op in self.model_axis.lookups:
      return None  # Its rows are wanted here.
    for x in op.inputs:
      variable = variables.variable_of(x) if x.dtype == tf.resource else None
      if variable is not None and not variable.inputs:
        return variable if variable.device else None
    return None

  def _order(
    self,
    made: Instantiation,
    segment: int,
    own: Sequence[int],
  ) -> None:
    """Lets slices of a replica pass the stages in the order of the schedule."""
    passes = self.passes[segment]
    device_of = self.schedule.device_of
    sums: dict[Cell, list[tf.Operation]] = {}
    elsewhere: dict[Cell, list[tf.Operation]] = {}
    in_branches = control_flow.ops_in_branches(self._graph.get_operations())
    for op, added in made.accumulated.items():
      if op not in passes or op not in self.stages or op in in_branches:
        continue  # Nothing may wait for a sum in a branch that is not taken.
      of_sum = self._pass_of_sum(op, segment)
      is_here = device_of(self.stages[op]) == device_of(of_sum.stage)
      found = sums if is_here else elsewhere
      for number, name in added:
        add = made.op_named(name)
        if number in own and add is not None:
          cell = Cell(of_sum.stage, number - own[0], of_sum.phase)
          found.setdefault(cell, []).append(add)
    copies = {op: list(made.copies(op)) for op in passes}
    for op in self._recomputed.keys() & copies.keys():
      for number in self._kept:
        copies[op][own[number]] = None  # It reads what is kept.
    done = {op: x for op, x in passes.items() if any(copies[op])}
    ordering.order_cells(
      self.schedule,
      cells.ends_of_passes(self.schedule, done, self.stages, self._frames.loop),
      lambda number, op: copies[op][own[number]],
      sums,
      elsewhere,
    )

  def _plan_products(self, mode: str) -> dict[str, WeightProduct]:
    """Returns the products of several slices, by the names of their sums."""
    schedule = self.schedule
    found: dict[str, WeightProduct] = {}
    for reshard in self.reshards if mode != "each" else ():
      if reshard.kind is not reshards.Kind.REDUCE:
        continue
      tensor = traversal.tensor_of_name(self._graph, reshard.tensor)
      product = weight_products.plan_product(
        tensor,
        mode,
        schedule.num_micro_batches // schedule.num_rounds,
        self._backward,
        self.stages,
        self._late.waits,
        self._slices[-1].stop,
      )
      how = None if product is None else self.batch.parts.get(product.op)
      if product is None or how is None:
        continue
      axes = [x.axis for x in how.reads if isinstance(x, Shard)]
      if axes == [*product.axes]:
        found[tensor.name] = product
    return found

  def _report(self) -> batch_report.Segments:
    """Returns what the plan says of the batch."""
    return finished_report.segments_of(
      finished_report.PlannedBatch(
        self.ops,
        traversal.ops_run_with(*self._of_examples),
        [x.op for x in self._purpose.results],
        self._depends,
        self._of_inputs,
        self._backward,
        self.shapes,
        self.batch,
        self.reshards,
        self._late.waits,
        len(self.passes),
        self._slices[-1].stop,
      )
    )

  def _order_of_sums(self, op: tf.Operation) -> Sequence[int]:
    """Returns the order in which micro-batches make what is added up."""
    number = self._segments.get(op)
    if number is None:
      return range(self.schedule.num_micro_batches)
    cell = self._pass_of_sum(op, number)
    return self.schedule.micro_batches(cell.stage, cell.phase)

  def _pass_of_sum(self, op: tf.Operation, segment: int) -> cells.Pass:
    """Returns the pass in which what an op makes is added up.

    Nothing waits for the sum of losses, so no forward pass does; unless there
    is nothing else.
    """
    stage, phase = self.passes[segment][op]
    last = self._last_phases[segment]
    return cells.Pass(stage, max(phase, min(last, Phase.BACKWARD)))

  def _kept_of_recomputed(
    self,
  ) -> dict[tuple[tf.Operation, int], tf.Operation]:
    """Returns what is kept, for slices that compute nothing again."""
    return {
      (op, own[number]): original
      for op, original in self._recomputed.items()
      if original in self.batch.parts  # Fewer ops read it now.
      for own in self._slices
      for number in self._kept
    }

  def _depends_on_state(self) -> list[tf.Operation]:
    """Returns ops that make something else whenever they are executed."""
    readers = {
      reader
      for op in self.ops
      if not op.inputs and any(map(op_types.is_handle, op.outputs))
      for reader in unordered_reads.readers_of(op)
    }
    return [
      op for op in self.ops if op in readers or op.type in op_types.RANDOM
    ]

  @property
  def _partition(self) -> Partition:
    return Partition(self.shapes.num_examples, (polynomials.symbol(SLICE),))

  def _may_be_in_parts(self, op: tf.Operation) -> bool:
    """Whether slices may execute an op each for itself, if its rule says so.

    What is done with gradients, such as to clip them, is done with their sums.
    """
    if self._may_be_fed(op) or op in self._updates:
      return False
    return (
      is_without_state(op)
      or self._draws_in_slices(op)
      or self._is_per_example(op)
    )

  def _propagate(self, able: Iterable[tf.Operation]) -> Propagation:
    """Returns the layouts of tensors over slices of the batch.

    Args:
      able: What slices may execute each for itself.
    """
    roots = {x.value.name: Shard(x.axis, self._partition) for x in self._dense}
    for op in self.ops:
      # Slices are cut of what is there then.
      if self._may_be_fed(op):
        rows = self._rows(op.outputs[0])
        if rows is not None:
          roots[op.outputs[0].name] = Shard(0, rows)
    found = Propagation(
      self.shapes,
      roots,
      frozenset(able),
      self._starts,
      self._rows,
      self._of_inputs,
      {x.name for x in self._fetches if isinstance(x, tf.Tensor)},
      self._frames,
      exchanged=() if self._norms_per_slice else ("n",),
      alone=("n",) if self._norms_per_slice else (),
      draws=lambda size: (
        self._partition
        if size == self.shapes.num_examples
        else self._starts(size)
      ),
    )
    found.run(self.ops)
    return found

  def _may_be_fed(self, op: tf.Operation) -> bool:
    """Whether an op was made to be fed; in a loop it bounds rounds, say."""
    is_placeholder = op.type == "PlaceholderWithDefault"
    return is_placeholder and self._frames.loop(op) is None

  def _is_per_example(self, op: tf.Operation) -> bool:
    """Whether the user says that an op computes each example by itself."""
    return any(x.search(op.name) for x in self._per_example)

  def _draws_in_slices(self, op: tf.Operation) -> bool:
    """Whether slices draw random numbers of their own in place of an op."""
    if not self._draws_per_slice:
      return False
    return draws.may_differ(op.node_def) or op.type in op_types.SEED_INPUTS

  def _starts(self, size: Size) -> Partition | None:
    """Returns how something new is split that has a size."""
    if not isinstance(size, Polynomial) or not self.shapes.has_examples(size):
      return None
    return self._partition.of(size)

  def _rows(self, tensor: tf.Tensor) -> Partition | None:
    """Returns how a tensor is split whose first dimension is of examples."""
    shape = self.shapes.shape(tensor)
    if not shape or not self.shapes.has_examples(shape[0]):
      return None
    return self._partition.of(shape[0]) if tensor.op in self._depends else None

  def _find_of_inputs(self) -> set[tf.Operation]:
    """Returns ops that depend on inputs alone, on no state and no draw.

    Sizes of what a model computes are those, too, if they follow from sizes of
    inputs: how many losses there are, say, waits for no loss.
    """
    found = set(traversal.ops_run_with(*self._of_examples))
    for op in self.ops:
      has_state = op.op_def.is_stateful and op.type != "Assert"
      if has_state or op.type in op_types.RANDOM:
        continue
      if all(x in found for x in traversal.sources(op)) or (
        op.type in MEASURES and self._is_of_sizes(op, found)
      ):
        found.add(op)
    return found

  def _is_of_sizes(
    self, op: tf.Operation, of_inputs: Collection[tf.Operation]
  ) -> bool:
    """Whether sizes follow from those of what depends on inputs alone."""
    awaited = all(x in of_inputs for x in op.control_inputs)
    if not awaited or self._frames.loop(op) is not None:
      return False
    if any(map(self.shapes.is_container, op.inputs)):
      return False  # What is not of inputs reads no list of slices.
    values = [self.shapes.value(tensor) for tensor in op.outputs]
    if any(value is None for value in values):
      return False
    sizes = [size for value in values for size in np.ravel(value)]
    symbols = {
      symbol
      for size in sizes
      if isinstance(size, Polynomial)
      for symbol in size.symbols - {EXAMPLES}
    }
    origins = [self.shapes.origins[symbol].tensor for symbol in symbols]
    return all(
      traversal.tensor_of_name(self._graph, name).op in of_inputs
      for name in origins
    )

  def _checked_size(self) -> tf.Tensor | None:
    """Returns the number of examples if steps check it; raises without any."""
    if not self._inputs:
      raise ValueError(
        "features and labels have no tensor with examples, of which slices "
        "could be made; give their axes by batch_axis, or use no data axis and "
        "num_micro_batches=1"
      )
    host = devices.host_of(self._mesh.device(stage=0))
    count = self.schedule.num_micro_batches
    batches = replica_batches.find(self._inputs, len(self._slices))
    if batches is not None:
      known = batches.known_size
      sizes: Sequence[int | tf.Tensor] = [known or 0] * len(self._slices)
      if known is None or known % count:
        sizes = replica_batches.checked_sizes(batches, count)
      self._read_apart = ReadApart(
        {
          x.value.name: [batch[number].value for batch in batches.inputs]
          for number, x in enumerate(self._inputs)
          if isinstance(x.value, tf.Tensor)
        },
        sizes,
      )
      if known is not None:
        return None
      with tf.compat.v1.device(host), tf.compat.v1.name_scope("check"):
        return tf.add_n(sizes)
    return batch_size.batch_size(self._inputs, host).checked

  def _inline(self, types: Collection[str]) -> None:
    """Puts ops of functions that read the batch in the place of their calls.

    Args:
      types: What is a call: branches and loops may be, too.
    """
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    starts = [tensor.op for tensor in self._of_examples]
    calls = [
      op for op in traversal.descendants(starts, ops) if op.type in types
    ]
    self._inline_calls(calls, types)

  def _inline_calls(
    self, calls: Iterable[tf.Operation], types: Collection[str]
  ) -> None:
    found = inlining.inline(calls, types)
    self._fetches = [
      found.get(x.name, x) if isinstance(x, tf.Tensor) else x
      for x in self._fetches
    ]
    self._purpose = dataclasses.replace(
      self._purpose,
      results=tuple(found.get(x.name, x) for x in self._purpose.results),
    )

  def _order_reads(self) -> None:
    """Lets reads of variables come before writes, as they do by chance.

    That gradients wait for each other, in `tf.tuple`, orders them, but would
    let slices wait for each other, too.
    """
    ordering.forget_tuples(self._graph.get_operations())
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    ordering.read_before_writing(unordered_reads.find(ops, lookups=True))
    ordering.read_before_writing(unordered_reads.find_of_references(ops))


def _is_matrix(variable: tf.Operation) -> bool:
  """Whether a variable has several dimensions, all of known sizes."""
  shape = tf.TensorShape(variable.get_attr("shape"))
  return shape.is_fully_defined() and len(shape) > 1


def slices_of_replicas(
  schedule: Schedule, mesh: mesh_lib.Mesh, purpose: Purpose
) -> list[range]:
  """Returns for each replica the numbers of its slices.

  Args:
    schedule: The order of a replica's micro-batches.
    mesh: The devices.
    purpose: What the graph is for.
  """
  if purpose.is_export:
    return [range(1)]
  count = schedule.num_micro_batches
  num_replicas = mesh.axis_size("data")
  if not purpose.trains:
    num_replicas = 1
    # Without gradients, one device has nothing to gain by slices.
    count = 1 if mesh.axis_size("stage") == 1 else count
  return [range(i * count, (i + 1) * count) for i in range(num_replicas)]
