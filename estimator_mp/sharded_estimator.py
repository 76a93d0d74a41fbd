"""shard_estimator: any Estimator, also without access to its model_fn."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from compat.private import estimators
from estimator_mp import mesh as mesh_lib
from estimator_mp import sharding
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.session import export
from estimator_mp.session.session_config import (
  for_sharded_run,
  sharded_run_of,
)

import tensorflow as tf

EstimatorT = TypeVar("EstimatorT")


def shard_estimator(
  estimator: EstimatorT,
  config: sharding_config_lib.ShardingConfig,
  save_input_position: bool = False,
) -> EstimatorT:
  """Shards the model of any Estimator.

  For Estimators that have no model_fn of yours: canned ones, and subclasses
  that make their model_fn themselves. The model_fns of further Estimators that
  a subclass makes while it trains, evaluates, predicts or exports are sharded
  in the same way. So are those of tf.contrib.learn's models, which make an
  Estimator for each run.

  The Estimator is changed, and returned, because a subclass may hold on to
  itself. Its params, model_dir and warm start stay. So does its RunConfig,
  except for the settings of sessions that `run_config` makes.

  Args:
    estimator: The Estimator.
    config: The mesh, and how the model is placed on it.
    save_input_position: As for `run_config`.

  Returns:
    The same Estimator.

  Raises:
    ValueError: If estimator or config is of another type, the Estimator is
      sharded already or uses a TPU, or its RunConfig uses devices in another
      way. When it trains: as for `shard_model_fn`.
  """
  if hasattr(estimator, "change_core"):  # Of tf.contrib.learn.
    estimator.change_core(
      lambda core: shard_estimator(core, config, save_input_position)
    )
    return estimator
  if not isinstance(estimator, tf.compat.v1.estimator.Estimator):
    raise ValueError(
      f"estimator={estimator!r} is not an Estimator; give one, such as "
      "tf.estimator.DNNClassifier(...), or shard a model_fn by "
      "estimator_mp.shard_model_fn"
    )
  model_fn = estimators.model_fn_of(estimator)
  name = type(estimator).__name__
  if sharding.is_sharded(model_fn):
    raise ValueError(
      f"the {name} is sharded already; shard it once, or make a new one"
    )
  if estimators.uses_tpu(estimator):
    raise ValueError(
      f"the {name} is to use a TPU, and a mesh has no TPU; make it with "
      "use_tpu=False"
    )
  sharded = sharding.shard_model_fn(model_fn, config)
  run_config = for_sharded_run(
    estimators.run_config_of(estimator), config, save_input_position
  )
  estimators.replace_parts(estimator, sharded, run_config)
  for method in export.METHODS:
    # Of tf.estimator's own, those of version 1 have one more.
    if getattr(estimator, method, None) is not None:
      _shard_inner(estimator, method, config)
  return estimator


def _shard_inner(
  estimator: Any, method: str, config: sharding_config_lib.ShardingConfig
) -> None:
  """Lets a method shard the Estimators that it makes."""
  plain = getattr(estimator, method)

  def replacement(other: Any, mode: str) -> Callable[..., Any]:
    model_fn = estimators.model_fn_of(other)
    for_mesh = sharded_run_of(estimators.run_config_of(other)) is not None
    # A model_fn that builds a part of its model with one shards that part, too.
    # One with another RunConfig may predict or evaluate without a mesh.
    if (
      sharding.is_sharded(model_fn)
      or mesh_lib.get_mesh() is not None
      or not (for_mesh or mode == sharding.TRAIN)
    ):
      return model_fn
    return sharding.shard_one_of_several(model_fn, config)

  @functools.wraps(plain)
  def sharding_inner(*args: Any, **kwargs: Any) -> Any:
    with estimators.intercepted_calls(replacement):
      result = plain(*args, **kwargs)
    if hasattr(result, "__next__"):  # predict's graph is made by its first one.
      return _each(result, replacement)
    return result

  setattr(estimator, method, sharding_inner)


def _each(iterator: Any, replacement: estimators.Replacement) -> Any:
  """Yields the values of an iterator, each made under interception."""
  while True:
    with estimators.intercepted_calls(replacement):
      try:
        value = next(iterator)
      except StopIteration:
        return
    yield value
