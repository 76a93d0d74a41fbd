"""Automatic placement: cutting a forward graph at the lowest cost.

forward_graph   the ops on features, and the weights that they use
costs           the time and memory of each op
orders          the orders in which ops may be cut, and the costs of cuts
partition       the best cut of a sequence of numbers
evenness        a warning if one stage has nearly all
table_stages    the stages of tables, which are nothing but memory
"""

import bisect
import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.placement import costs as costs_lib
from estimator_mp.placement import evenness, table_stages
from estimator_mp.placement import partition as partition_lib
from estimator_mp.placement.forward_graph import (
  ForwardGraph,
  Weights,
  read_forward,
)
from estimator_mp.placement.orders import Order, count_layers, orders
from estimator_mp.placement.unplaced import Stages, Unplaced

import numpy as np
import tensorflow as tf

# Cuts between fewer places than this are compared exactly; of more, those that
# send least.
_MAX_PLACES = 600
# The slowest stage may be this much slower if that saves memory or sending.
_SLACK = 0.02


def stages_of(
  unplaced: Unplaced,
  num_stages: int,
  memory_limit: int | None = None,
  measured_seconds: Mapping[str, float] | None = None,
) -> Stages:
  """Cuts the ops that lead to the targets, and all others with weights.

  Warns if nearly all of the model is on one stage.

  Args:
    unplaced: The ops.
    num_stages: How many stages.
    memory_limit: The bytes of a stage; None for no limit.
    measured_seconds: Measured times of ops by name; None for estimates.

  Returns:
    The stages of the ops that were cut, and of their variables.

  Raises:
    ValueError: As `cut_forward`.
  """
  ops = unplaced.ops
  leading = set(traversal.ancestors(unplaced.targets, ops))
  trainable = {v.op.name for v in tf.compat.v1.trainable_variables()}
  weights = [v for v in op_types.variables_of(ops) if v.name in trainable]
  others = traversal.descendants(
    [x for x in weights if x not in leading],
    [x for x in ops if x not in leading],
  )
  forward = read_forward(
    traversal.ancestors([*unplaced.targets, *others], ops), unplaced.groups
  )
  if num_stages == 1 and not count_layers(forward):
    return {}
  cut = cut_forward(forward, num_stages, memory_limit, measured_seconds)
  for line in evenness.uneven_lines(cut.seconds, cut.memory_bytes):
    tf.compat.v1.logging.warning("%s", line)
  return cut.stages


@dataclasses.dataclass(frozen=True)
class _CutOrder:
  """An order, and where it is cut.

  Attributes:
    order: The order.
    cuts: Where each stage begins, and where the last one ends.
  """

  order: Order
  cuts: Sequence[int]

  def stage_at(self, position: int) -> int:
    """Returns the stage that a position is in."""
    return bisect.bisect_right(self.cuts, position) - 1

  def seconds(self) -> list[float]:
    """Returns the time of each stage."""
    return [
      partition_lib.stage_seconds(self.order.costs, begin, end)
      for begin, end in itertools.pairwise(self.cuts)
    ]

  def memory_bytes(self) -> list[float]:
    """Returns the bytes that each stage occupies without tables."""
    return [
      sum(self.order.costs.memory_bytes[begin:end])
      for begin, end in itertools.pairwise(self.cuts)
    ]


@dataclasses.dataclass(frozen=True)
class Cut:
  """A forward graph in stages.

  Attributes:
    stages: The stages of its ops, and of the variables that they use.
    seconds: The planned time of each stage in a training step.
    memory_bytes: The planned bytes of each stage.
  """

  stages: Mapping[tf.Operation, int]
  seconds: Sequence[float]
  memory_bytes: Sequence[float]


def cut_forward(
  forward: ForwardGraph,
  num_stages: int,
  memory_limit: int | None = None,
  measured_seconds: Mapping[str, float] | None = None,
) -> Cut:
  """Cuts the ops that compute targets from features, with their variables.

  Args:
    forward: The ops, and the weights that they use.
    num_stages: How many stages.
    memory_limit: The bytes of a device; None for no limit.
    measured_seconds: Measured times of ops by name; None for estimates.

  Raises:
    ValueError: If the model has fewer layers than stages, or does not fit the
      memory limit (see `partition`), or none of its ops was measured.
  """
  op_costs = costs_lib.op_costs(forward.ops, measured_seconds)
  updates = [
    costs_lib.update_seconds(
      group.variables, group.gradient_bytes, measured_seconds
    )
    for group in forward.weights
  ]
  candidates = orders(forward, op_costs, updates)
  best = _best_cut(candidates, num_stages, memory_limit)
  cut = _with_weights(forward, best, memory_limit)
  if memory_limit is not None and max(cut.memory_bytes) > memory_limit:
    best = _best_cut(candidates, num_stages, memory_limit, by_memory=True)
    cut = _with_weights(forward, best, memory_limit)
    fullest = max(cut.memory_bytes)
    partition_lib.check_memory(fullest, num_stages, memory_limit)
  return cut


def _with_weights(
  forward: ForwardGraph, cut: _CutOrder, memory_limit: int | None
) -> Cut:
  """Returns a cut with the stages of weights."""
  nominal = {op: cut.stage_at(cut.order.positions[op]) for op in forward.ops}
  of_weights, memory = _stages_of_weights(forward, nominal, cut, memory_limit)
  stages = dict(nominal)
  for group, stage in zip(forward.weights, of_weights, strict=True):
    stages.update(dict.fromkeys(group.variables, stage))
    stages.update(dict.fromkeys(group.local_users, stage))
  return Cut(stages, cut.seconds(), memory)


def _best_cut(
  candidates: Sequence[Order],
  num_stages: int,
  memory_limit: int | None,
  by_memory: bool = False,
) -> _CutOrder:
  """Returns the cut that minimises the time of the slowest stage.

  Args:
    candidates: The orders, the simplest one first.
    num_stages: How many stages.
    memory_limit: The bytes of a device; None for no limit.
    by_memory: Whether to minimise the bytes of the fullest stage instead.

  Raises:
    ValueError: If none can be cut, for the reason that the first one cannot.
  """
  cuts = []
  errors = []
  for order in candidates:
    try:
      costs = order.memory_costs() if by_memory else order.costs
      cuts.append(_CutOrder(order, _cut(costs, num_stages, memory_limit)))
    except ValueError as error:
      errors.append(error)
  if not cuts:
    raise errors[0]
  measure = _CutOrder.memory_bytes if by_memory else _CutOrder.seconds
  return min(cuts, key=lambda cut: max(measure(cut)))


def _cut(
  costs: partition_lib.SequenceCosts,
  num_stages: int,
  memory_limit: int | None,
) -> list[int]:
  """Returns the cuts, of the places with the least traffic."""
  size = len(costs.seconds)
  inner = np.arange(1, size)
  if len(inner) > _MAX_PLACES:
    transfer = np.asarray(costs.transfer_seconds)[1:size]
    inner = np.sort(inner[np.argsort(transfer, kind="stable")[:_MAX_PLACES]])
  places = np.concatenate([[0], inner, [size]]).astype(int)
  starts = places[:-1]
  coarse = partition_lib.SequenceCosts(
    seconds=np.add.reduceat(costs.seconds, starts) if size else [],
    memory_bytes=np.add.reduceat(costs.memory_bytes, starts) if size else [],
    transfer_seconds=np.asarray(costs.transfer_seconds)[places],
    layers=np.logical_or.reduceat(costs.layers, starts) if size else [],
  )
  cuts = partition_lib.partition(coarse, num_stages, memory_limit, _SLACK)
  return [int(places[cut]) for cut in cuts]


def _stages_of_weights(
  forward: ForwardGraph,
  nominal: Mapping[tf.Operation, int],
  cut: _CutOrder,
  memory_limit: int | None,
) -> tuple[list[int], list[float]]:
  """Returns the stage of each group of variables, and the bytes of each stage.

  It is the stage with the least traffic; or that of their first user, if they
  would not fit a device otherwise, or a stage would have no layer. Tables are
  spread over the stages.
  """
  homes = [cut.stage_at(position) for position in cut.order.first_uses]
  memory = cut.memory_bytes()
  stages = []
  for group, home in zip(forward.weights, homes, strict=True):
    stage = _cheapest_stage(group, nominal)
    needed = group.training_bytes
    if group.is_table:
      stages.append(stage)
      continue
    if memory_limit is not None and memory[stage] + needed > memory_limit:
      stage = home
    if stage != home:
      memory[home] -= needed
      memory[stage] += needed
    stages.append(stage)
  tables = [i for i, group in enumerate(forward.weights) if group.is_table]
  spread = table_stages.spread(
    cut.seconds(),
    memory,
    [_table(forward.weights[i], stages[i], nominal) for i in tables],
    memory_limit,
    2 * costs_lib.transfer_seconds(0),
    _SLACK,
  )
  for index, stage in zip(tables, spread, strict=True):
    stages[index] = stage
  layers = forward.layers
  while empty := set(range(len(memory))) - {stages[index] for index in layers}:
    for index in layers:
      if homes[index] in empty:
        stages[index] = homes[index]
  for index in tables:
    memory[stages[index]] += forward.weights[index].training_bytes
  return stages, memory


def _table(
  group: Weights, home: int, nominal: Mapping[tf.Operation, int]
) -> table_stages.Table:
  """Returns a table with its bytes and its traffic to each stage."""
  sent: dict[int, float] = {}
  for op in group.local_users:
    num_bytes = sum(map(shapes.tensor_bytes, op.outputs))
    seconds = 2 * costs_lib.sending_seconds(num_bytes)
    sent[nominal[op]] = sent.get(nominal[op], 0.0) + seconds
  return table_stages.Table(group.training_bytes, home, sent)


def _cheapest_stage(group: Weights, nominal: Mapping[tf.Operation, int]) -> int:
  """Returns the stage where variables of several stages cost least traffic.

  A stage that needs their values gets the variables; a stage that gathers from
  them, the gathered rows.
  """
  remote = {nominal[op] for op in group.remote_users}
  candidates = sorted(remote | {nominal[op] for op in group.local_users})

  def traffic(stage: int) -> int:
    values = group.num_bytes * len(remote - {stage})
    gathered = sum(
      sum(map(shapes.tensor_bytes, op.outputs))
      for op in group.local_users
      if nominal[op] != stage
    )
    return values + gathered

  return min(candidates, key=traffic)
