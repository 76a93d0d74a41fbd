"""shard_model_fn: an unchanged model_fn on several devices.

    model_fn builds the plain graph    forward pass, gradients, updates
    model_fn returns     -> ops and variables get stages, the batch is cut into
                            slices, variables into shards (`driver`)

The plain ops stay: names and variables in the same order, so that checkpoints,
hooks and random seeds are the plain model's. What is added are copies for
slices and shards, and devices.
"""

import contextlib
import functools
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compat.private import keras
from estimator_mp import driver
from estimator_mp import mesh as mesh_lib
from estimator_mp.capture import graph_checks, step_errors
from estimator_mp.config import placement_file
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.config.mesh_axes import AUTO
from estimator_mp.lower import ordering, parameter_servers
from estimator_mp.observe import step_scalars, verification
from estimator_mp.planning.purpose import Purpose
from estimator_mp.search import choice
from estimator_mp.session import (
  build_progress,
  distribution,
  export,
  input_position,
  plan_report,
  prefetch_hook,
  restoring,
  server_worker,
  whole_checkpoints,
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
    A model_fn with the same arguments, and also `config`. Without `config` it
    cannot check the session's settings, nor find a saved placement.

  Raises:
    ValueError: If model_fn or config is of another type. When it is called: if
      a task of a cluster is to train without the others, the checkpoint in
      model_dir is of another model, or of other sizes, or the model cannot be
      placed or split as `config` says, trains without computing gradients, or
      is to be distributed by a strategy.
    ImportError: When it is called, if aggregation is "horovod" and Horovod
      cannot be imported.
  """
  return _shard(model_fn, config, is_one_of_several=False)


def shard_one_of_several(
  model_fn: ModelFn, config: sharding_config_lib.ShardingConfig
) -> ModelFn:
  """Shards a model_fn of which an Estimator trains more than one.

  Args:
    model_fn: As for `shard_model_fn`.
    config: As for `shard_model_fn`; its rules may be for another model_fn.
  """
  return _shard(model_fn, config, is_one_of_several=True)


def _shard(
  model_fn: ModelFn,
  config: sharding_config_lib.ShardingConfig,
  is_one_of_several: bool,
) -> ModelFn:
  """Returns a model_fn whose model spans the devices of a mesh."""
  if not callable(model_fn) or is_sharded(model_fn):
    state = "is sharded already" if callable(model_fn) else "cannot be called"
    raise ValueError(
      f"model_fn={model_fn!r} {state}; give the plain model_fn that you would "
      "give to an Estimator"
    )
  sharding_config_lib.check_config(config)
  if config.mesh == AUTO:
    return _on_auto_mesh(model_fn, config, is_one_of_several)
  whole_mesh = config.create_mesh()
  signature = inspect.signature(model_fn)
  parameters = _with_config(signature)

  def sharded(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
    bound = inspect.Signature(parameters).bind(*args, **kwargs).arguments
    run_config = bound.get("config")
    if "config" not in signature.parameters:
      bound.pop("config", None)
    # Both are unknown if a wrapper of this function does not pass `config` on.
    session_config: Any = getattr(run_config, "session_config", None)
    model_dir: Any = getattr(run_config, "model_dir", None)
    mode = bound.get("mode", TRAIN)
    mesh = whole_mesh
    is_export = export.is_for_export()
    if is_export or distribution.is_beside(run_config, mode):
      mesh = mesh.on_this_machine()
    distribution.check_no_strategy(mesh)
    if run_config is not None:
      distribution.check_run_config(run_config, mesh)
      if mode == TRAIN:
        distribution.check_cluster(run_config, mesh)
      mesh.check_session_config(session_config)
    # One task alone saves.
    saves = mode == TRAIN and getattr(run_config, "is_chief", True)
    if model_dir and saves and not is_export:
      whole_checkpoints.leave_out_broken(model_dir)
    if mode == TRAIN and config.prefetch_inputs:
      prefetch_hook.check(run_config, mesh)
    servers: parameter_servers.NoServers = parameter_servers.NoServers()
    if mode == TRAIN and not is_export:
      servers = _servers(config, mesh, run_config)
    # Evaluation and prediction use the placement that training saved.
    saved = None
    if mode != TRAIN:
      saved = placement_file.load_placement(model_dir, mesh)
    purpose = Purpose(mode, saved, (), is_export, is_one_of_several)
    sharder = driver.Driver(config, mesh, purpose, servers)
    if is_export and sharder.splits_variables:
      export.keep_devices()
    compiles_with_xla = session_config_lib.compiles_with_xla(session_config)
    seed = getattr(run_config, "tf_random_seed", None)
    graph = tf.compat.v1.get_default_graph()
    with servers.building(), _no_collections(), build_progress.shown(graph):
      call = signature.bind(**sharder.inputs(bound))
      with keras.seeded_layers(tf, seed), sharder.variables():
        spec, plan = sharder.shard(lambda: model_fn(*call.args, **call.kwargs))
        plan_report.log(plan, mode, mesh, config.mesh)
        if model_dir and saves:
          placement_file.save_placement(plan.placement, model_dir, mesh)
        spec = _with_hooks(spec, sharder, config)
        sharder.finish(compiles_with_xla)
    if run_config and model_dir and saves and not is_export:
      restoring.check_fits(spec, model_dir)
      if run_config.save_summary_steps:
        spec = step_scalars.with_scalars(spec, run_config, mesh)
    saves_position = session_config_lib.saves_input_position(run_config)
    if mode == TRAIN and saves_position and not is_export:
      spec = input_position.with_saved_position(spec, model_dir)
    if compiles_with_xla and plan.pipeline is not None:
      ordering.keep_cells_apart(graph, plan.pipeline.cells)
    if servers.exist:
      spec = server_worker.with_prompt_end(spec, graph.get_operations())
    graph_checks.check_devices_exist(graph, mesh, session_config)
    return spec

  return _like(model_fn, sharded, parameters)


def _on_auto_mesh(
  model_fn: ModelFn,
  config: sharding_config_lib.ShardingConfig,
  is_one_of_several: bool,
) -> ModelFn:
  """Returns a model_fn that is sharded over the mesh that is found for it."""
  signature = inspect.signature(model_fn)
  parameters = _with_config(signature)

  def sharded(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
    bound = inspect.Signature(parameters).bind(*args, **kwargs).arguments
    run_config = bound.get("config")
    known = {x: y for x, y in bound.items() if x in signature.parameters}
    chosen = choice.choose(model_fn, known, config, run_config)
    return _shard(model_fn, chosen, is_one_of_several)(*args, **kwargs)

  return _like(model_fn, sharded, parameters)


def _like(
  model_fn: ModelFn, sharded: ModelFn, parameters: Sequence[inspect.Parameter]
) -> ModelFn:
  """Returns a sharded model_fn that looks like the plain one."""
  functools.update_wrapper(sharded, model_fn)
  setattr(sharded, _IS_SHARDED, True)
  del vars(sharded)["__wrapped__"]  # Estimator looks at the arguments of this.
  vars(sharded)["__signature__"] = inspect.Signature(parameters)
  return sharded


def _with_hooks(
  spec: tf.estimator.EstimatorSpec,
  sharder: driver.Driver,
  config: sharding_config_lib.ShardingConfig,
) -> tf.estimator.EstimatorSpec:
  """Returns a spec with the hooks of a run."""
  queue = sharder.prefetching
  if queue is not None:
    hook = prefetch_hook.PrefetchingHook(
      queue.number, queue.store, queue.end, queue.waiting
    )
    # After those that initialize iterators or set them to a position.
    spec = spec._replace(training_hooks=(*spec.training_hooks, hook))
  if sharder.has_slices or config.static_batch_size is not None:
    spec = step_errors.with_explained_steps(spec)
  spec = export.with_deviceless_export(spec)
  if config.verify_placement:
    spec = verification.with_placement_verification(spec)
  return spec


def is_sharded(model_fn: Any) -> bool:
  """Whether `shard_model_fn` returned a model_fn.

  Args:
    model_fn: A model_fn.
  """
  return getattr(model_fn, _IS_SHARDED, False)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
  """Pauses Python's garbage collection while a graph is built.

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
) -> parameter_servers.NoServers:
  """Returns the parameter servers that hold variables in training."""
  if not server_worker.has_servers(run_config):
    return parameter_servers.NO_SERVERS
  server_worker.check(config, mesh, run_config)
  return parameter_servers.ParameterServers(
    server_worker.task_of(run_config), server_worker.device_function(run_config)
  )


def _with_config(signature: inspect.Signature) -> list[inspect.Parameter]:
  """Returns parameters with one named `config` after those with names."""
  parameters = [*signature.parameters.values()]
  if "config" in signature.parameters:
    return parameters
  kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
  named = [p for p in parameters if p.kind <= kind]
  new = inspect.Parameter("config", kind, default=None)
  return [*named, new, *parameters[len(named) :]]
