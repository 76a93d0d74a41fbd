"""Automatic placement: cutting a forward graph where that is best.

The ops that compute something from the features, in the order in which they
were made, are the sequence that `partition` cuts. Constants and variables are
not in it: each follows the ops that use it.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from compat import private_graph
from estimator_mp import costs as costs_lib
from estimator_mp import partition as partition_lib
from estimator_mp import tensor_size
from estimator_mp import units as units_lib

import numpy as np
import tensorflow as tf

# Cuts between fewer places than this are compared exactly; of more, those that
# send least.
_MAX_PLACES = 600
# The slowest stage may be this much slower if that saves sending.
_SLACK = 0.05
# A weight needs itself, its gradient, and two slots of an optimizer like Adam.
COPIES_OF_WEIGHTS = 4
_ACTIVATIONS = frozenset(
  ["Elu", "Erf", "LeakyRelu", "Relu", "Relu6", "Selu", "Sigmoid", "Tanh"]
)


@dataclasses.dataclass(frozen=True)
class _Weights:
  """Variables that share a device, and the ops on features that use them.

  Attributes:
    variables: The variables.
    local_users: Users that run where the variables are: gathers, loops.
    remote_users: Users that get the variables' values.
  """

  variables: list[tf.Operation]
  local_users: list[tf.Operation]
  remote_users: list[tf.Operation]

  @property
  def num_bytes(self) -> int:
    """The bytes of the variables' values."""
    return sum(map(tensor_size.variable_bytes, self.variables))

  @property
  def is_matrix(self) -> bool:
    """Whether a variable is more than a vector: a layer, not a bias."""
    shapes = [tf.TensorShape(op.get_attr("shape")) for op in self.variables]
    return any((shape.rank or 0) > 1 for shape in shapes)


def cut_forward(
  ops: Sequence[tf.Operation],
  targets: Sequence[tf.Operation],
  units: units_lib.Units,
  num_stages: int,
  memory_limit: int | None = None,
  measured_seconds: Mapping[str, float] | None = None,
) -> dict[tf.Operation, int]:
  """Returns the stage of each op that computes targets from features.

  Args:
    ops: The forward ops of the model, in the order they were made.
    targets: What the model computes: its losses or predictions.
    units: The units of `ops`.
    num_stages: How many stages.
    memory_limit: The bytes of a device; None for no limit.
    measured_seconds: Measured times of ops by name; None for estimates.

  Returns:
    Stages of the ops that depend on features and lead to a target, and of
    the variables that they use.

  Raises:
    ValueError: If the model has fewer layers than stages, or does not fit the
      memory limit (see `partition`), or none of its ops was measured.
  """
  forward = ancestors(ops, targets)
  on_features = _on_features(forward)
  weights = _weights(forward, on_features, units)
  sequence = [op for op in forward if op in on_features]
  positions = _positions(sequence, units, weights)
  op_costs = costs_lib.op_costs(sequence, measured_seconds)
  costs = _sequence_costs(sequence, positions, weights, op_costs)
  cuts = _cut(costs, num_stages, memory_limit)
  stage_of_position = np.repeat(np.arange(num_stages), np.diff(cuts))
  nominal = {op: int(stage_of_position[positions[op]]) for op in sequence}
  stages = dict(nominal)
  for group in weights:
    stage = _cheapest_stage(group, nominal)
    stages.update(dict.fromkeys(group.variables, stage))
    stages.update(dict.fromkeys(group.local_users, stage))
  return stages


def count_layers(
  forward: Sequence[tf.Operation], units: units_lib.Units
) -> int:
  """Returns into how many stages ops can be cut, each with a layer.

  Args:
    forward: The ops that lead to a target, in the order they were made.
    units: Their units.
  """
  on_features = _on_features(forward)
  weights = _weights(forward, on_features, units)
  sequence = [op for op in forward if op in on_features]
  return len(_layer_positions(weights, _positions(sequence, units, weights)))


def forward_sequence(
  ops: Sequence[tf.Operation], targets: Sequence[tf.Operation]
) -> list[tf.Operation]:
  """Returns the ops that compute targets from features: what is cut.

  Args:
    ops: The ops of the model, in the order they were made; later ones, such as
      gradients, do not matter.
    targets: What the model computes.
  """
  forward = ancestors(ops, targets)
  on_features = _on_features(forward)
  return [op for op in forward if op in on_features]


def ancestors(
  ops: Sequence[tf.Operation], targets: Sequence[tf.Operation]
) -> list[tf.Operation]:
  """Returns those of `ops` that lead to a target, in their order."""
  candidates = set(ops)
  found: set[tf.Operation] = set()
  todo = [op for op in targets if op in candidates]
  while todo:
    op = todo.pop()
    if op not in found:
      found.add(op)
      todo.extend(t.op for t in op.inputs if t.op in candidates)
  return [op for op in ops if op in found]


def descendants(
  ops: Sequence[tf.Operation], sources: Sequence[tf.Operation]
) -> list[tf.Operation]:
  """Returns those of `ops` that are computed from a source, in their order."""
  candidates = set(ops)
  found: set[tf.Operation] = set()
  todo = [op for op in sources if op in candidates]
  while todo:
    op = todo.pop()
    if op not in found:
      found.add(op)
      todo.extend(
        c for t in op.outputs for c in t.consumers() if c in candidates
      )
  return [op for op in ops if op in found]


def _on_features(forward: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops that compute something from what the model is fed."""
  inside = set(forward)
  found: set[tf.Operation] = set()
  size = -1
  while len(found) > size:  # again for each level of v1 loops, which feed back
    size = len(found)
    for op in forward:
      if any(
        t.op in found or (t.op not in inside and t.dtype != tf.resource)
        for t in op.inputs
      ):
        found.add(op)
  return found


def _weights(
  forward: Sequence[tf.Operation],
  on_features: set[tf.Operation],
  units: units_lib.Units,
) -> list[_Weights]:
  """Returns the variables that ops on features use, by unit."""
  groups: dict[tf.Operation, _Weights] = {}
  for op in units_lib.variables_of(forward):
    group = groups.setdefault(units.of(op), _Weights([], [], []))
    group.variables.append(op)
  reads = _variables_read([op for op in forward if op not in on_features])
  for op in forward:
    if op not in on_features:
      continue
    unit = units.of(op)
    variables = {v for t in op.inputs for v in reads.get(t.op, ())}
    for other in {units.of(variable) for variable in variables}:
      group = groups[other]
      is_local = other is unit
      (group.local_users if is_local else group.remote_users).append(op)
  return [x for x in groups.values() if x.local_users or x.remote_users]


def _variables_read(
  ops: Sequence[tf.Operation],
) -> dict[tf.Operation, set[tf.Operation]]:
  """Returns the variables from whose values alone each op is computed."""
  reads = {op: {op} for op in units_lib.variables_of(ops)}
  size = -1
  while sum(map(len, reads.values())) > size:
    # Again, as a v1 loop makes the op that brings a weight into it later than
    # the op that reads it there.
    size = sum(map(len, reads.values()))
    for op in ops:
      found = {v for t in op.inputs for v in reads.get(t.op, ())}
      reads[op] = reads.get(op, set()) | found
  return reads


def _positions(
  sequence: Sequence[tf.Operation],
  units: units_lib.Units,
  weights: Sequence[_Weights],
) -> dict[tf.Operation, int]:
  """Returns each op's position; what must not be cut apart has one position.

  These are not cut apart, and neither is what lies between their parts:

  - a unit without a variable: a loop, a colocation group (gathers from one
    variable may lie anywhere);
  - an op that adds a bias, scales or applies an activation, and what it is
    applied to: TensorFlow may make one op of them.
  """
  of_variables = {units.of(op) for group in weights for op in group.variables}
  on_vectors = {
    op for group in weights if not group.is_matrix for op in group.remote_users
  }
  index_of = {op: index for index, op in enumerate(sequence)}
  first: dict[tf.Operation, int] = {}
  joined = np.zeros(len(sequence), dtype=bool)
  for index, op in enumerate(sequence):
    if op in on_vectors or op.type in _ACTIVATIONS:
      before = [index_of[t.op] for t in op.inputs if t.op in index_of]
      joined[max(before, default=index) + 1 : index + 1] = True
    unit = units.of(op)
    may_scatter = unit in of_variables and not private_graph.outermost_loop(op)
    if not may_scatter:
      joined[first.setdefault(unit, index) + 1 : index + 1] = True
  position = np.cumsum(~joined) - 1
  return {op: int(position[i]) for i, op in enumerate(sequence)}


def _sequence_costs(
  sequence: Sequence[tf.Operation],
  positions: Mapping[tf.Operation, int],
  weights: Sequence[_Weights],
  op_costs: Mapping[tf.Operation, costs_lib.OpCost],
) -> partition_lib.SequenceCosts:
  """Returns what each position costs, and each place between two of them."""
  size = positions[sequence[-1]] + 1 if sequence else 0
  seconds = np.zeros(size)
  memory = np.zeros(size)
  crossing = np.zeros(size + 2)
  layers = np.zeros(size, dtype=bool)
  for op in sequence:
    seconds[positions[op]] += op_costs[op].seconds
    memory[positions[op]] += op_costs[op].output_bytes
    for tensor in op.outputs:
      last = max(
        (positions[c] for c in tensor.consumers() if c in positions),
        default=positions[op],
      )
      # The gradient comes back over the same boundary.
      cost = 2 * costs_lib.transfer_seconds(tensor_size.tensor_bytes(tensor))
      crossing[positions[op] + 1] += cost
      crossing[last + 1] -= cost
  for group in weights:
    memory[_position_of(group, positions)] += (
      group.num_bytes * COPIES_OF_WEIGHTS
    )
  layers[_layer_positions(weights, positions)] = True
  transfer = np.cumsum(crossing)[: size + 1].clip(min=0)
  transfer[[0, size]] = 0
  return partition_lib.SequenceCosts(seconds, memory, transfer, layers)


def _position_of(group: _Weights, positions: Mapping[tf.Operation, int]) -> int:
  """Returns the position of the first op that uses weights."""
  return min(positions[op] for op in group.local_users + group.remote_users)


def _layer_positions(
  weights: Sequence[_Weights], positions: Mapping[tf.Operation, int]
) -> list[int]:
  """Returns the positions of layers: of matrices, or of all if none is."""
  matrices = [group for group in weights if group.is_matrix]
  found = {_position_of(group, positions) for group in matrices or weights}
  return sorted(found)


def _cut(
  costs: partition_lib.SequenceCosts,
  num_stages: int,
  memory_limit: int | None,
) -> list[int]:
  """Returns where to cut, compared at the places where least is sent."""
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


def _cheapest_stage(
  group: _Weights, nominal: Mapping[tf.Operation, int]
) -> int:
  """Returns where variables that several stages use cost least traffic.

  To a stage that needs their values, the variables are sent; to a stage that
  gathers from them, what is gathered.
  """
  remote = {nominal[op] for op in group.remote_users}
  candidates = sorted(remote | {nominal[op] for op in group.local_users})

  def traffic(stage: int) -> int:
    values = group.num_bytes * len(remote - {stage})
    gathered = sum(
      sum(map(tensor_size.tensor_bytes, op.outputs))
      for op in group.local_users
      if nominal[op] != stage
    )
    return values + gathered

  return min(candidates, key=traffic)
