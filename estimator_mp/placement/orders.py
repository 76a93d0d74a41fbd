"""Orders: the orders in which a forward graph may be cut, and costs of cuts.

Towers that share their weights, as of a siamese network, are made one after the
other. A cut in the order of their layers leaves the weights of a layer with all
ops that use them.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.placement import costs as costs_lib
from estimator_mp.placement import partition as partition_lib
from estimator_mp.placement.forward_graph import ForwardGraph, Weights

import numpy as np
import tensorflow as tf

# Groups may wait for each other; numbers that still grow then have no order.
_MAX_PASSES = 10


@dataclasses.dataclass(frozen=True)
class Order:
  """The ops of a forward graph in an order.

  Attributes:
    positions: The position of each op; ops that stay together share one.
    costs: The costs of the positions, without the memory of tables, and of the
      places between them.
    first_uses: The position of the first op that uses each of the weights.
  """

  positions: Mapping[tf.Operation, int]
  costs: partition_lib.SequenceCosts
  first_uses: Sequence[int]

  def memory_costs(self) -> partition_lib.SequenceCosts:
    """Returns the costs with bytes in the place of time, and free sending."""
    return dataclasses.replace(
      self.costs,
      seconds=self.costs.memory_bytes,
      transfer_seconds=np.zeros(len(self.costs.transfer_seconds)),
    )


def orders(
  forward: ForwardGraph,
  op_costs: Mapping[tf.Operation, costs_lib.OpCost],
  update_seconds: Sequence[float],
) -> list[Order]:
  """Returns the orders that may be cut, that in which ops were made first.

  Args:
    forward: The forward graph.
    op_costs: The cost of each of its ops.
    update_seconds: The time of updating each of its weights.
  """
  shared = _shared_by_towers(forward)
  candidates = []
  for ops in (forward.ops, *(_by_layers(forward) if shared else ())):
    positions = _positions(ops, forward)
    first_uses = [_position_of(group, positions) for group in forward.weights]
    costs = _costs_of_positions(
      positions, forward, shared, op_costs, update_seconds
    )
    candidates.append(Order(positions, costs, first_uses))
  return candidates


def count_layers(forward: ForwardGraph) -> int:
  """Returns the most stages that ops can be cut into, each with a layer.

  Args:
    forward: The forward graph.
  """
  return len(_layer_positions(forward, _positions(forward.ops, forward)))


def _shared_by_towers(forward: ForwardGraph) -> list[Weights]:
  """Returns the matrices that several parts of a model use side by side.

  The parts neither read each other nor only look up rows of the same table.
  """
  index_of = {op: index for index, op in enumerate(forward.ops)}
  shared = []
  for group in forward.weights:
    if group.is_number or not group.is_matrix:
      continue
    users = sorted(
      {op for op in group.users if not op.type.startswith(op_types.GATHERS)},
      key=index_of.__getitem__,
    )
    if not all(
      _leads_to(first, second, index_of)
      for first, second in itertools.pairwise(users)
    ):
      shared.append(group)
  return shared


def _leads_to(
  first: tf.Operation,
  second: tf.Operation,
  index_of: Mapping[tf.Operation, int],
) -> bool:
  """Whether an op of a sequence is computed from an earlier one."""
  begin = index_of[first]

  def before(op: tf.Operation) -> list[tf.Operation]:
    return [x for x in traversal.inputs(op) if index_of.get(x, -1) >= begin]

  return first in traversal.walk([second], before)


def _by_layers(forward: ForwardGraph) -> list[list[tf.Operation]]:
  """Returns ops in the order of their layers, counted from either end.

  Towers that begin with the same layers lie side by side if ops are sorted by
  the layers that lead to them; those that end with the same ones, if by the
  layers that follow.
  """
  uncut = _uncut_groups(forward)
  users = {
    uncut[op]
    for group in forward.weights
    if group.is_matrix
    for op in group.users
  }
  edges = [
    (uncut[t.op], uncut[op])
    for op in forward.ops
    for t in op.inputs
    if t.op in uncut and uncut[t.op] is not uncut[op]
  ]
  before = _most_layers(
    [(source, op, op in users) for source, op in edges],
    {op: int(op in users) for op in uncut.values()},
  )
  after = _most_layers(
    [(op, source, op in users) for source, op in reversed(edges)],
    dict.fromkeys(uncut.values(), 0),
  )
  return [  # Sorting is stable.
    sorted(forward.ops, key=lambda op: before[uncut[op]]),
    sorted(forward.ops, key=lambda op: -after[uncut[op]]),
  ]


def _most_layers(
  edges: Sequence[tuple[tf.Operation, tf.Operation, bool]],
  start: Mapping[tf.Operation, int],
) -> dict[tf.Operation, int]:
  """Returns the most layers on a way along edges, for the end of each way.

  Args:
    edges: Source, destination, and whether this one adds a layer.
    start: The layers that each way begins with.
  """
  most = dict(start)
  for _ in range(_MAX_PASSES):
    before = dict(most)
    for source, op, is_layer in edges:
      most[op] = max(most[op], most[source] + is_layer)
    if most == before:
      return most
  return dict.fromkeys(start, 0)


def _uncut_groups(
  forward: ForwardGraph,
) -> dict[tf.Operation, tf.Operation]:
  """Returns for each op the representative of the ops that stay with it.

  It is the op itself unless that is in a loop or in a group without a variable,
  such as a colocation group: gathers from one variable may lie anywhere.
  """
  groups = forward.groups
  of_variables = {
    groups.of(op) for group in forward.weights for op in group.variables
  }
  return {
    op: op
    if groups.of(op) in of_variables and not graph_reads.outermost_loop(op)
    else groups.of(op)
    for op in forward.ops
  }


def _positions(
  order: Sequence[tf.Operation], forward: ForwardGraph
) -> dict[tf.Operation, int]:
  """Returns each op's position; ops that stay together share one.

  These stay together, with all ops between them:

  - a group without a variable: a loop, a colocation group (gathers from one
    variable may lie anywhere);
  - an op that adds a bias, scales or applies an activation, and its input, if
    no other layer is between them: TensorFlow may fuse them.
  """
  uncut = _uncut_groups(forward)
  on_vectors = {
    op
    for group in forward.weights
    if not group.is_matrix
    for op in group.remote_users
  }
  of_layers = {
    op for group in forward.weights if group.is_matrix for op in group.users
  }
  num_layers = np.cumsum([op in of_layers for op in order])
  index_of = {op: index for index, op in enumerate(order)}
  first: dict[tf.Operation, int] = {}
  joined = np.zeros(len(order), dtype=bool)
  for index, op in enumerate(order):
    if op in on_vectors or op.type in op_types.ACTIVATIONS:
      before = [index_of[t.op] for t in op.inputs if t.op in index_of]
      last = max(before, default=index)
      if num_layers[last] == num_layers[index]:
        joined[last + 1 : index + 1] = True
    joined[first.setdefault(uncut[op], index) + 1 : index + 1] = True
  position = np.cumsum(~joined) - 1
  return {op: int(position[i]) for i, op in enumerate(order)}


def _costs_of_positions(
  positions: Mapping[tf.Operation, int],
  forward: ForwardGraph,
  shared: Sequence[Weights],
  op_costs: Mapping[tf.Operation, costs_lib.OpCost],
  update_seconds: Sequence[float],
) -> partition_lib.SequenceCosts:
  """Returns the costs of positions, and of the places between them."""
  size = max(positions.values(), default=-1) + 1
  seconds = np.zeros(size)
  memory = np.zeros(size)
  crossing = np.zeros(size + 2)
  layers = np.zeros(size, dtype=bool)

  def cross(num_bytes: int, begin: int, end: int) -> None:
    # The gradient comes back over the same boundary.
    cost = 2 * costs_lib.transfer_seconds(num_bytes)
    crossing[begin + 1] += cost
    crossing[end + 1] -= cost

  for op in positions:
    seconds[positions[op]] += op_costs[op].step_seconds
    memory[positions[op]] += op_costs[op].output_bytes
    for tensor in op.outputs:
      last = max(
        (positions[c] for c in tensor.consumers() if c in positions),
        default=positions[op],
      )
      cross(shapes.tensor_bytes(tensor), positions[op], last)
  for group, spent in zip(forward.weights, update_seconds, strict=True):
    position = _position_of(group, positions)
    seconds[position] += spent
    if not group.is_table:
      memory[position] += group.training_bytes
  for group in shared:
    used = [positions[op] for op in group.users]
    cross(group.num_bytes, min(used), max(used))
  layers[_layer_positions(forward, positions)] = True
  transfer = np.cumsum(crossing)[: size + 1].clip(min=0)
  transfer[[0, size]] = 0
  return partition_lib.SequenceCosts(seconds, memory, transfer, layers)


def _position_of(group: Weights, positions: Mapping[tf.Operation, int]) -> int:
  """Returns the position of the first op that uses weights."""
  return min(positions[op] for op in group.users)


def _layer_positions(
  forward: ForwardGraph, positions: Mapping[tf.Operation, int]
) -> list[int]:
  """Returns the positions of layers."""
  layers = [forward.weights[index] for index in forward.layers]
  return sorted({_position_of(group, positions) for group in layers})
