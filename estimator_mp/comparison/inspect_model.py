"""Inspecting: the partition that a model_fn would get, and its costs.

The training graph is built and placed as an Estimator's would be; no session
runs it. So the partition is the one of a real run on the same mesh, and no
device of the mesh has to exist.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from estimator_mp import sharding
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.graph import colocation, traversal
from estimator_mp.observe import inspection
from estimator_mp.placement.forward_graph import read_forward
from estimator_mp.session.session_config import run_config as make_run_config

import tensorflow as tf

Spec: TypeAlias = tf.TensorSpec | tf.SparseTensorSpec | tf.RaggedTensorSpec
# Of features or labels: one of them, or some in dicts and tuples.
InputSpec: TypeAlias = Any


def inspect_model_fn(
  model_fn: Callable[..., tf.estimator.EstimatorSpec],
  features: InputSpec,
  labels: InputSpec | None,
  config: sharding_config_lib.ShardingConfig,
  params: dict[str, Any] | None = None,
  model: str = "",
  run_config: tf.estimator.RunConfig | None = None,
) -> inspection.Inspection:
  """Returns the partition that a model_fn would get.

  Args:
    model_fn: The model_fn of an Estimator, as it is.
    features: The features that its input_fn returns: a `tf.TensorSpec`,
      `tf.SparseTensorSpec` or `tf.RaggedTensorSpec`, or several of them in
      dicts and tuples.
    labels: The labels that it returns, in the same form; None for none.
    config: The mesh, and how the model is placed on it.
    params: The Estimator's params; None for none.
    model: The name of the model.
    run_config: The Estimator's RunConfig; None for one of defaults.

  Returns:
    The partition and its costs.

  Raises:
    ValueError: If model_fn does not take labels or params that are given, or
      returns no EstimatorSpec; or if the model cannot be placed as `config`
      says; see `shard_model_fn`.
  """
  sharding_config_lib.check_config(config)
  # Inputs are fed, so there is no `tf.data` to prefetch from.
  config = dataclasses.replace(config, prefetch_inputs=False)
  losses: list[tf.Tensor] = []

  @functools.wraps(model_fn)
  def with_plain_loss(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
    spec = model_fn(*args, **kwargs)
    losses.append(spec.loss)
    return spec

  sharded = sharding.shard_model_fn(with_plain_loss, config)
  arguments = _arguments(model_fn, labels is not None, params)
  settings = make_run_config(config)
  if run_config is not None:
    settings = run_config.replace(session_config=settings.session_config)
  with tf.Graph().as_default() as graph:
    tf.compat.v1.train.create_global_step()
    with tf.device("/cpu:0"):  # As an Estimator does.
      arguments["features"] = placeholders(features)
      if labels is not None:
        arguments["labels"] = placeholders(labels)
    before = len(graph.get_operations())
    sharded(**arguments, config=settings)
    built = graph.get_operations()[before:]
    # The plain ops, not the copies of slices.
    ops = traversal.ancestors([losses[0].op], built)
    groups = colocation.ColocationGroups()
    groups.add(ops)
    return inspection.inspect_graph(
      graph, read_forward(ops, groups), config, model
    )


def _arguments(
  model_fn: Callable[..., Any], has_labels: bool, params: dict[str, Any] | None
) -> dict[str, Any]:
  """Returns the arguments of a model_fn, besides its inputs."""
  names = inspect.signature(model_fn).parameters
  if has_labels and "labels" not in names:
    raise ValueError(
      "model_fn takes no labels, but labels were given; leave them out"
    )
  if params is not None and "params" not in names:
    raise ValueError(
      "model_fn takes no params, but params were given; leave them out"
    )
  offered = {
    "labels": None,
    "mode": tf.estimator.ModeKeys.TRAIN,
    "params": params or {},
  }
  return {name: value for name, value in offered.items() if name in names}


def placeholders(spec: InputSpec) -> Any:
  """Returns placeholders of the default graph, nested as their specs are.

  Args:
    spec: The specs; None is nothing, and stays so.
  """
  return tf.nest.map_structure(_placeholder, spec)


def _placeholder(
  spec: Spec | None,
) -> tf.Tensor | tf.SparseTensor | tf.RaggedTensor | None:
  if spec is None:
    return None
  if isinstance(spec, tf.SparseTensorSpec):
    return tf.compat.v1.sparse_placeholder(spec.dtype, spec.shape)
  if isinstance(spec, tf.RaggedTensorSpec):
    rank = spec.ragged_rank
    return tf.compat.v1.ragged.placeholder(
      spec.dtype, rank, spec.shape[rank + 1 :]
    )
  return tf.compat.v1.placeholder(spec.dtype, spec.shape)
