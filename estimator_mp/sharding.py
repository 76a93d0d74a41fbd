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

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.private import gradient_requests, graph_edits, keras
from estimator_mp import devices, export
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import (
  earlier_gradients,
  graph_checks,
  micro_batches,
  slice_errors,
)
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.config import sharding_options
from estimator_mp.graph import colocation as colocation_lib
from estimator_mp.graph import device_assignment, savers
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.lower import pipeline as pipeline_lib
from estimator_mp.lower import replicas as replicas_lib
from estimator_mp.lower import transfers as lower_transfers
from estimator_mp.observe import verification
from estimator_mp.placement import (
  contents,
  parts,
  placement_file,
  rules,
  transfers,
)
from estimator_mp.placement import placement as placement_lib
from estimator_mp.placement import propagation as propagation_lib
from estimator_mp.plan import sharding_plan
from estimator_mp.replicas import horovod
from estimator_mp.session import input_position, one_process
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
    ValueError: If model_fn or config is something else, the mesh has another
      axis than `data` and `stage`, or `TF_CONFIG` names several tasks. When it
      is called: if the model cannot be placed as `config` says, trains without
      asking for gradients in a way that can be intercepted, or is to be
      distributed by a strategy.
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
  if mesh.axis_size("model") > 1:
    raise ValueError(
      f"shard_model_fn uses the axes data and stage, but mesh {mesh} has "
      f"model:{mesh.axis_size('model')}; use a mesh such as stage:{mesh.size}"
    )
  # In each task, before any of them waits for the others.
  one_process.check_one_task(tf.estimator.RunConfig())
  signature = inspect.signature(model_fn)
  parameters = [*signature.parameters.values()]
  if "config" not in signature.parameters:
    parameters = _with_config(parameters)

  @functools.wraps(model_fn)
  def sharded(*args, **kwargs):
    bound = inspect.Signature(parameters).bind(*args, **kwargs).arguments
    run_config = bound.get("config")
    if "config" not in signature.parameters:
      bound.pop("config", None)
    # A wrapper around this function may keep it to itself.
    session_config = model_dir = None
    one_process.check_no_strategy(mesh)
    if run_config is not None:
      one_process.check_run_config(run_config, mesh)
      mesh.check_session_config(run_config.session_config)
      session_config = run_config.session_config
      model_dir = run_config.model_dir
    mode = bound.get("mode", TRAIN)
    sharder = _Sharder(config, mesh, mode, model_dir)
    call = signature.bind(**sharder.inputs(bound))
    seed = getattr(run_config, "tf_random_seed", None)
    with keras.seeded_layers(tf, seed):
      spec = sharder.run(lambda: model_fn(*call.args, **call.kwargs))
    if mode == TRAIN and saves_input_position(run_config):
      spec = input_position.with_saved_position(spec, run_config.model_dir)
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


class _Sharder:
  """Places the graph of one call of a model_fn."""

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
    self._ops: list[tf.Operation] = []
    self._units = colocation_lib.Units()
    self._stages: dict[tf.Operation, int] = {}
    self._of_savers: set[tf.Operation] = set()
    self._requests = 0
    self._is_marked: bool | None = None
    self._parts = parts.Parts(
      mesh.axis_size("stage"), config.memory_limit, config.measured_seconds
    )
    # Evaluation and prediction use the placement that training saved.
    self._saved: placement_lib.Placement | None = None
    if mode != TRAIN:
      self._saved = placement_file.load_placement(model_dir, mesh)
    self._joins = earlier_gradients.Joins()
    self._pipeline: pipeline_lib.Pipeline | None = None
    self._batches: micro_batches.MicroBatches | None = None
    self._processes: horovod.Processes | None = None
    if config.aggregation == sharding_options.HOROVOD:
      self._processes = horovod.Processes(config.loss_reduction)

  def inputs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns model_fn's arguments, with what it is to train on at a time."""
    config = self._config
    schedule = config.create_schedule()
    replicas = replicas_lib.Replicas(config, self._mesh)
    count = schedule.num_micro_batches * replicas.count
    if self._mode != TRAIN or count == 1:
      return dict(arguments)
    batch = {
      name: arguments[name]
      for name in ("features", "labels")
      if name in arguments
    }
    batches = micro_batches.split_batch(
      batch,
      schedule.num_micro_batches,
      config.batch_axis,
      replicas.count,
      schedule.num_rounds,
      devices.host_of(self._mesh.device(stage=0)),
    )
    self._batches = batches
    self._pipeline = pipeline_lib.Pipeline(
      self._mesh,
      batches,
      schedule,
      replicas,
      config.loss_reduction,
      config.recompute,
      config.batch_norm,
      config.state_updates,
    )
    return dict(arguments) | batches.inputs[0]

  def run(
    self, build: Callable[[], tf.estimator.EstimatorSpec]
  ) -> tf.estimator.EstimatorSpec:
    """Builds the model and places it."""
    with (
      gradient_requests.intercepted(self._graph, self),
      mesh_lib.current_mesh(self._mesh),
    ):
      try:
        spec = build()
      except Exception as error:
        if self._batches is not None:
          slice_errors.explain_build_error(error, self._batches)
        raise
    graph_checks.check_spec(spec)
    if self._mode != TRAIN:
      self._place_forward(_outputs_of(spec))
    elif not self._requests:
      raise ValueError(
        "model_fn returned a spec for training but never asked for "
        "gradients of the Estimator's graph, so nothing was sharded; ask by "
        "tf.gradients, an optimizer's minimize or compute_gradients, or "
        "tf.GradientTape inside model_fn"
      )
    self._check_placement()
    self._place_rest()
    graph_checks.check_no_tpu_ops(self._ops)
    pipeline = None
    if self._pipeline is not None:
      spec, pipeline = self._pipeline.finish(spec, self._stages)
    if self._processes is not None and self._mode == TRAIN:
      spec = self._processes.finish(spec)
    savings = transfers.find_savings(self._graph.get_operations())
    lower_transfers.reduce_transfers(savings)
    self._record(spec, pipeline)
    if self._batches is not None:
      spec = slice_errors.with_explained_steps(spec, self._batches)
    spec = export.with_deviceless_export(spec)
    if self._config.verify_placement:
      spec = verification.with_placement_verification(spec)
    return spec

  def gradients(
    self,
    targets: list[Any],
    sources: list[Any],
    seeds: list[Any] | None,
    compute: gradient_requests.Compute,
  ) -> list[Any]:
    """Answers a request for gradients; see `GradientRequestHandler`.

    A gradient that model_fn got before is a sum of those of slices. What
    depends on it is differentiated in two steps: with respect to the sum, as
    if it was a variable, and then from the sum to the slices' gradients.
    """
    joined = self._joins.before([tf.convert_to_tensor(x) for x in targets])
    if not joined:
      return self._gradients_of_part(targets, sources, seeds, compute, ())
    totals = [join.total for join in joined]
    found = self._gradients_of_part(
      targets, [*sources, *totals], seeds, compute, totals
    )
    results, of_totals = found[: len(sources)], found[len(sources) :]
    inner = [
      (join.part, gradient)
      for join, gradient in zip(joined, of_totals, strict=True)
      if gradient is not None
    ]
    if not inner:
      return results
    parts, inner_seeds = (list(x) for x in zip(*inner, strict=True))
    if self._pipeline is not None:
      self._pipeline.say_sums(parts)
    more = self.gradients(parts, sources, inner_seeds, compute)
    return [
      gradient_lib.add(one, other)
      for one, other in zip(results, more, strict=True)
    ]

  def _gradients_of_part(
    self,
    targets: list[Any],
    sources: list[Any],
    seeds: list[Any] | None,
    compute: gradient_requests.Compute,
    constants: Sequence[tf.Tensor],
  ) -> list[Any]:
    """Returns gradients for which no earlier ones are differentiated."""
    self._requests += 1
    # Places the forward graph: gradient ops will be made beside its ops.
    tensors = [tf.convert_to_tensor(x) for x in targets]
    self._place_forward([x.op for x in tensors])
    if self._pipeline is not None:
      seeds = self._pipeline.seeds(tensors, seeds)
    gradients = list(compute(targets, sources, seeds, constants))
    results = self._aggregated(tensors, sources, gradients)
    self._joins.add(sources, gradients, results)
    return results

  def add_terms(self, terms: list[tf.Tensor]) -> tf.Tensor:
    """Adds the terms of a gradient that several stages have a part of."""
    if self._pipeline is None:
      return gradient_lib.add_at_once(terms)
    # Micro-batches round in another way as it is; so no stage waits.
    return gradient_lib.add_by_device(terms)

  def _aggregated(
    self,
    targets: Sequence[tf.Tensor],
    sources: Sequence[Any],
    gradients: list[Any],
  ) -> list[Any]:
    """Keeps gradients on their variables' stages; adds up micro-batches'."""
    new = self._read_new_ops()
    self._adopt_devices(new)
    for source, gradient in zip(sources, gradients, strict=True):
      source_op = getattr(source, "handle", source).op
      if gradient is None or source_op not in self._stages:
        continue
      for part in tf.nest.flatten(gradient, expand_composites=True):
        if not part.op.device:
          self._stages.setdefault(part.op, self._stages[source_op])
    if self._pipeline is not None:
      self._spread(new, propagation_lib.Follows.LARGEST_INPUT)
      gradients = self._pipeline.aggregate(
        targets, sources, gradients, new, self._stages
      )
    if self._processes is not None:
      gradients = self._processes.sum(sources, gradients)
    return gradients

  def _place_forward(self, targets: Sequence[tf.Operation]) -> None:
    """Gives stages and devices to what was built so far."""
    new = self._read_new_ops()
    self._adopt_devices(new)
    if self._is_marked is None:
      marked = [op for op in new if op not in self._of_savers]
      graph_checks.check_no_marks(marked, self._mesh)
      graph_checks.check_loops(new, self._stages)
      marks = {self._stages[op] for op in new if op in self._stages}
      self._is_marked = len(marks) > 1
    placed = {self._units.of(op) for op in self._stages if op in self._units}
    unplaced = [
      op
      for op in self._ops
      if self._units.of(op) not in placed and op not in self._of_savers
    ]
    without_stage = [op for op in self._ops if op not in self._stages]
    self._stages |= self._stages_of(unplaced, targets)
    self._spread(without_stage, propagation_lib.Follows.LATEST_INPUT)

  def _stages_of(
    self, ops: Sequence[tf.Operation], targets: Sequence[tf.Operation]
  ) -> dict[tf.Operation, int]:
    """Returns the stages that the user, training or the best cut gives ops."""
    placement = self._config.placement
    if isinstance(placement, placement_lib.Placement):
      conflict = placement.find_conflict(ops, self._units)
      if conflict:
        raise ValueError(f"{conflict}; give one that has both on one stage")
      return placement.stages_of(ops, self._units)
    if not isinstance(placement, str):
      return rules.match_rules(placement, ops, self._units)
    if self._is_marked:
      return {}
    if self._saved is not None:
      conflict = self._saved.find_conflict(ops, self._units)
      if conflict:  # Such as decoding in a loop, which training does without.
        tf.compat.v1.logging.warning(
          "To %s, variables move: %s", self._mode, conflict
        )
      return self._saved.stages_of(ops, self._units)
    return self._parts.cut(ops, targets, self._units)

  def _check_placement(self) -> None:
    """Raises if the whole model and its placement do not suit each other."""
    placement = self._config.placement
    if isinstance(placement, placement_lib.Placement):
      placement.check_coverage(self._ops)
    elif not isinstance(placement, str):
      rules.check_coverage(placement, self._ops)
    elif not self._is_marked and self._saved is None:
      self._parts.check()

  def _place_rest(self) -> None:
    """Gives stages to updates, slots and whatever else was built since."""
    self._adopt_devices(self._read_new_ops())
    rest = [op for op in self._ops if op not in self._stages]
    self._spread(rest, propagation_lib.Follows.LARGEST_INPUT)

  def _spread(
    self, ops: Sequence[tf.Operation], follows: propagation_lib.Follows
  ) -> None:
    found = propagation_lib.spread(ops, self._units, self._stages, follows)
    self._stages |= found
    device_assignment.assign(found, self._mesh.stage_devices())

  def _read_new_ops(self) -> list[tf.Operation]:
    """Returns the ops that were made since the last call."""
    everything = self._graph.get_operations()
    new = everything[self._seen :]
    self._seen = len(everything)
    if self._batches is not None:
      checks = self._batches.whole.ops
      new = [op for op in new if op not in checks]
    if self._pipeline is not None:
      new = [op for op in new if not self._pipeline.is_copy(op)]
      self._pipeline.add(new)
    self._ops += new
    self._units.add(new)
    of_savers = savers.saver_ops(new)
    for op in savers.work_on_variables(of_savers):
      graph_edits.set_device(op, op.inputs[0].device)
    self._of_savers |= of_savers
    return new

  def _adopt_devices(self, ops: Sequence[tf.Operation]) -> None:
    """Takes over the stages of ops that have a device of the mesh already."""
    own = [op for op in ops if op not in self._of_savers]
    self._stages |= device_assignment.stages_of_devices(
      own, self._mesh.stage_devices()
    )

  def _record(
    self,
    spec: tf.estimator.EstimatorSpec,
    pipeline: sharding_plan.PipelinePlan | None,
  ) -> None:
    """Keeps the plan for people, for evaluation and for prediction."""
    replicas: tuple[placement_lib.ReplicaDevice, ...] = ()
    plan = functools.partial(sharding_plan.ShardingPlan, pipeline=pipeline)
    if self._pipeline is not None:
      mirrors = self._pipeline.mirrors
      plan = functools.partial(
        plan, gradient_sums=tuple(self._pipeline.requests), mirrors=mirrors
      )
      if self._mesh.axis_size("data") > 1:
        replicas = contents.contents_of_replicas(self._mesh, mirrors)
        train_op = getattr(spec.train_op, "op", spec.train_op)
        plan = functools.partial(plan, train_op=train_op.name)
    placement = contents.placement_of_stages(self._mesh, self._stages, replicas)
    sharding_plan.record_plan(self._graph, plan(placement))
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
