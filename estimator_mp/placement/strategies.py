"""Strategies: the stages of ops without an explicit placement.

`ShardingConfig.placement` says which one: rules, a placement, or the name of a
row of `config.placement.STRATEGIES`. Ops that a strategy does not place follow
the ops that they read and feed; see `propagation`.
"""

import contextlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from estimator_mp.config import placement as placement_lib
from estimator_mp.config import sharding_config
from estimator_mp.graph import colocation
from estimator_mp.placement import known, rules

import tensorflow as tf


class Strategy(Protocol):
  """Decides the stages of one graph, perhaps part by part."""

  def stages_of(
    self,
    ops: Sequence[tf.Operation],
    targets: Sequence[tf.Operation],
    groups: colocation.ColocationGroups,
  ) -> Mapping[tf.Operation, int]:
    """Returns stages of ops.

    Args:
      ops: The ops that have no stage yet, in the order in which they were made.
      targets: The targets of gradients, or the results.
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
    mode: The purpose of the graph, a `tf.estimator.ModeKeys`.
  """
  placement = config.placement
  if isinstance(placement, placement_lib.Placement):
    return known.Given(placement)
  if not placement_lib.is_strategy(placement):
    return rules.Rules(placement, mode)
  if saved is not None:
    return known.Saved(saved, mode)
  module = importlib.import_module(placement_lib.STRATEGIES[placement].module)
  parts = config.create_mesh().axis_size("model")
  limit = config.memory_limit
  made: Strategy = module.strategy(
    num_stages, limit and limit * parts, config.measured_seconds
  )
  if limit is None or parts == 1:
    return made
  return _WithinLimits(made, limit, parts)


class _WithinLimits:
  """A strategy for stages that have several devices, each with a limit.

  How much of a stage is on which of them is up to how variables are split.
  """

  def __init__(self, strategy: Strategy, memory_limit: int, parts: int):
    self._strategy = strategy
    self._memory_limit = memory_limit
    self._parts = parts

  def stages_of(
    self,
    ops: Sequence[tf.Operation],
    targets: Sequence[tf.Operation],
    groups: colocation.ColocationGroups,
  ) -> Mapping[tf.Operation, int]:
    """Returns stages of ops."""
    with self._explained():
      return self._strategy.stages_of(ops, targets, groups)

  def check(self, ops: Sequence[tf.Operation]) -> None:
    """Raises if the whole model and the strategy do not suit each other."""
    with self._explained():
      self._strategy.check(ops)

  @contextlib.contextmanager
  def _explained(self) -> Iterator[None]:
    """Says of errors what limit they speak of."""
    try:
      yield
    except ValueError as error:
      raise ValueError(
        f"{error}. Here one device stands for the {self._parts} of a stage, "
        f"each of which has memory_limit={self._memory_limit}"
      ) from error
