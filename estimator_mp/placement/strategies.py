"""Strategies: which stages ops get that nobody has placed.

`ShardingConfig.placement` says which one: rules, a placement, or the name of a
row of `config.placement.STRATEGIES`. What a strategy does not place follows
what it reads and feeds; see `propagation`.
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import colocation
from estimator_mp.placement import known, rules

import tensorflow as tf


class Strategy(Protocol):
  """What decides the stages of one graph, perhaps part by part."""

  def stages_of(
    self,
    ops: Sequence[tf.Operation],
    targets: Sequence[tf.Operation],
    groups: colocation.ColocationGroups,
  ) -> Mapping[tf.Operation, int]:
    """Returns stages of ops.

    Args:
      ops: The ops that have no stage yet, in the order in which they were made.
      targets: What gradients, or results, are wanted of.
      groups: The colocation groups of `ops`.

    Returns:
      The stages of some of `ops`; at least of what leads to the targets, or of
      the variables in it.

    Raises:
      ValueError: If they cannot be placed so.
    """

  def check(self, ops: Sequence[tf.Operation]) -> None:
    """Raises if the whole model and the strategy do not suit each other.

    Args:
      ops: All forward ops of the model, its variables among them.

    Raises:
      ValueError: If they do not.
    """


def make_strategy(
  config: sharding_config.ShardingConfig,
  num_stages: int,
  saved: placement_lib.Placement | None,
  mode: str,
) -> Strategy:
  """Returns the strategy of a configuration, for one graph.

  Args:
    config: The configuration.
    num_stages: How many stages the mesh has.
    saved: The placement that training has saved, if this graph is for something
      else: it counts unless the user gives one, or rules.
    mode: What the graph is for.
  """
  placement = config.placement
  if isinstance(placement, placement_lib.Placement):
    return known.Given(placement)
  if not placement_lib.is_strategy(placement):
    return rules.Rules(placement)
  if saved is not None:
    return known.Saved(saved, mode)
  module = importlib.import_module(placement_lib.STRATEGIES[placement].module)
  made: Strategy = module.strategy(
    num_stages, config.memory_limit, config.measured_seconds
  )
  return made
