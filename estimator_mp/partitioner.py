"""The partitioner: decides how the finished graph of a model_fn is executed.

model_fn has returned, and its graph is the plain program's: forward, backward,
clipping, updates. Nothing of it is intercepted. First come passes, as in a
compiler: each one that the configuration asks for rewrites the finished graph,
and the next one reads the result like a plain graph:

    inline     ops of functions in place of their calls; reads before writes
    place      stages of ops: known, and inherited, from here on
    half       stages send casts
    split      shards of variables, and parts of the ops that use them
    processes  updates read the gradients of all processes
    recompute  backward passes read activations that are computed again

All other decisions are data, a `planning.step_plan.StepPlan`. `lower.lowering`
instantiates it for each slice of the batch.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from compat.private import graph_reads
from estimator_mp import devices, model_partitioner
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import examples as examples_lib
from estimator_mp.config import sharding_config, split_rules
from estimator_mp.config.schedules.orders import AUTO
from estimator_mp.config.schedules.schedule import Schedule
from estimator_mp.graph import (
  batch_inputs,
  control_flow,
  op_types,
  random_ops,
  shapes,
  traversal,
  variables,
)
from estimator_mp.graph.calls import inlining
from estimator_mp.lower import ordering, process_sums, recompute, sends
from estimator_mp.lower.lowering import Lowering
from estimator_mp.lower.replicas import Replicas
from estimator_mp.machines import machine as machine_lib
from estimator_mp.pipeline import (
  auto_schedule,
  batched_gradients,
  cells,
  recomputation,
)
from estimator_mp.pipeline.batched_gradients import BatchedGradient
from estimator_mp.placement import costs, half_sends
from estimator_mp.planning import (
  batch_advice,
  batch_layouts,
  batch_report,
  deferred_edges,
  finished_report,
  provenance,
  reshards,
  slice_passes,
  split_options,
  split_plan,
  unordered_reads,
)
from estimator_mp.planning import stages as stages_lib
from estimator_mp.planning.purpose import TRAINING, Purpose
from estimator_mp.planning.step_graph import Fetch, StepGraph
from estimator_mp.planning.step_plan import StepPlan
from estimator_mp.propagate import splits
from estimator_mp.propagate.layouts import Shard
from estimator_mp.propagate.propagation import is_without_state
from estimator_mp.simulator.step import Step
from estimator_mp.simulator.workload import Cut, Workload

import tensorflow as tf

_Value = TypeVar("_Value")


class Partitioner:
  """Decides how the graph of one call of a model_fn is executed.

  Attributes:
    step: The graph of a step, as the passes have left it.
    batch: The layouts of its tensors over slices.
    passes: For each segment the passes of ops through stages.
    reshards: The changes of layout over slices: slice, concat, reduce.
    schedule: The order of micro-batches.
    plan: All of it, as data.
    replicas: The replicas.
    model_axis: The partitioner of variables; None if nothing is split.
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
    """Runs the passes, and plans the step.

    Args:
      inputs: Features and labels with a dimension of examples.
      fetches: The tensors and ops that a step runs: loss and train_op, or
        results.
      config: How the model is sharded.
      mesh: The devices.
      purpose: The purpose of the graph.
      given: The ops that were there before model_fn was called.
      marks: Marks of gradients to sum over processes, of `process_sums.mark`.

    Raises:
      ValueError: If the model cannot be placed, or the batch not be cut, as the
        configuration says.
    """
    self._graph = fetches[0].graph
    self._inputs = list(inputs)
    self._fetches = list(fetches)
    self._config = config
    self._mesh = mesh
    self._purpose = purpose
    self.schedule = config.create_schedule()
    self._slices = slices_of_replicas(self.schedule, mesh, purpose)
    if not (inputs or purpose.trains):
      self._slices = [range(1)]
    self.replicas = Replicas(config, mesh, len(self._slices))
    self._splits: split_plan.SplitPlan | None = None
    self.model_axis: model_partitioner.ModelPartitioner | None = None
    self._split_axis = split_options.split_axis(config, mesh, purpose)
    self._provenance = provenance.Provenance(dict(marks))
    self._recomputed: dict[tf.Operation, tf.Operation] = {}
    self._kept_micro_batches: frozenset[int] = frozenset()
    per_example = [re.compile(x) for x in config.per_example]
    self._options = batch_layouts.Options(
      lambda op: any(x.search(op.name) for x in per_example),
      config.draws == "per_slice",
      config.batch_norm == "per_micro_batch",
    )
    before = set(self._graph.get_operations())
    self._examples = examples_lib.UNCHECKED
    if self.has_slices:
      host = devices.host_of(mesh.device(stage=0))
      count = self.schedule.num_micro_batches
      self._examples = examples_lib.check(
        self._inputs, len(self._slices), count, host
      )
    # They stay on the host of stage 0.
    self._checks = set(self._graph.get_operations()) - before
    self._given = self._checks.union(given)
    self._inline_and_order()
    self._place()
    self._send_in_half()
    self._split_variables()
    self._sum_over_processes()
    self._plan_passes()
    self._choose_schedule()
    self._recompute()
    self.reshards = reshards.find(
      self.step.ops,
      self.batch,
      self.step.of_inputs,
      self.step.shapes,
      [x for x in self._fetches if isinstance(x, tf.Tensor)],
    )
    self.plan = self._plan()
    if self.plan.segments is not None:
      batch_report.check(self.plan.segments, config.fallback)

  @property
  def stages(self) -> dict[tf.Operation, int]:
    """The stages of ops."""
    return self._provenance.stages

  @property
  def has_slices(self) -> bool:
    """Whether the batch is in slices."""
    return self._slices[-1].stop > 1

  @property
  def backward(self) -> Collection[tf.Operation]:
    """The ops that come after the forward pass."""
    return self._provenance.backward

  def cut_on(
    self, config: sharding_config.ShardingConfig, mesh: mesh_lib.Mesh
  ) -> Cut:
    """Returns the stages and phases that ops would have on another mesh.

    Args:
      config: The configuration.
      mesh: Its mesh.

    Raises:
      ValueError: If the model cannot be placed so.
    """
    stages = stages_lib.plan_stages(
      self.step.of_model(), self.backward, config, mesh, self._purpose
    )
    # A schedule that does not split the backward pass adds the phases up.
    schedule = dataclasses.replace(self.schedule, splits_backward=True)
    return Cut.of(
      self._passes_on(stages, schedule), stages, mesh.axis_size("stage")
    )

  def lower(self) -> Lowering:
    """Makes the slices, and orders them."""
    lookups = self.model_axis.lookups if self.model_axis else None
    lowering = Lowering(
      self.step, self.plan, self.replicas, lookups, self._checks
    )
    lowering.run()
    return lowering

  def keep_equal(
    self,
    spec: tf.estimator.EstimatorSpec,
    forward: Collection[tf.Operation],
  ) -> tf.estimator.EstimatorSpec:
    """Returns a spec that trains all replicas' variables alike.

    Args:
      spec: The spec of the lowered graph.
      forward: The ops of all slices.
    """
    spec = self.replicas.keep_equal(spec, forward)
    if self.replicas.variables:  # Mirrors have reads and writes of their own.
      live = traversal.ops_run_with(spec.loss, spec.train_op)
      ops = [op for op in self._graph.get_operations() if op in live]
      ordering.read_before_writing(unordered_reads.find(ops, lookups=True))
    return spec

  # Passes.

  def _inline_and_order(self) -> None:
    """Inlines calls that read the batch; lets reads come before writes."""
    self._inline(op_types.FUNCTION_CALLS)
    if self._purpose.trains:
      self._order_reads()
    # A loop has ended before each of its ops has.
    is_inlined = self.has_slices and self._inline(inlining.INLINED)
    if is_inlined and self._purpose.trains:
      self._order_reads()

  def _inline(self, types: Collection[str]) -> bool:
    """Replaces calls of functions that read the batch by their ops.

    Args:
      types: The op types of calls; branches and loops may be among them.

    Returns:
      Whether there were any.
    """
    if all(op.type not in types for op in self._graph.get_operations()):
      return False
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    of_examples = tf.nest.flatten(
      [x.value for x in self._inputs], expand_composites=True
    )
    starts = [tensor.op for tensor in of_examples]
    calls = [
      op for op in traversal.descendants(starts, ops) if op.type in types
    ]
    self._inline_calls(calls, types)
    return bool(calls)

  def _inline_calls(
    self, calls: Iterable[tf.Operation], types: Collection[str]
  ) -> None:
    outputs = inlining.inline(calls, types)
    self._fetches = [
      outputs.get(x.name, x) if isinstance(x, tf.Tensor) else x
      for x in self._fetches
    ]
    self._purpose = dataclasses.replace(
      self._purpose,
      results=tuple(outputs.get(x.name, x) for x in self._purpose.results),
    )

  def _order_reads(self) -> None:
    """Lets reads of variables come before writes, as they do by chance.

    The waits of `tf.tuple` order them, but all slices would wait in it.
    """
    live = traversal.ops_run_with(*self._fetches)
    ordering.take_tuples_apart(self._graph.get_operations(), live)
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    ordering.read_before_writing(unordered_reads.find(ops, lookups=True))
    ordering.read_before_writing(unordered_reads.find_of_references(ops))

  def _read(self) -> None:
    """Reads the graph that the last pass has left."""
    self.step = self._step_of(self._options)
    if self.has_slices:
      self.batch = batch_layouts.over_slices(self.step, self._options)
    else:
      self.batch = batch_layouts.propagate(self.step, self._options, ())

  def _step_of(
    self, options: batch_layouts.Options, num_examples: int | None = None
  ) -> StepGraph:
    """Returns the graph of a step."""
    return StepGraph(
      self._inputs,
      self._fetches,
      self._examples,
      self._given,
      self._provenance.of_gradients,
      options.is_per_example,
      num_examples,
    )

  def _place(self) -> None:
    """Decides the stages of ops."""
    self._read()
    provenance = self._provenance
    provenance.backward = stages_lib.find_backward(self.step)
    of_model = self.step.of_model()
    provenance.stages = stages_lib.plan_stages(
      of_model, provenance.backward, self._config, self._mesh, self._purpose
    )

  def _send_in_half(self) -> None:
    """Lets stages send activations as casts, if `transfer_dtype` is set."""
    dtype = tf.dtypes.as_dtype(self._config.transfer_dtype)
    if dtype == tf.float32 or not self._purpose.trains:
      return
    batch = self.batch
    if not self.has_slices:  # The layouts that slices would have.
      batch = batch_layouts.propagate(
        self.step, self._options, filter(is_without_state, self.step.ops)
      )
    candidates = half_sends.find_half_sends(
      self.step.ops,
      self.stages,
      self._mesh.stage_devices(),
      self.step.of_examples,
    )
    casts = sends.send_in_half(
      [x for x in candidates if isinstance(batch.layout(x.tensor), Shard)],
      dtype,
    )
    self.stages.update(casts)
    self._read()
    self._provenance.backward = stages_lib.find_backward(self.step)

  def _split_variables(self) -> None:
    """Splits variables, and the ops that use them, over an axis."""
    axis, config = self._split_axis, self._config
    if axis is None:
      return
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
    decided, undecided = self._requested_splits(of_model, count)
    devices = [
      [self._mesh.device(stage=k, **{axis: place}) for place in range(count)]
      for k in range(self._mesh.axis_size("stage"))
    ]
    self.model_axis = model_partitioner.ModelPartitioner(
      self._inputs, count, lambda op: devices[self.stages.get(op, 0)]
    )
    split_graph = self.model_axis.split(
      [*self._fetches, *results],
      decided,
      undecided,
      {
        *self._provenance.backward,
        *filter(graph_reads.is_of_gradient, self.step.ops),
      },
      config.memory_limit,
      lambda write: (
        max(map(shapes.tensor_bytes, write.inputs), default=0)
        > config.plain_initial_bytes
      ),
      # An op with a seed as its input draws the same on every device.
      lambda op: (
        self._options.draws_per_slice and random_ops.may_differ(op.node_def)
      ),
    )
    self._splits = split_graph.plan
    split_options.check_gathers(split_graph.plan.gathers, config, self._graph)
    num_fetches = len(self._fetches)
    self._fetches = list(split_graph.fetches[:num_fetches])
    self._purpose = dataclasses.replace(
      self._purpose, results=tuple(split_graph.fetches[num_fetches:])
    )
    if axis == "data":
      self.replicas.spread(split_graph.handles)
    made_for = {**split_graph.instances, **split_graph.handles}
    for op, (plain, part) in made_for.items():
      self._provenance.inherit(op, plain, part)
    self._read()

  def _requested_splits(
    self, of_model: Iterable[tf.Operation], count: int
  ) -> tuple[
    dict[tf.Operation, splits.VariableSplit | None], list[tf.Operation]
  ]:
    """Returns the splits that a user wants, and variables to search one for."""
    rules = self._config.split
    handles = [
      x for x in of_model if x.type == "VarHandleOp" and x not in self._given
    ]
    trained = {x.op for x in tf.compat.v1.trainable_variables()}
    if rules == split_rules.AUTO:
      return {}, [x for x in handles if x in trained and _is_matrix(x)]
    found = split_options.splits_of_rules(
      rules, handles, trained, count, self._purpose
    )
    return found, []

  def _sum_over_processes(self) -> None:
    """Lets updates read the gradients of all processes."""
    live = {*self.step.ops}
    marks = {
      op: rows for op, rows in self._provenance.marks.items() if op in live
    }
    if not marks:
      return
    sums = process_sums.sum_marked(marks, self._config.horovod_op)
    for op, mark in sums.items():
      self._provenance.inherit(op, mark)
      self._provenance.backward.add(op)
    self._read()

  def _choose_schedule(self) -> None:
    """Finds the fastest schedule, if `schedule` is "auto"."""
    schedule, config = self.schedule, self._config
    if schedule.name != AUTO:
      return
    machine = costs.NOMINAL
    if config.machine is not None:
      machine = machine_lib.load(config.machine)
    workload = Workload(self.step, self.batch, machine)
    if config.measured_costs is not None:
      workload.correct(workload.ratios(config.measured_costs, 1.0))
    cut = Cut.of(self.passes, self.stages, schedule.num_stages)
    work = workload.work(cut, 1 / schedule.num_micro_batches, 1)
    axes = {"stage": schedule.num_devices}
    self.schedule = auto_schedule.fastest(
      schedule,
      auto_schedule.Costs(
        tuple(x.forward for x in work),
        tuple(x.backward for x in work),
        tuple(x.weight for x in work),
        tuple(Step(work, schedule, machine, axes).sends()),
      ),
    )

  def _recompute(self) -> None:
    """Lets backward passes compute activations again, and plans once more."""
    if not (self._purpose.trains and self.has_slices):
      return
    policy = recomputation.make_policy(self._config.recompute, self.schedule)
    passes = self._all_passes
    in_parts = [op for op in self.step.ops if op in passes]
    parts = self.batch.parts
    plan = recomputation.plan_recomputation(
      in_parts,
      passes,
      policy.stages,
      lambda tensor: tensor.op in parts,
      [op for op in in_parts if parts[op].exchanges],
    )
    if not plan.reads:
      return
    copies = recompute.compute_again(plan)
    originals = [op for ops in plan.again.values() for op in ops]
    self._recomputed = dict(zip(copies, originals, strict=True))
    self._kept_micro_batches = policy.kept_micro_batches
    for copy, op in self._recomputed.items():
      self._provenance.inherit(copy, op)
    self._provenance.stages.update(copies)
    self._provenance.backward.update(copies)
    self._read()
    self._plan_passes()

  # Decisions.

  def _plan_passes(self) -> None:
    """Decides the waits of slices, and the passes of ops."""
    step = self.step
    in_loops = {
      op for op in step.ops if step.frames.input_frame(op) is not None
    }
    every = self._graph.get_operations()
    self._deferred = deferred_edges.plan_waits(
      step.ops,
      self.batch.parts.keys() - step.of_inputs,
      control_flow.ops_in_branches(every) | in_loops,
    )
    self.passes = self._passes_on(self.stages, self.schedule)

  def _passes_on(
    self, stages: Mapping[tf.Operation, int], schedule: Schedule
  ) -> list[dict[tf.Operation, cells.Pass]]:
    """Returns the passes of ops through stages, for each segment."""
    return slice_passes.plan_passes(
      self.step.ops,
      self.batch,
      self.step.of_inputs,
      self.backward,
      stages,
      schedule,
      self._deferred.waits,
      self.step.frames.loop,
    )

  @property
  def _all_passes(self) -> dict[tf.Operation, cells.Pass]:
    return {op: x for of_one in self.passes for op, x in of_one.items()}

  def _plan_batched(self, mode: str) -> dict[str, BatchedGradient]:
    """Returns gradients that several slices make at once, by their names."""
    schedule = self.schedule
    batched: dict[str, BatchedGradient] = {}
    for reshard in self.reshards if mode != "each" else ():
      if reshard.kind is not reshards.Kind.REDUCE:
        continue
      tensor = traversal.tensor_of_name(self._graph, reshard.tensor)
      gradient = batched_gradients.plan_gradient(
        tensor,
        mode,
        schedule.num_micro_batches // schedule.num_rounds,
        self._provenance.backward,
        self.stages,
        self._deferred.waits,
        self._slices[-1].stop,
      )
      if gradient is None:
        continue
      op = self._graph.get_operation_by_name(gradient.op)
      part = self.batch.parts.get(op)
      reads = () if part is None else part.reads
      if tuple(x.dim for x in reads if isinstance(x, Shard)) == gradient.dims:
        batched[tensor.name] = gradient
    return batched

  def _report(self) -> batch_report.BatchReport:
    """Returns the report of how the batch is executed."""
    step = self.step
    planned = finished_report.PlannedBatch(
      step.ops,
      traversal.ops_run_with(*step.of_examples),
      [x.op for x in self._purpose.results],
      step.depends,
      step.of_inputs,
      self._provenance.backward,
      step.shapes,
      self.batch,
      self.reshards,
      self._deferred.waits,
      len(self.passes),
      self._slices[-1].stop,
    )
    report = finished_report.report_of(planned)
    if not self._purpose.trains:
      return report

    def replan(
      size: int | None, per_example: Collection[tf.Operation]
    ) -> finished_report.PlannedBatch:
      options = self._options.with_per_example(per_example)
      told = self._step_of(options, size)
      layouts = batch_layouts.over_slices(told, options)
      return dataclasses.replace(planned, shapes=told.shapes, layouts=layouts)

    return batch_advice.with_advice(report, planned, replan)

  def _stateful(self) -> list[tf.Operation]:
    """Returns ops whose results differ between two executions."""
    readers = {
      reader
      for op in self.step.ops
      if not op.inputs and any(map(op_types.is_handle, op.outputs))
      for reader in unordered_reads.readers_of(op)
    }
    return [
      op for op in self.step.ops if op in readers or op.type in op_types.RANDOM
    ]

  def _plan(self) -> StepPlan:
    """Returns all decisions, as data."""
    ops, every = self.step.ops, self._graph.get_operations()
    # The ops in parts, and all that they wait for.
    waits = self._deferred.waits
    of_slices = set(ops).intersection(
      traversal.walk(self.batch.parts, waits.sources)
    )
    alike = of_slices - self.step.depends  # In all slices.
    if self.model_axis is not None:
      # A lookup reads the first shard until it is made.
      shards_with = self.model_axis.lookups.shards_with
      alike |= {y for x in alike for y in shards_with(x)}
    mode = "each" if self._recomputed else self._config.weight_gradients
    return StepPlan(
      mesh=self._mesh,
      schedule=self.schedule,
      num_replicas=len(self._slices),
      num_slices=len(self._slices[0]),
      split_axis=self._split_axis,
      ops=_names(ops),
      stages=_by_name(self.stages),
      positions=_by_name(self._provenance.parts),
      layouts=dict(self.batch.layouts),
      parts=_by_name(self.batch.parts),
      of_inputs=_names(op for op in every if op in self.step.of_inputs),
      alike=_names(op for op in every if op in alike),
      updates=_names(op for op in ops if op not in of_slices),
      stateful=_names(self._stateful()),
      passes=tuple(map(_by_name, self.passes)),
      edges={op.name: _names(x) for op, x in waits.replaced.items()},
      deferred={op.name: _names(x) for op, x in self._deferred.late.items()},
      batched=self._plan_batched(mode),
      recomputed={x.name: op.name for x, op in self._recomputed.items()},
      kept_micro_batches=tuple(sorted(self._kept_micro_batches)),
      reshards=tuple(self.reshards),
      segments=self._report() if self.has_slices else None,
      splits=self._splits,
    )


def _names(ops: Iterable[tf.Operation]) -> tuple[str, ...]:
  return tuple(op.name for op in ops)


def _by_name(by_op: Mapping[tf.Operation, _Value]) -> dict[str, _Value]:
  return {op.name: value for op, value in by_op.items()}


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
    purpose: The purpose of the graph.
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
