"""The choice of mesh="auto": made once, and kept with the checkpoints."""

import collections
import contextlib
import dataclasses
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from compat.private import keras
from estimator_mp import notices
from estimator_mp.config import files, options
from estimator_mp.config.mesh_axes import AUTO, parse_axes
from estimator_mp.config.sharding_config import ShardingConfig
from estimator_mp.graph import shapes
from estimator_mp.machines import machine as machine_lib
from estimator_mp.machines.machine import Machine
from estimator_mp.search import auto_mesh, ranking

import numpy as np
import tensorflow as tf

_FILE = "auto_mesh.json"
_FORMAT = 1


def choose(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  arguments: Mapping[str, Any],
  config: ShardingConfig,
  run_config: Any,
) -> ShardingConfig:
  """Returns the configuration that a program trains with, or has trained with.

  Args:
    model_fn: The plain model_fn.
    arguments: Those that it is called with, in the default graph.
    config: One with mesh="auto".
    run_config: The Estimator's RunConfig; None if it is not known.

  Raises:
    ValueError: If no mesh fits the memory of a device, or the file of an
      earlier choice is damaged.
  """
  every = config.create_mesh().devices
  model_dir = getattr(run_config, "model_dir", None)
  path = model_dir and os.path.join(model_dir, _FILE)
  if path and tf.io.gfile.exists(path):
    return _kept(path, config, every)
  if arguments.get("mode") != tf.estimator.ModeKeys.TRAIN:
    return on_mesh(config, {"mesh": "stage:1"}, every)
  inputs = {x: arguments[x] for x in ("features", "labels") if x in arguments}
  specs = tf.nest.map_structure(
    lambda x: tf.type_spec_from_value(x) if tf.is_tensor(x) else x, inputs
  )
  flat = [x for x in tf.nest.flatten(specs) if isinstance(x, tf.TensorSpec)]
  found = search(
    lambda x: model_fn(**{**arguments, **x}),
    specs,
    config,
    machine_of(config),
    config.static_batch_size
    or batch_size_of(x.shape for x in flat if x.shape.rank),
  )
  chosen = found.best.chosen
  notices.show(f"mesh={AUTO!r} trains as {found.best.line()}")
  if path and getattr(run_config, "is_chief", True):
    tf.io.gfile.makedirs(model_dir)
    files.write_json(path, {"format": _FORMAT, **chosen})
  return on_mesh(config, chosen, every)


def batch_size_of(inputs: Iterable[Sequence[int | None]]) -> int:
  """Returns the examples of a batch: the first dimension that most inputs have.

  Args:
    inputs: The shapes of inputs; one of open size says nothing.
  """
  sizes = collections.Counter(x[0] for x in inputs if len(x) and x[0])
  return max(sizes, key=lambda x: sizes[x], default=shapes.NOMINAL_BATCH)


def search(
  build: auto_mesh.Build,
  specs: Mapping[str, Any],
  config: ShardingConfig,
  machine: Machine,
  batch_size: int,
) -> ranking.Ranking:
  """Returns the ranking of meshes for a model.

  Args:
    build: Calls model_fn with features, and labels if it has some.
    specs: The specs of these by name, nested as they are.
    config: One with mesh="auto".
    machine: The machine.
    batch_size: The examples of a batch.

  Raises:
    ValueError: If no mesh fits the memory of a device.
  """

  def arguments(is_open: bool) -> Mapping[str, Any]:
    made: Mapping[str, Any] = tf.nest.map_structure(
      lambda x: _placeholder(x, batch_size, is_open), specs
    )
    return made

  plain = dataclasses.replace(config, mesh="stage:1", devices=())
  with _draws_undone():
    model = auto_mesh.Model(build, arguments, plain, machine, batch_size)
    return model.rank(config.create_mesh().size)


@contextlib.contextmanager
def _draws_undone() -> Iterator[None]:
  """Lets a program draw the same seeds as if model_fn had not been called."""
  layers = getattr(keras.seeds_of_layers(tf), "generator", None)
  states = random.getstate(), np.random.get_state()
  of_layers = layers and layers.getstate()
  try:
    yield
  finally:
    random.setstate(states[0])
    np.random.set_state(states[1])
    if layers:
      layers.setstate(of_layers)


def machine_of(config: ShardingConfig) -> Machine:
  """Returns the machine of a configuration, or one as this.

  Args:
    config: The configuration.
  """
  if config.machine is not None:
    return machine_lib.load(config.machine)
  for gpu in tf.config.list_physical_devices("GPU"):
    details = tf.config.experimental.get_device_details(gpu)
    words = details.get("device_name", "").lower().replace("-", " ").split()
    known = [x for x in machine_lib.names() if x in words]
    return machine_lib.load(known[0] if known else "v100")
  return machine_lib.load("cpu")


def _placeholder(spec: Any, batch_size: int, is_open: bool) -> Any:
  """Returns a placeholder of a spec, whose batch is open or of known size."""
  if not isinstance(spec, tf.TypeSpec):
    return spec
  shape = spec.shape.as_list() if spec.shape.rank else []
  if shape and shape[0] in (None, batch_size):
    shape[0] = None if is_open else batch_size
  known = shape if spec.shape.rank is not None else None
  if isinstance(spec, tf.SparseTensorSpec):
    return tf.compat.v1.sparse_placeholder(spec.dtype, known)
  if isinstance(spec, tf.RaggedTensorSpec):
    rank = spec.ragged_rank
    return tf.compat.v1.ragged.placeholder(spec.dtype, rank, shape[rank + 1 :])
  return tf.compat.v1.placeholder(spec.dtype, known)


def _kept(
  path: str, config: ShardingConfig, every: tuple[str, ...]
) -> ShardingConfig:
  """Returns the configuration of an earlier choice."""
  fix = "delete it to choose again"
  try:
    values = files.read_json(path, _FORMAT, fix)
    values.pop("format", None)
    options.check_names(ShardingConfig, values)
    return on_mesh(config, values, every)
  except files.FormatError as error:
    raise ValueError(f"{path}: {error}") from error
  except (ValueError, tf.errors.OpError) as error:
    raise ValueError(
      f"{path}, the choice of mesh={AUTO!r}: {error}; {fix}"
    ) from error


def on_mesh(
  config: ShardingConfig, chosen: Mapping[str, Any], every: tuple[str, ...]
) -> ShardingConfig:
  """Returns a configuration with what was chosen, on the first devices.

  What was chosen keeps the limit of memory; its cut is that of the search.

  Args:
    config: One with mesh="auto".
    chosen: The options that were chosen.
    every: All devices.
  """
  mesh = str(chosen.get("mesh"))
  size = math.prod(parse_axes(mesh).values())
  if size > len(every):
    raise ValueError(f"it has {mesh}, but there are {len(every)} device(s)")
  fields = {**chosen, "devices": every[:size], "memory_limit": None}
  return dataclasses.replace(config, **fields)
