"""The conductor: plans and lowers the graph of one call of a model_fn.

    for each request for gradients
      plan stages, lower casts     what was built so far gets devices
      plan splits, lower parts     of variables, and of what reads them
      plan parts, lower slice 0    of the batch
      compute                      gradient ops
      plan stages of gradients     beside forward ops and variables
    when model_fn has returned
      the same of what is left     updates, slots, metrics
      plan finish, lower slices    segments, schedule;
                                   clones, sums, order, mirrors
      lower what a step sends      its input, transfers, reads before writes

Planners are asked here alone; lowering gets what they return.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compat.private import gradient_requests
from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import (
  graph_checks,
  input_boundary,
  micro_batches,
  resources,
)
from estimator_mp.config import placement as placement_lib
from estimator_mp.config import replica_options, split_rules
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.graph import (
  control_flow,
  device_assignment,
  feeds,
  op_types,
  savers,
  traversal,
)
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.graph.ledger import Role
from estimator_mp.lower import (
  initial_values,
  ordering,
  parameter_servers,
  prefetching,
  sends,
)
from estimator_mp.lower.slicing import all_slices, slice_zero
from estimator_mp.lower.slicing import slices as slices_lib
from estimator_mp.lower.splitting import splitter
from estimator_mp.placement import contents, half_sends, propagation, transfers
from estimator_mp.plan import (
  batch_planner,
  batch_report,
  finish_planner,
  sharding_plan,
  split_planner,
  unordered_reads,
)
from estimator_mp.plan import stages as stages_lib
from estimator_mp.replicas import horovod

import tensorflow as tf

TRAIN = tf.estimator.ModeKeys.TRAIN

Build = Callable[[], tf.estimator.EstimatorSpec]


@dataclasses.dataclass(frozen=True)
class _InSlices:
  """The objects that plan and make slices of the batch."""

  planner: batch_planner.BatchPlanner
  zero: slice_zero.SliceZero
  all: all_slices.AllSlices


class Conductor:
  """Plans and lowers the graph of one call of a model_fn.

  It answers the requests for gradients as a `GradientRequestHandler`.
  """

  def __init__(
    self,
    config: sharding_config_lib.ShardingConfig,
    mesh: mesh_lib.Mesh,
    mode: str,
    is_export: bool,
    saved: placement_lib.Placement | None,
    servers: parameter_servers.NoServers,
  ):
    """Starts with the default graph, before model_fn is called.

    Args:
      config: How the model is sharded.
      mesh: The devices.
      mode: The purpose of the graph, a `tf.estimator.ModeKeys`.
      is_export: Whether it is the graph of a SavedModel.
      saved: The placement that training saved, for evaluation and prediction.
      servers: Says which task holds a variable.
    """
    self._config = config
    self._mesh = mesh
    self._trains = mode == TRAIN
    self._is_export = is_export
    self._prefetches = self._trains and config.prefetch_inputs and not is_export
    self._servers = servers
    self._graph = tf.compat.v1.get_default_graph()
    servers.hold(self._graph.get_operations())
    self._ledger = ledger_lib.Ledger(self._graph)
    self._stages = stages_lib.StagePlanner(
      config, mesh, mode, self._ledger, saved
    )
    # Without a model axis, tables may be split over replicas.
    self._split_axis = "model"
    if mesh.axis_size("model") == 1 and config.split != split_rules.AUTO:
      self._split_axis = "data"
    num_parts = mesh.axis_size(self._split_axis)
    if is_export and not config.export_shards:
      num_parts = 1
    self.splits_variables = num_parts > 1
    self._splits = split_planner.SplitPlanner(config, num_parts)
    self._splitter = splitter.Splitter(
      functools.partial(self._stages.devices_along, self._split_axis),
      self._ledger,
    )
    self._slices: _InSlices | None = None
    self._processes: horovod.Processes | None = None
    if config.aggregation == replica_options.HOROVOD:
      self._processes = horovod.Processes(config.horovod_op)
    self._examples: list[tf.Tensor] = []  # The inputs of model_fn.
    self._of_input: Sequence[tf.Operation] = ()  # If batches are prefetched.
    self._is_asked = False  # For gradients.
    self.prefetching: prefetching.Prefetching | None = None

  @property
  def has_slices(self) -> bool:
    """Whether the batch is in slices."""
    return self._slices is not None

  def variables(self) -> AbstractContextManager[None]:
    """Returns a context for model_fn's variables to be such as parts read."""
    if self.splits_variables or (self._slices and self._trains):
      return resources.all_resources()
    return contextlib.nullcontext()

  def inputs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns model_fn's arguments, which are for the whole batch.

    Args:
      arguments: The arguments with which the Estimator calls model_fn, by name.

    Raises:
      ValueError: If there are to be slices, and nothing has examples.
    """
    batch = {
      name: arguments[name]
      for name in ("features", "labels")
      if name in arguments
    }
    flat = tf.nest.flatten(batch, expand_composites=True)
    self._examples = [x for x in flat if tf.is_tensor(x)]
    if not self._is_export:  # It is the plain model's, whatever its mode.
      self._start_slices(batch)
    if self._prefetches and not self._slices:
      self._of_input = input_boundary.ops_of_input(
        self._examples, self._ledger.all_made()
      )
    return {**arguments, **batch}

  def _start_slices(self, batch: Mapping[str, Any]) -> None:
    """Cuts the batch, if any of it is to be done in slices."""
    config = self._config
    schedule = config.create_schedule()
    num_replicas = self._mesh.axis_size("data")
    if not self._trains:  # Its results are the plain model's.
      config = dataclasses.replace(config, draws="whole", batch_norm="whole")
      num_replicas = 1
      # Without gradients, one device has nothing to gain by slices.
      if self._mesh.axis_size("stage") == 1:
        return
    if num_replicas * schedule.num_micro_batches == 1:
      return
    inputs = micro_batches.inputs_with_examples(batch, config.batch_axis)
    if not inputs and self._trains:
      raise ValueError(
        f"mesh={config.mesh!r} with "
        f"num_micro_batches={schedule.num_micro_batches} cuts the batch, but "
        "features and labels have no tensor with examples; use "
        "num_micro_batches=1 and no data axis, or give their axes by "
        "batch_axis"
      )
    if not inputs:
      return
    planner = batch_planner.BatchPlanner(
      inputs,
      self._graph.get_operations(),
      config.per_example,
      config.draws,
      config.batch_norm,
    )
    with self._ledger.creating(Role.CUT):
      slices = slices_lib.Slices(
        inputs,
        num_replicas * schedule.num_micro_batches,
        num_replicas,
        devices.host_of(self._mesh.device(stage=0)),
      )
    zero = slice_zero.SliceZero(slices, self._ledger, planner.plan)
    flat = tf.nest.flatten([x.value for x in inputs], expand_composites=True)
    every = all_slices.AllSlices(
      config,
      self._mesh,
      schedule,
      [x.op for x in flat],
      slices,
      zero,
      self._ledger,
    )
    self._slices = _InSlices(planner, zero, every)

  def shard(
    self, build: Build
  ) -> tuple[tf.estimator.EstimatorSpec, sharding_plan.ShardingPlan]:
    """Builds the model and shards it.

    Args:
      build: Calls model_fn.

    Returns:
      The EstimatorSpec that trains, evaluates or predicts with the sharded
      model; and the plan of its graph.

    Raises:
      ValueError: If the model cannot be sharded as the configuration says.
    """
    spec = self._capture(build)
    spec, rest = self._place_rest(spec)
    spec = self._make_slices(spec, rest)
    if self._processes is not None and self._trains:
      spec = self._processes.finish(spec)
    if self._of_input:
      boundary = input_boundary.find(self._of_input)
      self.prefetching = prefetching.prefetch(boundary)
    if self._trains:
      self._order_reads(spec)
    savings = transfers.find_savings(self._graph.get_operations())
    sends.reduce_transfers(savings)
    device_assignment.settle_on_hosts(self._graph, self._mesh.devices)
    device_assignment.leave_other_devices(self._stages.ops)
    self._refuse_feeds()
    plan = self._plan(spec)
    sharding_plan.record_plan(self._graph, plan)
    return spec, plan

  def finish(self, compiles_with_xla: bool) -> None:
    """Shards what was added to the graph since: savers, metrics.

    Args:
      compiles_with_xla: Whether sessions do, which would draw initial values by
        another algorithm than what folds them.
    """
    if self._is_export:
      self._splitter.split_now(self._splits.plan)
    else:
      self._splitter.split_late(self._splits.plan)
    if self._trains and not compiles_with_xla:
      initial_values.compute_in_session()
    self._servers.finish(self._ledger.all_made())

  def _capture(self, build: Build) -> tf.estimator.EstimatorSpec:
    """Calls model_fn, and answers its requests for gradients."""
    with (
      gradient_requests.intercepted(self._graph, self),
      mesh_lib.current_mesh(self._mesh),
    ):
      spec = build()
    graph_checks.check_spec(spec)
    if self._trains:
      graph_checks.check_gradients(self._is_asked)
    return spec

  def gradients(
    self,
    targets: list[Any],
    sources: list[Any],
    grad_ys: list[Any] | None,
    compute: gradient_requests.Compute,
  ) -> list[Any]:
    """Returns gradients of the whole batch; see `GradientRequestHandler`."""
    self._is_asked = True
    tensors = [tf.convert_to_tensor(x) for x in targets]
    # Gradient ops will be made beside the ops of the forward graph.
    new = self._place_forward([x.op for x in tensors])
    asked = self._splitter.gradients.expand(sources)
    wholes: list[Any] = [self._splitter.whole(x) for x in tensors]
    new += self._read_new_ops()
    # A tape answers what it was asked, and nothing else.
    if all(x is y for x, y in zip(wholes, tensors, strict=True)):
      wholes = targets
    if self._slices is None:
      found = list(compute(wholes, asked.tensors, grad_ys))
    else:
      self._slice(self._slices, new)
      found = self._slices.zero.gradients(
        [tf.convert_to_tensor(x) for x in wholes],
        asked.tensors,
        grad_ys,
        compute,
      )
    asked, found = self._splitter.gradients.without_lookups(asked, found)
    new = self._read_new_ops()
    if self._splitter.read_wholes(new):
      new += self._read_new_ops()
    control_flow.wait_outside_of_loops(new)
    self._stages.plan_gradients(new, asked.tensors, found)
    if self._slices is not None:
      self._place_gradients(new)
      self._slices.all.mirror()
    if self._processes is not None:
      found = self._of_all_processes(asked.tensors, found)
    return self._splitter.gradients.contract(asked, found)

  def _of_all_processes(
    self,
    sources: Sequence[Any],
    gradients: Sequence[gradient_lib.Gradient | None],
  ) -> list[gradient_lib.Gradient | None]:
    """Returns the gradients of variables of all processes, and the others."""
    own = [
      gradient
      if op_types.is_variable(getattr(source, "handle", source).op)
      else None
      for source, gradient in zip(sources, gradients, strict=True)
    ]
    found = horovod.reduce_gradients(own, self._config.horovod_op)
    return [
      gradient if one is None else all_of_them
      for gradient, one, all_of_them in zip(gradients, own, found, strict=True)
    ]

  def constants(self, tensors: list[Any]) -> list[Any]:
    """Returns what slices make of constants; see `GradientRequestHandler`."""
    slices = self._slices
    return [] if slices is None else slices.zero.constants(tensors)

  def add_terms(self, terms: list[tf.Tensor]) -> tf.Tensor:
    """Adds the terms of a gradient that several stages have a part of."""
    if self._slices is None and not self.splits_variables:
      return gradient_lib.add_at_once(terms)
    # Micro-batches and shards round in another way as it is; so no op waits.
    return gradient_lib.add_by_device(terms)

  def _place_forward(
    self, targets: Sequence[tf.Operation]
  ) -> list[tf.Operation]:
    """Gives stages and devices to the ops that were built so far.

    Returns:
      The ops that were built since the last call.
    """
    new = self._read_new_ops()
    stages = self._stages.plan_forward(new, targets)
    if self._trains and self._config.transfer_dtype != "float32":
      sent = self._send_in_half(new)
      new, stages = [*new, *sent], {**stages, **sent}
    made = self._split(new, targets)
    self._assign_devices(stages)
    return [*new, *made]

  def _send_in_half(self, new: Sequence[tf.Operation]) -> stages_lib.Stages:
    """Lets stages send activations, and so their gradients, by casts.

    Args:
      new: The ops that may read some, and have stages.

    Returns:
      The stages of the casts.
    """
    found = half_sends.find_half_sends(
      self._stages.ops,
      set(new),
      self._stages.stages,
      self._mesh.stage_devices(),
      self._examples,
    )
    dtype = tf.dtypes.as_dtype(self._config.transfer_dtype)
    made = sends.send_in_half(found, dtype)
    self._read_new_ops()
    self._stages.stages.update(made)
    return made

  def _split(
    self, new: Sequence[tf.Operation], targets: Sequence[tf.Operation]
  ) -> list[tf.Operation]:
    """Splits what is to be split of ops that have stages; returns new ops."""
    plan = self._splits.plan(
      new, targets if self._trains else None, self._splitter.gradients.joined
    )
    variables = self._splitter.split(plan)
    if self._slices is not None and self._split_axis == "data":
      self._slices.all.spread(variables)
    return self._read_new_ops()

  def _slice(self, slices: _InSlices, new: Sequence[tf.Operation]) -> None:
    """Lets slice 0 do what slices may do of ops that have devices."""
    own = [op for op in new if not self._splitter.is_replaced(op)]
    slices.zero.split(own, slices.planner.plan(own, slices.zero.joined))
    self._follow(self._read_new_ops())

  def _place_gradients(self, new: Sequence[tf.Operation]) -> None:
    """Gives stages and devices to gradients, those of slice 0 among them."""
    follows = propagation.Follows.LARGEST_INPUT
    plain = [op for op in new if self._ledger.role(op) is not Role.SLICE]
    self._assign_devices(self._stages.propagate(plain, follows))
    self._follow(new)
    self._assign_devices(self._stages.propagate(new, follows))

  def _follow(self, new: Sequence[tf.Operation]) -> None:
    """Decides that slices' ops are on the stages of the plain ones."""
    self._stages.adopt_devices(new)
    self._stages.follow(new)

  def _place_rest(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tuple[tf.estimator.EstimatorSpec, list[tf.Operation]]:
    """Gives stages and devices to all that model_fn has built.

    Returns:
      The spec, with whole tensors; and what was built since the last request.
    """
    if not self._trains:
      outputs = tf.nest.flatten([spec.predictions, spec.loss])
      self._place_forward([x.op for x in outputs if x is not None])
    self._stages.check()
    new = self._read_new_ops()
    self._stages.adopt_devices(new)
    stages = self._stages.plan_rest()
    new += self._split(new, [])
    self._assign_devices(stages)
    self._splits.leave_the_rest()
    if self._trains:
      self._splits.check()
    spec = self._splitter.finish(spec)
    new += self._read_new_ops()
    graph_checks.check_no_tpu_ops(self._stages.ops)
    return spec, new

  def _make_slices(
    self, spec: tf.estimator.EstimatorSpec, rest: Sequence[tf.Operation]
  ) -> tf.estimator.EstimatorSpec:
    """Makes all slices of slice 0, and returns the spec of all of them."""
    if self._slices is None:
      return spec
    if not self._trains:
      self._slice(self._slices, self._stages.ops)
    rest = [op for op in rest if not self._splitter.is_replaced(op)]
    every = self._slices.all
    spec = every.redirect(spec, rest)
    zero = every.of_slice_zero(
      spec, self._stages.stages, self._slices.planner.batch
    )
    plan = finish_planner.plan_finish(
      zero,
      self._config,
      self._config.create_schedule(),
      self._config.measured_seconds,
    )
    batch_report.check(plan.segments, self._config.fallback)
    spec = every.finish(spec, zero, plan)
    if self._prefetches:
      self._of_input = input_boundary.ops_of_input(
        self._examples, self._slices.all.cuts_of_inputs
      )
    return spec

  def _order_reads(self, spec: tf.estimator.EstimatorSpec) -> None:
    """Lets a step read variables before it writes them, as the program does."""
    fetches = tf.nest.flatten([spec.train_op, spec.loss])
    step = traversal.ops_run_with(*fetches)
    made = [op for op in self._graph.get_operations() if op in step]
    ordering.read_before_writing(unordered_reads.find(made))

  def _refuse_feeds(self) -> None:
    """Lets sessions refuse to feed what parts do, as they would not see it."""
    parted = [op for op in self._stages.ops if self._splitter.is_replaced(op)]
    if self._slices is not None:
      parted += self._slices.zero.template.plain_ops
    for op in parted:
      feeds.refuse(op)

  def _assign_devices(self, stages: stages_lib.Stages) -> None:
    device_assignment.assign(stages, self._mesh.stage_devices())

  def _read_new_ops(self) -> list[tf.Operation]:
    """Returns the ops of the model that were made since the last call."""
    new = self._ledger.read_new()
    self._servers.complete(new)
    of_savers = self._stages.add(new)
    if self._servers.exist:
      self._stages.adopt_devices(new)  # The marks of variables that move.
      self._servers.hold(new)
    device_assignment.follow_variables(savers.work_on_variables(of_savers))
    return new

  def _plan(
    self, spec: tf.estimator.EstimatorSpec
  ) -> sharding_plan.ShardingPlan:
    """Returns what was decided, as data."""
    num_replicas = 1
    mirrors: Mapping[str, tuple[str, ...]] = {}
    if self._slices is not None:
      num_replicas = self._mesh.axis_size("data")
      mirrors = self._slices.all.mirrors
    held = contents.contents_of_devices(self._mesh, num_replicas, mirrors)
    placement = contents.placement_of_stages(
      self._mesh, self._stages.stages, held
    )
    train_op = None
    if held and self._trains:
      train_op = getattr(spec.train_op, "op", spec.train_op).name
    plan = sharding_plan.ShardingPlan(placement, train_op=train_op)
    if self._slices is not None:
      plan = self._slices.all.plan(placement, train_op)
    if self.splits_variables:
      plan = dataclasses.replace(plan, splits=self._splits.summary)
    return plan
