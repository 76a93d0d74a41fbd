"""shard_model_fn: a model_fn that nobody edits, on several devices.

    model_fn builds its forward graph             no op has a device yet
    model_fn asks for gradients     -> intercepted: every forward op and
                                       variable gets its stage; gradient ops are
                                       made beside their forward ops
    model_fn clips, updates, returns -> what is left follows what it reads

The graph is the one that model_fn builds: the same ops, names and variables in
the same order, so that checkpoints, hooks and random seeds are the plain
model's. Only devices are added.
"""

import contextlib
import dataclasses
import functools
import gc
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compat.private import gradient_requests, keras
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
from estimator_mp.lower import ordering, parameter_servers, sends
from estimator_mp.lower.inputs import prefetching
from estimator_mp.lower.splitting import splitter
from estimator_mp.lower.whole_batch import engine
from estimator_mp.observe import verification
from estimator_mp.placement import (
  contents,
  half_sends,
  propagation,
  transfers,
)
from estimator_mp.plan import sharding_plan, split_planner, unordered_reads
from estimator_mp.plan import stages as stages_lib
from estimator_mp.replicas import horovod
from estimator_mp.session import (
  distribution,
  export,
  input_position,
  prefetch_hook,
  server_worker,
)
from estimator_mp.session import session_config as session_config_lib

import tensorflow as tf

TRAIN = tf.estimator.ModeKeys.TRAIN

ModelFn = Callable[..., tf.estimator.EstimatorSpec]

_IS_SHARDED = "_is_sharded_by_estimator_mp"


def shard_model_fn(
  model_fn: ModelFn, config: sharding_config_lib.ShardingConfig
) -> ModelFn:
  """Returns a model_fn whose model spans the devices of a mesh.

  Args:
    model_fn: A model_fn of an Estimator, as it is. It is called once for each
      graph.
    config: The mesh, and how the model is placed on it.

  Returns:
    A model_fn with the same arguments, and `config` besides. Without `config`
    it cannot check the session's settings, nor find a saved placement.

  Raises:
    ValueError: If model_fn or config is something else. When it is called: if
      a task of a cluster is to train without the others, or the model cannot
      be placed or split as `config` says, trains without asking for gradients
      in a way that can be intercepted, or is to be distributed by a strategy.
    ImportError: When it is called, if aggregation is "horovod" and Horovod
      cannot be imported.
  """
  if not callable(model_fn) or is_sharded(model_fn):
    state = "is sharded already" if callable(model_fn) else "cannot be called"
    raise ValueError(
      f"model_fn={model_fn!r} {state}; give the plain model_fn that you would "
      "give to an Estimator"
    )
  sharding_config_lib.check_config(config)
  whole_mesh = config.create_mesh()
  signature = inspect.signature(model_fn)
  parameters = [*signature.parameters.values()]
  if "config" not in signature.parameters:
    parameters = _with_config(parameters)

  @functools.wraps(model_fn)
  def sharded(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
    bound = inspect.Signature(parameters).bind(*args, **kwargs).arguments
    run_config = bound.get("config")
    if "config" not in signature.parameters:
      bound.pop("config", None)
    # A wrapper around this function may keep it to itself.
    session_config: Any = None
    model_dir: Any = None
    mode = bound.get("mode", TRAIN)
    mesh = whole_mesh
    if export.is_for_export() or distribution.is_beside(run_config, mode):
      mesh = mesh.on_this_machine()
    distribution.check_no_strategy(mesh)
    if run_config is not None:
      distribution.check_run_config(run_config, mesh)
      if mode == TRAIN:
        distribution.check_cluster(run_config, mesh)
      mesh.check_session_config(run_config.session_config)
      session_config = run_config.session_config
      model_dir = run_config.model_dir
    if mode == TRAIN and config.prefetch_inputs:
      prefetch_hook.check(run_config, mesh)
    servers = _servers(config, mesh, run_config, mode)
    is_chief = mode != TRAIN or getattr(run_config, "is_chief", True)
    # One task alone saves the placement.
    folder = model_dir if is_chief else None
    sharding = _Sharding(config, mesh, mode, folder, servers)
    compiles_with_xla = session_config_lib.compiles_with_xla(session_config)
    seed = getattr(run_config, "tf_random_seed", None)
    with servers.building(), _no_collections():
      call = signature.bind(**sharding.inputs(bound))
      with keras.seeded_layers(tf, seed), sharding.variables():
        spec = sharding.run(lambda: model_fn(*call.args, **call.kwargs))
    if mode == TRAIN and session_config_lib.saves_input_position(run_config):
      spec = input_position.with_saved_position(spec, model_dir)
    graph = tf.compat.v1.get_default_graph()
    if compiles_with_xla:
      sharding.keep_cells_apart()
    if servers.exist:
      spec = server_worker.with_prompt_end(spec, graph.get_operations())
    graph_checks.check_devices_exist(graph, mesh, session_config)
    return spec

  setattr(sharded, _IS_SHARDED, True)
  del sharded.__wrapped__  # Estimator looks at the arguments of this one.
  vars(sharded)["__signature__"] = inspect.Signature(parameters)
  return sharded


def is_sharded(model_fn: Any) -> bool:
  """Whether `shard_model_fn` made something.

  Args:
    model_fn: A model_fn.
  """
  return getattr(model_fn, _IS_SHARDED, False)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
  """Lets nobody look for garbage while a graph is built.

  Every object of a graph lives as long as the graph. Python's collector visits
  all of them again and again as they become more, and frees next to nothing:
  a tenth of the time of building a large model.

  Yields:
    None.
  """
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if was_enabled:
      gc.enable()


def _servers(
  config: sharding_config_lib.ShardingConfig,
  mesh: mesh_lib.Mesh,
  run_config: Any,
  mode: str,
) -> parameter_servers.NoServers:
  """Returns what says which task holds a variable."""
  if mode != TRAIN or not server_worker.has_servers(run_config):
    return parameter_servers.NoServers()
  server_worker.check(config, mesh, run_config)
  return parameter_servers.ParameterServers(
    server_worker.task_of(run_config), server_worker.device_function(run_config)
  )


def _with_config(
  parameters: Sequence[inspect.Parameter],
) -> list[inspect.Parameter]:
  """Returns parameters with one named `config` after those with names."""
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  named = [p for p in parameters if p.kind <= kind]
  new = inspect.Parameter("config", kind, default=None)
  return [*named, new, *parameters[len(named) :]]


class _Sharding:
  """Captures, plans and lowers the graph of one call of a model_fn.

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
    self._config = config
    self._mesh = mesh
    self._mode = mode
    self._model_dir = model_dir
    self._servers = servers
    self._graph = tf.compat.v1.get_default_graph()
    servers.hold(self._graph.get_operations())
    self._ledger = ledger_lib.Ledger(self._graph)
    # Evaluation and prediction use the placement that training saved.
    saved = (
      None if mode == TRAIN else placement_file.load_placement(model_dir, mesh)
    )
    self._stages = stages_lib.StagePlanner(
      config, mesh, mode, self._ledger, saved
    )
    self._processes: horovod.Processes | None = None
    self._examples: list[tf.Tensor] = []  # What model_fn is called with.
    self._of_input: Sequence[tf.Operation] = ()  # If batches are prefetched.
    self._is_asked = False  # For gradients.
    self._whole: engine.WholeBatch | None = None
    self._splitter: splitter.Splitter | splitter.Unsplit = splitter.Unsplit()
    # Without a model axis, tables may be split over replicas.
    self._split_axis = "model"
    if mesh.axis_size("model") == 1 and config.split != split_rules.AUTO:
      self._split_axis = "data"
    if mesh.axis_size(self._split_axis) > 1:
      planner = split_planner.SplitPlanner(
        config, mesh.axis_size(self._split_axis)
      )
      self._splitter = splitter.Splitter(
        planner, self._devices_of_parts, self._ledger
      )
    if config.aggregation == sharding_options.HOROVOD:
      self._processes = horovod.Processes(config.horovod_op)
    if export.is_for_export():
      self._prepare_export()

  def _prepare_export(self) -> None:
    """Lets a graph for a SavedModel be the plain one, or keep its devices."""
    if not self._config.export_shards:
      self._splitter = splitter.Unsplit()
    elif isinstance(self._splitter, splitter.Splitter):
      export.keep_devices()

  def variables(self) -> AbstractContextManager[None]:
    """Returns a context for model_fn's variables to be such as can be split."""
    if self._splitter.summary is None:
      return contextlib.nullcontext()
    return resources.all_resources()

  def inputs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns model_fn's arguments, which are for the whole batch."""
    batch = {
      name: arguments[name]
      for name in ("features", "labels")
      if name in arguments
    }
    self._examples = _tensors(batch)
    if self._mode == TRAIN or not export.is_for_export():
      self._whole = self._parted(batch)
    if self._mode == TRAIN and self._config.prefetch_inputs and not self._whole:
      self._of_input = input_boundary.ops_of_input(
        self._examples, self._ledger.all_made()
      )
    return {**arguments, **batch}

  def _parted(self, batch: Mapping[str, Any]) -> engine.WholeBatch | None:
    """Returns what does in slices what may be done so; None for one slice.

    Raises:
      ValueError: If there are to be slices, and nothing has examples.
    """
    schedule = self._config.create_schedule()
    num_replicas = self._mesh.axis_size("data")
    if self._mode != TRAIN:
      num_replicas = 1
      # Without gradients, one device has nothing to gain by slices.
      if self._mesh.axis_size("stage") == 1:
        return None
    if num_replicas * schedule.num_micro_batches == 1:
      return None
    inputs = micro_batches.inputs_with_examples(batch, self._config.batch_axis)
    if not inputs and self._mode == TRAIN:
      raise ValueError(
        f"mesh={self._config.mesh!r} with num_micro_batches="
        f"{schedule.num_micro_batches} cuts the batch, but features and labels "
        "have no tensor with examples; use num_micro_batches=1 and no data "
        "axis, or say in batch_axis where they are"
      )
    if not inputs:
      return None
    config = self._config
    if self._mode != TRAIN:  # Its results are the plain model's.
      config = dataclasses.replace(config, draws="whole", batch_norm="whole")
    host = devices.host_of(self._mesh.device(stage=0))
    return engine.WholeBatch(
      config, self._mesh, schedule, inputs, host, num_replicas, self._ledger
    )

  def run(
    self, build: Callable[[], tf.estimator.EstimatorSpec]
  ) -> tf.estimator.EstimatorSpec:
    """Builds the model and shards it."""
    spec = self._capture(build)
    if self._mode != TRAIN:
      self._place_forward(_outputs_of(spec))
    self._stages.check()
    new = self._read_new_ops()
    self._stages.adopt_devices(new)
    stages = self._stages.plan_rest()
    new += self._split(new, [] if self._mode == TRAIN else None)
    self._assign_devices(stages)
    spec = self._splitter.finish(spec)
    new += self._read_new_ops()
    graph_checks.check_no_tpu_ops(self._stages.ops)
    if self._whole is not None:
      rest = [x for x in new if not self._splitter.is_replaced(x)]
      if self._mode != TRAIN:
        own = [x for x in self._stages.ops if not self._splitter.is_replaced(x)]
        self._whole.split(own)
        self._follow_plain(self._read_new_ops())
      spec = self._whole.finish(spec, rest, self._stages.stages)
      if self._mode == TRAIN and self._config.prefetch_inputs:
        self._of_input = input_boundary.ops_of_input(
          self._examples, self._whole.cuts_of_inputs
        )
    if self._processes is not None and self._mode == TRAIN:
      spec = self._processes.finish(spec)
    if self._of_input:
      spec = self._prefetch(spec)
    if self._mode == TRAIN:
      self._order_reads(spec)
    savings = transfers.find_savings(self._graph.get_operations())
    sends.reduce_transfers(savings)
    device_assignment.settle_on_hosts(self._graph, self._mesh.devices)
    device_assignment.leave_other_devices(self._stages.ops)
    self._record(spec)
    if self._whole is not None:
      spec = size_errors.with_explained_steps(spec)
    spec = export.with_deviceless_export(spec)
    if self._config.verify_placement:
      spec = verification.with_placement_verification(spec)
    if export.is_for_export():
      self._splitter.split_now()
    else:
      self._splitter.split_late()
    self._servers.finish(self._ledger.all_made())
    return spec

  def _order_reads(self, spec: tf.estimator.EstimatorSpec) -> None:
    """Lets a step read variables before it writes them, as the program does."""
    fetches = tf.nest.flatten([spec.train_op, spec.loss])
    step = traversal.ops_run_with(*fetches)
    made = [op for op in self._graph.get_operations() if op in step]
    ordering.read_before_writing(unordered_reads.find(made))

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

  def keep_cells_apart(self) -> None:
    """Lets XLA compile cells one by one, once `run` has returned."""
    plan = sharding_plan.get_plan(self._graph)
    if plan is not None and plan.pipeline is not None:
      ordering.keep_cells_apart(self._graph, plan.pipeline.cells)

  def _capture(
    self, build: Callable[[], tf.estimator.EstimatorSpec]
  ) -> tf.estimator.EstimatorSpec:
    """Calls model_fn, and answers its requests for gradients."""
    with (
      gradient_requests.intercepted(self._graph, self),
      mesh_lib.current_mesh(self._mesh),
    ):
      spec = build()
    graph_checks.check_spec(spec)
    if self._mode == TRAIN and not self._is_asked:
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
    asked = self._splitter.expand(sources)
    wholes: list[Any] = [self._splitter.whole(x) for x in tensors]
    new += self._read_new_ops()
    # A tape answers what it was asked, and nothing else.
    if all(x is y for x, y in zip(wholes, tensors, strict=True)):
      wholes = targets
    if self._whole is None:
      found = list(compute(wholes, asked.tensors, grad_ys))
    else:
      self._whole.split([x for x in new if not self._splitter.is_replaced(x)])
      self._follow_plain(self._read_new_ops())
      found = self._whole.gradients(
        [tf.convert_to_tensor(x) for x in wholes],
        asked.tensors,
        grad_ys,
        compute,
      )
    asked, found = self._splitter.without_lookups(asked, found)
    new = self._read_new_ops()
    if self._splitter.read_wholes(new):
      new += self._read_new_ops()
    control_flow.wait_outside_of_loops(new)
    self._stages.plan_gradients(new, asked.tensors, found)
    if self._whole is not None:
      follows = propagation.Follows.LARGEST_INPUT
      plain = [x for x in new if self._ledger.role(x) is not Role.SLICE]
      self._assign_devices(self._stages.propagate(plain, follows))
      self._follow_plain(new)
      self._assign_devices(self._stages.propagate(new, follows))
      self._whole.mirror()
    if self._processes is not None:
      found = self._processes.sum(asked.tensors, found)
    return self._splitter.contract(asked, found)

  def constants(self, tensors: list[Any]) -> list[Any]:
    """Returns what slices make of constants; see `GradientRequestHandler`."""
    return [] if self._whole is None else self._whole.constants(tensors)

  def add_terms(self, terms: list[tf.Tensor]) -> tf.Tensor:
    """Adds the terms of a gradient that several stages have a part of."""
    if self._whole is None and self._splitter.summary is None:
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
    if self._mode == TRAIN and self._config.transfer_dtype != "float32":
      sent = self._send_in_half(new)
      new, stages = [*new, *sent], {**stages, **sent}
    made = self._split(new, targets if self._mode == TRAIN else None)
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
    self,
    new: Sequence[tf.Operation],
    targets: Sequence[tf.Operation] | None = None,
  ) -> list[tf.Operation]:
    """Splits what is to be split of ops that have stages; returns new ops."""
    variables = self._splitter.split(new, targets)
    if self._whole is not None and self._split_axis == "data":
      self._whole.spread(variables)
    return self._read_new_ops()

  def _follow_plain(self, new: Sequence[tf.Operation]) -> None:
    """Decides that slices' ops are on the stages of the plain ones."""
    self._stages.adopt_devices(new)
    self._stages.follow(new)

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
    if self._whole is not None:
      num_replicas = self._mesh.axis_size("data")
      mirrors = self._whole.mirrors
    held = contents.contents_of_devices(self._mesh, num_replicas, mirrors)
    placement = contents.placement_of_stages(
      self._mesh, self._stages.stages, held
    )
    train_op = None
    if held and self._mode == TRAIN:
      train_op = getattr(spec.train_op, "op", spec.train_op).name
    plan = sharding_plan.ShardingPlan(placement, train_op=train_op)
    if self._whole is not None:
      plan = self._whole.plan(placement, train_op)
    plan = dataclasses.replace(plan, splits=self._splitter.summary)
    sharding_plan.record_plan(self._graph, plan)
    if plan.segments is not None:
      tf.compat.v1.logging.info("Slices of the batch: %s", plan.segments)
    tf.compat.v1.logging.info(  # Estimator's own log, so that users see it.
      "Placement to %s on mesh %s:\n%s",
      self._mode,
      self._mesh,
      placement.table(),
    )
    if self._mode == TRAIN and self._model_dir:
      placement_file.save_placement(placement, self._model_dir, self._mesh)


def _tensors(inputs: Mapping[str, Any]) -> list[tf.Tensor]:
  """Returns the tensors of features and labels."""
  flat = tf.nest.flatten(dict(inputs), expand_composites=True)
  return [x for x in flat if tf.is_tensor(x)]


def _outputs_of(spec: tf.estimator.EstimatorSpec) -> list[tf.Operation]:
  """Returns the ops of what a model computes without training."""
  outputs = tf.nest.flatten([spec.predictions, spec.loss])
  return [x.op for x in outputs if x is not None]
