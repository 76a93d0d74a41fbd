"""The conductor: plans and lowers the graph of one call of a model_fn.

    for each request for gradients
      plan stages, lower casts     what was built so far gets devices
      plan splits, lower parts     of variables, and of what reads them
      plan parts, lower slice 0    of the batch
      compute                      gradient ops
      plan stages of gradients     beside forward ops and variables
    when model_fn has returned
      the same of what is left     updates, slots, metrics
      lower slices                 clones, sums, order, mirrors
      lower what a step sends      its input, transfers, reads before writes

Planners are asked here alone; lowering gets what they return.
"""

import contextlib
import dataclasses
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
  size_errors,
)
from estimator_mp.config import placement_file, sharding_options, split_rules
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.graph import (
  control_flow,
  device_assignment,
  savers,
  traversal,
)
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.graph.ledger import Role
from estimator_mp.lower import (
  ordering,
  parameter_servers,
  prefetching,
  sends,
)
from estimator_mp.lower.slicing import all_slices, slice_zero
from estimator_mp.lower.slicing import slices as slices_lib
from estimator_mp.lower.splitting import splitter
from estimator_mp.observe import verification
from estimator_mp.placement import contents, half_sends, propagation, transfers
from estimator_mp.plan import (
  batch_planner,
  sharding_plan,
  split_planner,
  unordered_reads,
)
from estimator_mp.plan import stages as stages_lib
from estimator_mp.replicas import horovod
from estimator_mp.session import export, prefetch_hook

import tensorflow as tf

TRAIN = tf.estimator.ModeKeys.TRAIN

Build = Callable[[], tf.estimator.EstimatorSpec]


class Conductor:
  """Plans and lowers the graph of one call of a model_fn.

  It answers the requests for gradients as a `GradientRequestHandler`.
  """

  def __init__(
    self,
    config: sharding_config_lib.ShardingConfig,
    mesh: mesh_lib.Mesh,
    mode: str,
    model_dir: str | None,
    servers: parameter_servers.NoServers,
  ):
    """Starts with the default graph, before model_fn is called.

    Args:
      config: How the model is sharded.
      mesh: The devices.
      mode: What the graph is for: a `tf.estimator.ModeKeys`.
      model_dir: Where training saves its placement; None for nowhere.
      servers: Says which task holds a variable.
    """
    self._config = config
    self._mesh = mesh
    self._trains = mode == TRAIN
    self._mode = mode
    self._model_dir = model_dir
    self._servers = servers
    self._graph = tf.compat.v1.get_default_graph()
    servers.hold(self._graph.get_operations())
    self._ledger = ledger_lib.Ledger(self._graph)
    # Evaluation and prediction use the placement that training saved.
    saved = None
    if not self._trains:
      saved = placement_file.load_placement(model_dir, mesh)
    self._stages = stages_lib.StagePlanner(
      config, mesh, mode, self._ledger, saved
    )
    # Without a model axis, tables may be split over replicas.
    self._split_axis = "model"
    if mesh.axis_size("model") == 1 and config.split != split_rules.AUTO:
      self._split_axis = "data"
    num_parts = mesh.axis_size(self._split_axis)
    if export.is_for_export():
      if not config.export_shards:
        num_parts = 1
      elif num_parts > 1:
        export.keep_devices()
    self._splits_variables = num_parts > 1
    self._splits = split_planner.SplitPlanner(config, num_parts)
    self._splitter = splitter.Splitter(self._devices_of_parts, self._ledger)
    self._batch: batch_planner.BatchPlanner | None = None
    self._zero: slice_zero.SliceZero | None = None
    self._slices: all_slices.AllSlices | None = None
    self._processes: horovod.Processes | None = None
    if config.aggregation == sharding_options.HOROVOD:
      self._processes = horovod.Processes(config.horovod_op)
    self._examples: list[tf.Tensor] = []  # What model_fn is called with.
    self._of_input: Sequence[tf.Operation] = ()  # If batches are prefetched.
    self._is_asked = False  # For gradients.

  def variables(self) -> AbstractContextManager[None]:
    """Returns a context for model_fn's variables to be such as can be split."""
    if self._splits_variables:
      return resources.all_resources()
    return contextlib.nullcontext()

  def inputs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns model_fn's arguments, which are for the whole batch.

    Args:
      arguments: What the Estimator calls model_fn with, by name.

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
    if self._trains or not export.is_for_export():
      self._start_slices(batch)
    if self._trains and self._config.prefetch_inputs and not self._slices:
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
        f"mesh={config.mesh!r} with num_micro_batches="
        f"{schedule.num_micro_batches} cuts the batch, but features and labels "
        "have no tensor with examples; use num_micro_batches=1 and no data "
        "axis, or say in batch_axis where they are"
      )
    if not inputs:
      return
    self._batch = batch_planner.BatchPlanner(
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
    self._zero = slice_zero.SliceZero(slices, self._ledger, self._batch.plan)
    flat = tf.nest.flatten([x.value for x in inputs], expand_composites=True)
    self._slices = all_slices.AllSlices(
      config,
      self._mesh,
      schedule,
      [x.op for x in flat],
      slices,
      self._zero,
      self._ledger,
    )

  def run(self, build: Build) -> tf.estimator.EstimatorSpec:
    """Builds the model and shards it.

    Args:
      build: Calls model_fn.

    Returns:
      What trains, evaluates or predicts with the sharded model.

    Raises:
      ValueError: If the model cannot be sharded as the configuration says.
    """
    spec = self._capture(build)
    spec, rest = self._place_rest(spec)
    spec = self._make_slices(spec, rest)
    if self._processes is not None and self._trains:
      spec = self._processes.finish(spec)
    if self._of_input:
      spec = self._prefetch(spec)
    if self._trains:
      self._order_reads(spec)
    savings = transfers.find_savings(self._graph.get_operations())
    sends.reduce_transfers(savings)
    device_assignment.settle_on_hosts(self._graph, self._mesh.devices)
    device_assignment.leave_other_devices(self._stages.ops)
    self._record(spec)
    spec = self._with_hooks(spec)
    if export.is_for_export():
      self._splitter.split_now(self._splits.plan)
    else:
      self._splitter.split_late(self._splits.plan)
    self._servers.finish(self._ledger.all_made())
    return spec

  def keep_cells_apart(self) -> None:
    """Lets XLA compile cells one by one, once `run` has returned."""
    plan = sharding_plan.get_plan(self._graph)
    if plan is not None and plan.pipeline is not None:
      ordering.keep_cells_apart(self._graph, plan.pipeline.cells)

  def _capture(self, build: Build) -> tf.estimator.EstimatorSpec:
    """Calls model_fn, and answers its requests for gradients."""
    with (
      gradient_requests.intercepted(self._graph, self),
      mesh_lib.current_mesh(self._mesh),
    ):
      spec = build()
    graph_checks.check_spec(spec)
    if self._trains and not self._is_asked:
      raise ValueError(
        "model_fn returned a spec for training but never asked for "
        "gradients of the Estimator's graph, so nothing was sharded; ask by "
        "tf.gradients, an optimizer's minimize or compute_gradients, or "
        "tf.GradientTape inside model_fn"
      )
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
    if self._zero is None:
      found = list(compute(wholes, asked.tensors, grad_ys))
    else:
      self._slice(new)
      found = self._zero.gradients(
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
      self._slices.mirror()
    if self._processes is not None:
      found = self._processes.sum(asked.tensors, found)
    return self._splitter.gradients.contract(asked, found)

  def constants(self, tensors: list[Any]) -> list[Any]:
    """Returns what slices make of constants; see `GradientRequestHandler`."""
    return [] if self._zero is None else self._zero.constants(tensors)

  def add_terms(self, terms: list[tf.Tensor]) -> tf.Tensor:
    """Adds the terms of a gradient that several stages have a part of."""
    if self._slices is None and not self._splits_variables:
      return gradient_lib.add_at_once(terms)
    # Micro-batches and shards round in another way as it is; so nobody waits.
    return gradient_lib.add_by_device(terms)

  def _place_forward(
    self, targets: Sequence[tf.Operation]
  ) -> list[tf.Operation]:
    """Gives stages and devices to what was built so far.

    Returns:
      What was built since the last time.
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
      self._slices.spread(variables)
    return self._read_new_ops()

  def _slice(self, new: Sequence[tf.Operation]) -> None:
    """Lets slice 0 do what slices may do of ops that have devices."""
    assert self._batch is not None and self._zero is not None
    own = [op for op in new if not self._splitter.is_replaced(op)]
    self._zero.split(own, self._batch.plan(own, self._zero.joined))
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
    if self._slices is None or self._batch is None:
      return spec
    if not self._trains:
      self._slice(self._stages.ops)
    rest = [op for op in rest if not self._splitter.is_replaced(op)]
    spec = self._slices.finish(
      spec, rest, self._stages.stages, self._batch.batch
    )
    if self._trains and self._config.prefetch_inputs:
      self._of_input = input_boundary.ops_of_input(
        self._examples, self._slices.cuts_of_inputs
      )
    return spec

  def _prefetch(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Lets batches wait on the devices that read them."""
    made = prefetching.prefetch(input_boundary.find(self._of_input))
    hook = prefetch_hook.PrefetchingHook(
      made.number, made.store, made.end, made.waiting
    )
    # After those that initialize iterators or set them to a position.
    return spec._replace(training_hooks=(*spec.training_hooks, hook))

  def _order_reads(self, spec: tf.estimator.EstimatorSpec) -> None:
    """Lets a step read variables before it writes them, as the program does."""
    fetches = tf.nest.flatten([spec.train_op, spec.loss])
    step = traversal.ops_run_with(*fetches)
    made = [op for op in self._graph.get_operations() if op in step]
    ordering.read_before_writing(unordered_reads.find(made))

  def _with_hooks(
    self, spec: tf.estimator.EstimatorSpec
  ) -> tf.estimator.EstimatorSpec:
    """Returns the spec of a run that explains and checks what it does."""
    if self._slices is not None:
      spec = size_errors.with_explained_steps(spec)
    spec = export.with_deviceless_export(spec)
    if self._config.verify_placement:
      spec = verification.with_placement_verification(spec)
    return spec

  def _devices_of_parts(self, op: tf.Operation) -> Sequence[str]:
    """Returns the devices of the parts of an op of the model."""
    stage = self._stages.stage_of(op)
    return [
      self._mesh.device(**{"stage": stage, self._split_axis: i})
      for i in range(self._mesh.axis_size(self._split_axis))
    ]

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

  def _record(self, spec: tf.estimator.EstimatorSpec) -> None:
    """Keeps the plan for people, for evaluation and for prediction."""
    num_replicas = 1
    mirrors: Mapping[str, tuple[str, ...]] = {}
    if self._slices is not None:
      num_replicas = self._mesh.axis_size("data")
      mirrors = self._slices.mirrors
    held = contents.contents_of_devices(self._mesh, num_replicas, mirrors)
    placement = contents.placement_of_stages(
      self._mesh, self._stages.stages, held
    )
    train_op = None
    if held and self._trains:
      train_op = getattr(spec.train_op, "op", spec.train_op).name
    plan = sharding_plan.ShardingPlan(placement, train_op=train_op)
    if self._slices is not None:
      plan = self._slices.plan(placement, train_op)
    if self._splits_variables:
      plan = dataclasses.replace(plan, splits=self._splits.summary)
    sharding_plan.record_plan(self._graph, plan)
    # Estimator's own log, so that users see it.
    log = tf.compat.v1.logging
    if plan.segments is not None:
      log.info("Slices of the batch: %s", plan.segments)
    is_idle = plan.splits is not None and not plan.splits.variables
    if is_idle and self._split_axis == "model":
      log.warning(
        "mesh=%r: no variable of the model is split over the model axis, so "
        "that the first of its devices does the work of all; say by rules of "
        "split what to split, or leave the axis out",
        self._config.mesh,
      )
    log.info(
      "Placement to %s on mesh %s:\n%s",
      self._mode,
      self._mesh,
      placement.table(),
    )
    if self._trains and self._model_dir:
      placement_file.save_placement(placement, self._model_dir, self._mesh)
