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
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compat.private import gradient_requests, keras
from estimator_mp import devices
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import (
  graph_checks,
  micro_batches,
  requests,
  resources,
  slice_errors,
)
from estimator_mp.config import placement_file, sharding_options, split_rules
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.graph import control_flow, device_assignment, savers
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.lower import lowering as lowering_lib
from estimator_mp.lower import transfers as lower_transfers
from estimator_mp.lower.splitting import splitter
from estimator_mp.observe import verification
from estimator_mp.placement import (
  contents,
  propagation,
  transfers,
)
from estimator_mp.plan import sharding_plan, split_planner
from estimator_mp.plan import stages as stages_lib
from estimator_mp.replicas import horovod
from estimator_mp.session import export, input_position, one_process
from estimator_mp.session.session_config import saves_input_position

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
    ValueError: If model_fn or config is something else, or `TF_CONFIG` names
      several tasks. When it is called: if the model cannot be placed or split
      as `config` says, trains without asking for gradients in a way that can
      be intercepted, or is to be distributed by a strategy.
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
  mesh = config.create_mesh()
  # In each task, before any of them waits for the others.
  one_process.check_one_task(tf.estimator.RunConfig())
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
    one_process.check_no_strategy(mesh)
    if run_config is not None:
      one_process.check_run_config(run_config, mesh)
      mesh.check_session_config(run_config.session_config)
      session_config = run_config.session_config
      model_dir = run_config.model_dir
    mode = bound.get("mode", TRAIN)
    sharding = _Sharding(config, mesh, mode, model_dir)
    call = signature.bind(**sharding.inputs(bound))
    seed = getattr(run_config, "tf_random_seed", None)
    with keras.seeded_layers(tf, seed), sharding.variables():
      spec = sharding.run(lambda: model_fn(*call.args, **call.kwargs))
    if mode == TRAIN and saves_input_position(run_config):
      spec = input_position.with_saved_position(spec, model_dir)
    graph = tf.compat.v1.get_default_graph()
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


def _with_config(
  parameters: Sequence[inspect.Parameter],
) -> list[inspect.Parameter]:
  """Returns parameters with one named `config` after those with names."""
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  named = [p for p in parameters if p.kind <= kind]
  new = inspect.Parameter("config", kind, default=None)
  return [*named, new, *parameters[len(named) :]]


class _Sharding:
  """Captures, plans and lowers the graph of one call of a model_fn."""

  def __init__(
    self,
    config: sharding_config_lib.ShardingConfig,
    mesh: mesh_lib.Mesh,
    mode: str,
    model_dir: str | None,
  ):
    self._config = config
    self._mesh = mesh
    self._mode = mode
    self._model_dir = model_dir
    self._graph = tf.compat.v1.get_default_graph()
    self._seen = len(self._graph.get_operations())
    # Evaluation and prediction use the placement that training saved.
    saved = (
      None if mode == TRAIN else placement_file.load_placement(model_dir, mesh)
    )
    self._stages = stages_lib.StagePlanner(config, mesh, mode, saved)
    self._lowering: lowering_lib.Lowering | None = None
    self._batches: micro_batches.MicroBatches | None = None
    self._processes: horovod.Processes | None = None
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
        planner, self._devices_of_parts, self._stages.follow
      )
    if config.aggregation == sharding_options.HOROVOD:
      self._processes = horovod.Processes(config.loss_reduction)
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
    """Returns model_fn's arguments, with what it is to train on at a time."""
    schedule = self._config.create_schedule()
    num_replicas = self._mesh.axis_size("data")
    if self._mode != TRAIN or schedule.num_micro_batches * num_replicas == 1:
      return dict(arguments)
    batch = {
      name: arguments[name]
      for name in ("features", "labels")
      if name in arguments
    }
    self._batches = micro_batches.split_batch(
      batch,
      schedule.num_micro_batches,
      self._config.batch_axis,
      num_replicas,
      schedule.num_rounds,
      devices.host_of(self._mesh.device(stage=0)),
    )
    self._lowering = lowering_lib.Lowering(
      self._config, self._mesh, schedule, self._batches
    )
    first: Mapping[str, Any] = self._batches.inputs[0]
    return {**arguments, **first}

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
    self._split(new, [] if self._mode == TRAIN else None)
    self._assign_devices(stages)
    spec = self._splitter.finish(spec)
    graph_checks.check_no_tpu_ops(self._stages.ops)
    if self._lowering is not None:
      spec = self._lowering.finish(spec, self._stages.stages)
    if self._processes is not None and self._mode == TRAIN:
      spec = self._processes.finish(spec)
    savings = transfers.find_savings(self._graph.get_operations())
    lower_transfers.reduce_transfers(savings)
    self._record(spec)
    if self._batches is not None:
      spec = slice_errors.with_explained_steps(spec, self._batches)
    spec = export.with_deviceless_export(spec)
    if self._config.verify_placement:
      spec = verification.with_placement_verification(spec)
    self._splitter.split_late()
    return spec

  def _capture(
    self, build: Callable[[], tf.estimator.EstimatorSpec]
  ) -> tf.estimator.EstimatorSpec:
    """Calls model_fn, and answers its requests for gradients."""
    handler = requests.Requests(self._answer, self._add_terms)
    with (
      gradient_requests.intercepted(self._graph, handler),
      mesh_lib.current_mesh(self._mesh),
    ):
      try:
        spec = build()
      except Exception as error:
        if self._batches is not None:
          slice_errors.explain_build_error(error, self._batches)
        raise
    graph_checks.check_spec(spec)
    if self._mode == TRAIN and not handler.count:
      raise ValueError(
        "model_fn returned a spec for training but never asked for "
        "gradients of the Estimator's graph, so nothing was sharded; ask by "
        "tf.gradients, an optimizer's minimize or compute_gradients, or "
        "tf.GradientTape inside model_fn"
      )
    return spec

  def _answer(self, request: requests.Request) -> requests.Answer:
    """Returns gradients of the whole batch."""
    targets = [tf.convert_to_tensor(x) for x in request.targets]
    # Gradient ops will be made beside the ops of the forward graph.
    self._place_forward([x.op for x in targets])
    sources = self._splitter.expand(request.sources)
    wholes = [self._splitter.whole(x) for x in targets]
    self._read_new_ops()
    # A tape answers what it was asked, and nothing else.
    if any(x is not y for x, y in zip(wholes, targets, strict=True)):
      targets = wholes
      request = dataclasses.replace(request, targets=wholes)
    request = dataclasses.replace(request, sources=sources.tensors)
    grad_ys: Sequence[Any] | None = request.grad_ys
    if self._lowering is not None:
      if request.are_sums:
        self._lowering.say_sums(targets)
      grad_ys = self._lowering.grad_ys(targets, grad_ys)
    parts = request.gradients(grad_ys)
    sources, parts = self._splitter.without_lookups(sources, parts)
    request = dataclasses.replace(request, sources=sources.tensors)
    new = self._read_new_ops()
    if self._splitter.read_wholes(new):
      new += self._read_new_ops()
    control_flow.wait_outside_of_loops(new)
    self._stages.plan_gradients(new, request.sources, parts)
    totals = parts
    if self._lowering is not None:
      follows = propagation.Follows.LARGEST_INPUT
      self._assign_devices(self._stages.propagate(new, follows))
      totals = self._lowering.aggregate(
        targets, request.sources, parts, new, self._stages.stages
      )
    if self._processes is not None:
      totals = self._processes.sum(request.sources, totals)
    gradients = self._splitter.contract(sources, totals)
    return requests.Answer(gradients, request.sources, parts, totals)

  def _add_terms(self, terms: list[tf.Tensor]) -> tf.Tensor:
    """Adds the terms of a gradient that several stages have a part of."""
    if self._lowering is None and self._splitter.summary is None:
      return gradient_lib.add_at_once(terms)
    # Micro-batches and shards round in another way as it is; so nobody waits.
    return gradient_lib.add_by_device(terms)

  def _place_forward(self, targets: Sequence[tf.Operation]) -> None:
    """Gives stages and devices to what was built so far."""
    new = self._read_new_ops()
    stages = self._stages.plan_forward(new, targets)
    self._split(new, targets if self._mode == TRAIN else None)
    self._assign_devices(stages)

  def _split(
    self,
    new: Sequence[tf.Operation],
    targets: Sequence[tf.Operation] | None = None,
  ) -> None:
    """Splits what is to be split of ops that have stages."""
    variables = self._splitter.split(new, targets)
    if self._lowering is not None and self._split_axis == "data":
      self._lowering.spread(variables)
    self._read_new_ops()

  def _devices_of_parts(self, op: tf.Operation) -> Sequence[str]:
    """Returns the devices of the parts of an op of the model."""
    stage = self._stages.stages.get(op, 0)
    return [
      self._mesh.device(**{"stage": stage, self._split_axis: i})
      for i in range(self._mesh.axis_size(self._split_axis))
    ]

  def _assign_devices(self, stages: stages_lib.Stages) -> None:
    device_assignment.assign(stages, self._mesh.stage_devices())

  def _read_new_ops(self) -> list[tf.Operation]:
    """Returns the ops of the model that were made since the last call."""
    everything = self._graph.get_operations()
    new: list[tf.Operation] = everything[self._seen :]
    self._seen = len(everything)
    if self._batches is not None:
      checks = self._batches.whole.ops
      new = [op for op in new if op not in checks]
    if self._lowering is not None:
      new = [op for op in new if not self._lowering.is_copy(op)]
      self._lowering.add(new)
    of_savers = self._stages.add(new)
    device_assignment.follow_variables(savers.work_on_variables(of_savers))
    return new

  def _record(self, spec: tf.estimator.EstimatorSpec) -> None:
    """Keeps the plan for people, for evaluation and for prediction."""
    num_replicas = 1
    mirrors: Mapping[str, tuple[str, ...]] = {}
    if self._lowering is not None:
      num_replicas = self._mesh.axis_size("data")
      mirrors = self._lowering.mirrors
    held = contents.contents_of_devices(self._mesh, num_replicas, mirrors)
    placement = contents.placement_of_stages(
      self._mesh, self._stages.stages, held
    )
    train_op = None
    if held and self._mode == TRAIN:
      train_op = getattr(spec.train_op, "op", spec.train_op).name
    plan = sharding_plan.ShardingPlan(placement, train_op=train_op)
    if self._lowering is not None:
      plan = self._lowering.plan(placement, train_op)
    plan = dataclasses.replace(plan, splits=self._splitter.summary)
    sharding_plan.record_plan(self._graph, plan)
    tf.compat.v1.logging.info(  # Estimator's own log, so that users see it.
      "Placement to %s on mesh %s:\n%s",
      self._mode,
      self._mesh,
      placement.table(),
    )
    if self._mode == TRAIN and self._model_dir:
      placement_file.save_placement(placement, self._model_dir, self._mesh)


def _outputs_of(spec: tf.estimator.EstimatorSpec) -> list[tf.Operation]:
  """Returns the ops of what a model computes without training."""
  outputs = tf.nest.flatten([spec.predictions, spec.loss])
  return [x.op for x in outputs if x is not None]
