"""The `config` of a factory, and the model_fn that it makes."""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import estimator_mp

import tensorflow as tf

Config: TypeAlias = estimator_mp.ShardingConfig | estimator_mp.Mesh | str | None
ModelFn: TypeAlias = Callable[..., tf.estimator.EstimatorSpec]


def sharding_config(config: Config) -> estimator_mp.ShardingConfig | None:
  """Returns what a factory was told about devices, in one form.

  Args:
    config: A `ShardingConfig`; or a mesh, or its text such as "stage:2", for a
      `ShardingConfig` that says nothing else; or None for no devices.

  Raises:
    TypeError: If it is something else.
    ValueError: If the text is no mesh.
  """
  if config is None or isinstance(config, estimator_mp.ShardingConfig):
    return config
  if isinstance(config, str):
    config = estimator_mp.Mesh.create(config)
  if not isinstance(config, estimator_mp.Mesh):
    raise TypeError(
      f"config is {config!r}; pass an estimator_mp.ShardingConfig, a mesh, its "
      "text such as 'stage:2', or None for a model on one device"
    )
  return estimator_mp.ShardingConfig(str(config), config.devices)


def model_fn(plain: ModelFn, config: Config) -> ModelFn:
  """Shards the model_fn of a factory.

  A `shard_model_fn` that is given the result shards the plain model over its
  own mesh instead.

  Args:
    plain: A model_fn that knows no devices, with the arguments features,
      labels and mode, and config if it wants the RunConfig.
    config: As for `sharding_config`.

  Returns:
    A model_fn with the arguments features, labels, mode and config.

  Raises:
    TypeError: If config is of the wrong type.
    ValueError: If it is no mesh of this machine.
  """
  sharding = sharding_config(config)
  sharded = estimator_mp.shard_model_fn(plain, sharding) if sharding else plain
  wants_config = "config" in inspect.signature(plain).parameters

  def placed_model_fn(
    features: Any,
    labels: Any,
    mode: str,
    config: tf.estimator.RunConfig | None = None,
  ) -> tf.estimator.EstimatorSpec:
    if sharding is not None and estimator_mp.get_mesh() is None:
      return sharded(features, labels, mode, config)
    if wants_config:
      return plain(features, labels, mode, config=config)
    return plain(features, labels, mode)

  return placed_model_fn
