"""Automatic placement: cutting a forward graph where that is best.

The ops that compute something from the features, in the order in which they
were made, are the sequence that `partition` cuts. Constants and variables are
not in it: each follows the ops that use it.

Towers that share their weights, as of a siamese network, are made one after the
other. A cut in the order of their layers leaves the weights of a layer with all
ops that use them; it is taken if its slowest stage is faster.
"""

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import colocation, op_types, shapes, traversal
from estimator_mp.placement import costs as costs_lib
from estimator_mp.placement import partition as partition_lib

import numpy as np
import tensorflow as tf

# Cuts between fewer places than this are compared exactly; of more, those that
# send least.
_MAX_PLACES = 600
# The slowest stage may be this much slower if that saves sending.
_SLACK = 0.05
# A weight needs itself, its gradient, and two slots of an optimizer like Adam.
COPIES_OF_WEIGHTS = 4
# Groups may wait for each other; what still grows then has no order.
_MAX_PASSES = 10


@dataclasses.dataclass(frozen=True)
class _Weights:
  """Variables that share a device, and the ops on features that use them.

  Attributes:
    variables: The variables.
    local_users: Users that run where the variables are: gathers, loops.
    remote_users: Users that get the variables' values. Not among them is who
      gets a scalar made of these, such as a penalty: the scalar is made where
      the variables are.
  """

  variables: list[tf.Operation]
  local_users: list[tf.Operation]
  remote_users: list[tf.Operation]

  @property
  def num_bytes(self) -> int:
    """The bytes of the variables' values."""
    return sum(map(shapes.variable_bytes, self.variables))

  @property
  def is_matrix(self) -> bool:
    """Whether a variable is more than a vector: a layer, not a bias."""
    return any((shape.rank or 0) > 1 for shape in self._shapes)

  @property
  def is_number(self) -> bool:
    """Whether the variables are single numbers, which cost nothing to send."""
    return all(shape.num_elements() == 1 for shape in self._shapes)

  @property
  def _shapes(self) -> list[tf.TensorShape]:
    return [tf.TensorShape(op.get_attr("shape")) for op in self.variables]


@dataclasses.dataclass(frozen=True)
class _Cut:
  """A sequence, and where it is cut.

  Attributes:
    positions: The position of each op.
    costs: What the positions cost.
    cuts: Where each stage begins, and where the last one ends.
  """

  positions: Mapping[tf.Operation, int]
  costs: partition_lib.SequenceCosts
  cuts: Sequence[int]

  def stage_at(self, position: int) -> int:
    """Returns the stage that a position is in."""
    return bisect.bisect_right(self.cuts, position) - 1

  def slowest_seconds(self) -> float:
    """Returns the time of the slowest stage."""
    return max(
      partition_lib.stage_seconds(self.costs, begin, end)
      for begin, end in itertools.pairwise(self.cuts)
    )

  def memory_bytes(self) -> list[float]:
    """Returns the bytes that each stage occupies."""
    return [
      sum(self.costs.memory_bytes[begin:end])
      for begin, end in itertools.pairwise(self.cuts)
    ]


def cut_forward(
  ops: Sequence[tf.Operation],
  targets: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
  num_stages: int,
  memory_limit: int | None = None,
  measured_seconds: Mapping[str, float] | None = None,
) -> dict[tf.Operation, int]:
  """Returns the stage of each op that computes targets from features.

  Args:
    ops: The forward ops of the model, in the order they were made.
    targets: What the model computes: its losses or predictions.
    groups: The colocation groups of `ops`.
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
  forward = traversal.ancestors(targets, ops)
  on_features = _on_features(forward)
  weights = _weights(forward, on_features, groups)
  sequence = [op for op in forward if op in on_features]
  op_costs = costs_lib.op_costs(sequence, measured_seconds)
  shared = _shared_by_towers(weights, sequence)
  orders = [sequence]
  if shared:
    orders += _by_layers(sequence, groups, weights)
  cut = _best_cut(
    [_in_order(order, groups, weights, shared, op_costs) for order in orders],
    num_stages,
    memory_limit,
  )
  stages = {op: cut.stage_at(cut.positions[op]) for op in sequence}
  nominal = dict(stages)
  for group, stage in zip(
    weights,
    _stages_of_weights(weights, nominal, cut, memory_limit),
    strict=True,
  ):
    stages.update(dict.fromkeys(group.variables, stage))
    stages.update(dict.fromkeys(group.local_users, stage))
  return stages


def count_layers(
  forward: Sequence[tf.Operation], groups: colocation.ColocationGroups
) -> int:
  """Returns into how many stages ops can be cut, each with a layer.

  Args:
    forward: The ops that lead to a target, in the order they were made.
    groups: Their colocation groups.
  """
  on_features = _on_features(forward)
  weights = _weights(forward, on_features, groups)
  sequence = [op for op in forward if op in on_features]
  return len(_layer_positions(weights, _positions(sequence, groups, weights)))


def forward_sequence(
  ops: Sequence[tf.Operation], targets: Sequence[tf.Operation]
) -> list[tf.Operation]:
  """Returns the ops that compute targets from features: what is cut.

  Args:
    ops: The ops of the model, in the order they were made; later ones, such as
      gradients, do not matter.
    targets: What the model computes.
  """
  forward = traversal.ancestors(targets, ops)
  on_features = _on_features(forward)
  return [op for op in forward if op in on_features]


def _on_features(forward: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops that compute something from what the model is fed."""
  inside = set(forward)
  first = [
    op
    for op in forward
    if any(t.op not in inside and t.dtype != tf.resource for t in op.inputs)
  ]
  return set(traversal.descendants(first, forward))


def _weights(
  forward: Sequence[tf.Operation],
  on_features: set[tf.Operation],
  groups: colocation.ColocationGroups,
) -> list[_Weights]:
  """Returns the variables that ops on features use, by their group."""
  by_group: dict[tf.Operation, _Weights] = {}
  for op in op_types.variables_of(forward):
    group = by_group.setdefault(groups.of(op), _Weights([], [], []))
    group.variables.append(op)
  others = [op for op in forward if op not in on_features]
  used = [op for op in forward if op in on_features]
  _add_users(by_group, used, _variables_read(others, _is_no_scalar), groups)
  lone = {
    op: group
    for op, group in by_group.items()
    if not (group.local_users or group.remote_users)
  }
  if lone:  # What only a penalty reads.
    _add_users(lone, used, _variables_read(others, lambda op, v: True), groups)
  return [x for x in by_group.values() if x.local_users or x.remote_users]


def _add_users(
  by_group: Mapping[tf.Operation, _Weights],
  ops: Sequence[tf.Operation],
  reads: Mapping[tf.Operation, set[tf.Operation]],
  groups: colocation.ColocationGroups,
) -> None:
  """Adds the ops that use variables, by what each op reads, to by_group."""
  for op in ops:
    own = groups.of(op)
    variables = {v for t in op.inputs for v in reads.get(t.op, ())}
    for other in {groups.of(variable) for variable in variables}:
      if other in by_group:
        is_local = other is own
        group = by_group[other]
        (group.local_users if is_local else group.remote_users).append(op)


def _variables_read(
  ops: Sequence[tf.Operation],
  passes_on: Callable[[tf.Operation, tf.Operation], bool],
) -> dict[tf.Operation, set[tf.Operation]]:
  """Returns the variables whose values each op gives to others.

  Args:
    ops: Ops that are computed from variables alone.
    passes_on: Whether an op that gets the value of a variable gives it on.
  """
  reads = {op: {op} for op in op_types.variables_of(ops)}

  def visit(op: tf.Operation) -> bool:
    found = {v for t in op.inputs for v in reads.get(t.op, ())}
    passed = {variable for variable in found if passes_on(op, variable)}
    before = reads.get(op, set())
    reads[op] = before | passed
    return len(reads[op]) > len(before)

  # A v1 loop makes the op that brings a weight into it later than the op that
  # reads it there.
  traversal.repeat_until_stable(visit, ops)
  return reads


def _is_no_scalar(op: tf.Operation, variable: tf.Operation) -> bool:
  """Whether an op makes more of a variable than one number of many."""
  is_scalar = all(t.shape.num_elements() == 1 for t in op.outputs)
  shape = tf.TensorShape(variable.get_attr("shape"))
  return not is_scalar or shape.num_elements() == 1


def _shared_by_towers(
  weights: Sequence[_Weights], sequence: Sequence[tf.Operation]
) -> list[_Weights]:
  """Returns the matrices that several parts of a model use side by side.

  The parts neither read each other nor only look up rows of the same table.
  """
  index_of = {op: index for index, op in enumerate(sequence)}
  found = []
  for group in weights:
    if group.is_number or not group.is_matrix:
      continue
    users = sorted(
      {
        op
        for op in group.local_users + group.remote_users
        if not op.type.startswith(op_types.GATHERS)
      },
      key=index_of.__getitem__,
    )
    if not all(
      _leads_to(first, second, index_of)
      for first, second in itertools.pairwise(users)
    ):
      found.append(group)
  return found


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


def _by_layers(
  sequence: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
  weights: Sequence[_Weights],
) -> list[list[tf.Operation]]:
  """Returns ops in the order of their layers, counted from either end.

  Towers that begin with the same layers lie side by side if what counts is how
  many layers lead to an op; those that end with the same ones, if it is how
  many follow.
  """
  uncut = _uncut_groups(sequence, groups, weights)
  users = {
    uncut[op]
    for group in weights
    if group.is_matrix
    for op in group.local_users + group.remote_users
  }
  edges = [
    (uncut[t.op], uncut[op])
    for op in sequence
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
  return [  # Sorting keeps the order of what is equal.
    sorted(sequence, key=lambda op: before[uncut[op]]),
    sorted(sequence, key=lambda op: -after[uncut[op]]),
  ]


def _most_layers(
  edges: Sequence[tuple[tf.Operation, tf.Operation, bool]],
  start: Mapping[tf.Operation, int],
) -> dict[tf.Operation, int]:
  """Returns the most layers on a way along edges, for the end of each way.

  Args:
    edges: From where, to where, and whether that adds a layer.
    start: How many layers each way begins with.
  """
  found = dict(start)
  for _ in range(_MAX_PASSES):
    known = dict(found)
    for source, op, is_layer in edges:
      found[op] = max(found[op], found[source] + is_layer)
    if found == known:
      return found
  return dict.fromkeys(start, 0)


def _uncut_groups(
  sequence: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
  weights: Sequence[_Weights],
) -> dict[tf.Operation, tf.Operation]:
  """Returns the op that stands for what must not be cut apart with each op.

  That is the op itself unless it is in a loop or in a group without a variable,
  such as a colocation group: gathers from one variable may lie anywhere.
  """
  of_variables = {groups.of(op) for group in weights for op in group.variables}
  return {
    op: op
    if groups.of(op) in of_variables and not graph_reads.outermost_loop(op)
    else groups.of(op)
    for op in sequence
  }


def _in_order(
  sequence: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
  weights: Sequence[_Weights],
  shared: Sequence[_Weights],
  op_costs: Mapping[tf.Operation, costs_lib.OpCost],
) -> _Cut:
  """Returns a sequence with its costs, not cut yet."""
  positions = _positions(sequence, groups, weights)
  costs = _sequence_costs(sequence, positions, weights, shared, op_costs)
  return _Cut(positions, costs, ())


def _best_cut(
  sequences: Sequence[_Cut], num_stages: int, memory_limit: int | None
) -> _Cut:
  """Returns the cut whose slowest stage is the fastest.

  Args:
    sequences: The same ops in several orders, the simplest one first.
    num_stages: How many stages.
    memory_limit: The bytes of a device; None for no limit.

  Raises:
    ValueError: If none can be cut, for the reason that the first one cannot.
  """
  found = []
  errors = []
  for sequence in sequences:
    try:
      cuts = _cut(sequence.costs, num_stages, memory_limit)
    except ValueError as error:
      errors.append(error)
    else:
      found.append(dataclasses.replace(sequence, cuts=cuts))
  if not found:
    raise errors[0]
  return min(found, key=_Cut.slowest_seconds)


def _positions(
  sequence: Sequence[tf.Operation],
  groups: colocation.ColocationGroups,
  weights: Sequence[_Weights],
) -> dict[tf.Operation, int]:
  """Returns each op's position; what must not be cut apart has one position.

  These are not cut apart, and neither is what lies between their parts:

  - a group without a variable: a loop, a colocation group (gathers from one
    variable may lie anywhere);
  - an op that adds a bias, scales or applies an activation, and what it is
    applied to: TensorFlow may make one op of them.
  """
  uncut = _uncut_groups(sequence, groups, weights)
  on_vectors = {
    op for group in weights if not group.is_matrix for op in group.remote_users
  }
  index_of = {op: index for index, op in enumerate(sequence)}
  first: dict[tf.Operation, int] = {}
  joined = np.zeros(len(sequence), dtype=bool)
  for index, op in enumerate(sequence):
    if op in on_vectors or op.type in op_types.ACTIVATIONS:
      before = [index_of[t.op] for t in op.inputs if t.op in index_of]
      joined[max(before, default=index) + 1 : index + 1] = True
    joined[first.setdefault(uncut[op], index) + 1 : index + 1] = True
  position = np.cumsum(~joined) - 1
  return {op: int(position[i]) for i, op in enumerate(sequence)}


def _sequence_costs(
  sequence: Sequence[tf.Operation],
  positions: Mapping[tf.Operation, int],
  weights: Sequence[_Weights],
  shared: Sequence[_Weights],
  op_costs: Mapping[tf.Operation, costs_lib.OpCost],
) -> partition_lib.SequenceCosts:
  """Returns what each position costs, and each place between two of them."""
  size = positions[sequence[-1]] + 1 if sequence else 0
  seconds = np.zeros(size)
  memory = np.zeros(size)
  crossing = np.zeros(size + 2)
  layers = np.zeros(size, dtype=bool)

  def cross(num_bytes: int, begin: int, end: int) -> None:
    # The gradient comes back over the same boundary.
    cost = 2 * costs_lib.transfer_seconds(num_bytes)
    crossing[begin + 1] += cost
    crossing[end + 1] -= cost

  for op in sequence:
    seconds[positions[op]] += op_costs[op].seconds
    memory[positions[op]] += op_costs[op].output_bytes
    for tensor in op.outputs:
      last = max(
        (positions[c] for c in tensor.consumers() if c in positions),
        default=positions[op],
      )
      cross(shapes.tensor_bytes(tensor), positions[op], last)
  for group in weights:
    memory[_position_of(group, positions)] += (
      group.num_bytes * COPIES_OF_WEIGHTS
    )
  for group in shared:
    used = [positions[op] for op in group.local_users + group.remote_users]
    cross(group.num_bytes, min(used), max(used))
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


def _stages_of_weights(
  weights: Sequence[_Weights],
  nominal: Mapping[tf.Operation, int],
  cut: _Cut,
  memory_limit: int | None,
) -> list[int]:
  """Returns the stage of each group of variables.

  That is where they cost least traffic, or where they were counted when the
  model was cut, if a device would not hold them otherwise, or a stage would
  have no layer.
  """
  homes = [
    cut.stage_at(_position_of(group, cut.positions)) for group in weights
  ]
  memory = cut.memory_bytes()
  stages = []
  for group, home in zip(weights, homes, strict=True):
    stage = _cheapest_stage(group, nominal)
    needed = group.num_bytes * COPIES_OF_WEIGHTS
    if memory_limit is not None and memory[stage] + needed > memory_limit:
      stage = home
    if stage != home:
      memory[home] -= needed
      memory[stage] += needed
    stages.append(stage)
  layers = [index for index, group in enumerate(weights) if group.is_matrix]
  layers = layers or list(range(len(weights)))
  while empty := set(range(len(memory))) - {stages[index] for index in layers}:
    for index in layers:
      if homes[index] in empty:
        stages[index] = homes[index]
  return stages


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
      sum(map(shapes.tensor_bytes, op.outputs))
      for op in group.local_users
      if nominal[op] != stage
    )
    return values + gathered

  return min(candidates, key=traffic)
