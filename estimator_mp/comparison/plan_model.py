"""Planning: the partition that a model_fn would get, and its costs.

The training graph is built and placed as an Estimator's would be; no session
runs it. So the partition is the one of a real run on the same mesh, and no
device of the mesh has to exist. Decisions are those of the run, whose graph may
not know the size of a batch; costs are those of a batch that is read.
"""

import collections
import dataclasses
import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp import sharding
from estimator_mp.capture import nested_inputs
from estimator_mp.comparison import training_graph
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.config.mesh_axes import AUTO
from estimator_mp.config.sharding_options import BatchAxis
from estimator_mp.graph import batch_shapes
from estimator_mp.machines import machine as machine_lib
from estimator_mp.observe import model_plan
from estimator_mp.placement import costs
from estimator_mp.planning import sharding_plan
from estimator_mp.planning.split_plan import Sent, SplitPlan
from estimator_mp.search import choice, ranking
from estimator_mp.session.session_config import run_config as make_run_config

import numpy as np
import tensorflow as tf


def plan(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  input_fn: Callable[..., Any],
  config: sharding_config_lib.ShardingConfig,
  machine: str | machine_lib.Machine | None = None,
  params: Mapping[str, Any] | None = None,
  *,
  run_config: tf.estimator.RunConfig | None = None,
  model: str = "",
) -> model_plan.ModelPlan:
  """Returns the partition that a model_fn would get, and its costs.

  Nothing is trained, and the devices of the mesh need not exist.

  Args:
    model_fn: The model_fn of an Estimator, not sharded.
    input_fn: Its input_fn for training. One batch is read, whose sizes count;
      if it has none, a dimension of unknown size counts as 32.
    config: The mesh, and how the model is placed on it; mesh="auto" plans the
      best one that is found.
    machine: The machine that the mesh is of: the path of a TOML file, or the
      name of a machine of this package. None for that of `config`, or else one
      like this.
    params: The Estimator's params; None for none.
    run_config: The Estimator's RunConfig; None for one of defaults.
    model: The name of the model; by default that of model_fn.

  Raises:
    ValueError: If there is no such machine; if model_fn does not take labels or
      params that are given, or returns no EstimatorSpec; or if the model cannot
      be placed as `config` says; see `shard_model_fn`.
  """
  sharding_config_lib.check_config(config)
  if machine is None:
    machine = choice.machine_of(config)
  elif isinstance(machine, str):
    machine = machine_lib.load(machine)
  # Inputs are fed, so there is no `tf.data` to prefetch from.
  config = dataclasses.replace(config, prefetch_inputs=False)
  settings = make_run_config(config)
  found = None
  with (
    tempfile.TemporaryDirectory() as folder,
    tf.Graph().as_default() as graph,
  ):
    if run_config is not None:
      settings = run_config.replace(
        model_dir=folder, session_config=settings.session_config
      )
    batches = _read_batch(input_fn, settings, params)
    if config.mesh == AUTO:
      found = _search(model_fn, batches, config, machine, params, settings)
      every = config.create_mesh().devices
      config = choice.on_mesh(config, found.best.chosen, every)
    sharded = sharding.shard_model_fn(model_fn, config)
    tf.compat.v1.train.create_global_step()
    with tf.device("/cpu:0"):  # As an Estimator does.
      features, labels, fed = training_graph.placeholders(batches.inputs)
    _check_taken(model_fn, labels=labels, params=params)
    arguments = {
      "labels": labels,
      "mode": tf.estimator.ModeKeys.TRAIN,
      "params": params or {},
      "config": settings,
    }
    sharded(features, **training_graph.accepted(sharded, arguments))
    splits = _of_batch(graph, fed, batches.values)
    return model_plan.plan_of_graph(
      graph,
      config,
      machine,
      model=model or getattr(model_fn, "__name__", "model_fn"),
      splits=splits,
      num_examples=_num_examples(features, labels, config.batch_axis),
      ranking=found,
    )


def _search(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  batches: training_graph.Batches,
  config: sharding_config_lib.ShardingConfig,
  machine: machine_lib.Machine,
  params: Mapping[str, Any] | None,
  settings: tf.estimator.RunConfig,
) -> ranking.Ranking:
  """Returns the ranking of meshes for a batch."""
  features, labels = tf.nest.map_structure(
    lambda x: tf.type_spec_from_value(x) if tf.is_tensor(x) else x,
    batches.inputs,
  )
  others = {
    "mode": tf.estimator.ModeKeys.TRAIN,
    "params": params or {},
    "config": settings,
  }
  return choice.search(
    lambda x: model_fn(**training_graph.accepted(model_fn, {**others, **x})),
    {"features": features, "labels": labels},
    config,
    machine,
    choice.batch_size_of(np.shape(x) for y in batches.values for x in y),
  )


def _read_batch(
  input_fn: Callable[..., Any],
  run_config: tf.estimator.RunConfig,
  params: Mapping[str, Any] | None,
) -> training_graph.Batches:
  """Returns the first batch of an input_fn; its values only if it has one."""
  try:
    return training_graph.read_batches(input_fn, 1, run_config, params)
  except tf.errors.OpError:  # Its files, say, are not on this machine.
    return training_graph.read_batches(input_fn, 0, run_config, params)


def _check_taken(model_fn: Callable[..., Any], **given: Any) -> None:
  """Raises if a model_fn does not take an argument that is not None."""
  for name, value in given.items():
    if value is not None and name not in inspect.signature(model_fn).parameters:
      raise ValueError(
        f"model_fn takes no {name}, but {name} were given; leave them out"
      )


def _of_batch(
  graph: tf.Graph,
  fed: Sequence[tf.Tensor],
  batches: Sequence[Sequence[np.ndarray]],
) -> SplitPlan | None:
  """Sets the shapes of a batch in a sharded graph; returns its split, too.

  Args:
    graph: The graph.
    fed: Its placeholders.
    batches: Their values: of one batch, or of none.
  """
  plan_of_graph = sharding_plan.get_plan(graph)
  splits = None if plan_of_graph is None else plan_of_graph.splits
  sizes = {
    x: np.shape(value)
    for values in batches
    for x, value in zip(fed, values, strict=True)
    if not x.shape.is_fully_defined()
  }
  if not sizes:
    return splits
  ops = graph.get_operations()
  sent = () if splits is None else splits.sent
  planned = costs.nominal_bytes(ops) if sent else {}
  batch_shapes.fill(graph, sizes)
  if splits is None or not sent:
    return splits
  actual = costs.nominal_bytes(ops)
  resized = []
  for x in sent:
    ratio = actual[x.tensor] / planned[x.tensor]
    both = (round(ratio * y) for y in (x.forward_bytes, x.backward_bytes))
    resized.append(Sent(x.kind, x.tensor, x.op, x.type, *both))
  return dataclasses.replace(splits, sent=tuple(resized))


def _num_examples(
  features: Any, labels: Any, rules: Sequence[BatchAxis]
) -> int | None:
  """Returns how many examples most inputs have; None if nothing says it."""
  sizes: collections.Counter[int] = collections.Counter()
  leaves = nested_inputs.leaves({"features": features, "labels": labels})
  for name, x in leaves:
    if tf.is_tensor(x) and x.shape.rank:
      axis = nested_inputs.axis_of(name, x, rules)
      size = None if axis is None else x.shape.as_list()[axis]
      if size is not None:
        sizes[size] += 1
  return sizes.most_common(1)[0][0] if sizes else None
