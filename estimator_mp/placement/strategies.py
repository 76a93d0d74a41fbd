"""Strategies: the stages of ops without an explicit placement.

`ShardingConfig.placement` says which one: rules, a placement, or the name of a
row of `config.placement.STRATEGIES`. Ops that a strategy does not place follow
the ops that they read and feed; see `propagation`.
"""

import importlib
from collections.abc import Callable

from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.placement import costs, known, rules
from estimator_mp.placement.unplaced import Stages, Unplaced


def stages_of(
  unplaced: Unplaced,
  config: sharding_config.ShardingConfig,
  num_stages: int,
  saved: placement_lib.Placement | None,
  mode: str,
  unmatched: Callable[[ValueError], None],
) -> Stages:
  """Returns the stages of ops, by the strategy of a configuration.

  Args:
    unplaced: The ops.
    config: The configuration.
    num_stages: How many stages the mesh has.
    saved: The placement that training has saved, if this graph is for something
      else: it counts unless the user gives one, or rules.
    mode: The purpose of the graph, a `tf.estimator.ModeKeys`.
    unmatched: As for `rules.stages_of`.

  Returns:
    The stages of some of the ops; at least of those that lead to the targets,
    or of their variables.

  Raises:
    ValueError: If they cannot be placed so.
  """
  placement = config.placement
  if isinstance(placement, placement_lib.Placement):
    return known.stages_of_given(unplaced, placement)
  if not placement_lib.is_strategy(placement):
    return rules.stages_of(unplaced, placement, unmatched)
  if saved is not None:
    return known.stages_of_saved(unplaced, saved, mode)
  module = importlib.import_module(placement_lib.STRATEGIES[placement].module)
  # The split of variables decides how the devices of a stage share its memory.
  parts = config.create_mesh().axis_size("model")
  limit = config.memory_limit
  seconds = config.measured_seconds
  if seconds is not None:
    seconds = costs.seconds_with_gradients(unplaced.model, seconds)
  try:
    stages: Stages = module.stages_of(
      unplaced, num_stages, limit and limit * parts, seconds
    )
  except ValueError as error:
    if limit is None or parts == 1:
      raise
    raise ValueError(
      f"{error}. Here one device stands for the {parts} of a stage, each of "
      f"which has memory_limit={limit}"
    ) from error
  return stages
