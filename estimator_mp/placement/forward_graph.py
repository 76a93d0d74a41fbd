"""The forward graph: the ops that compute a model's targets, and its weights.

The ops that compute something from the features, in the order in which they
were made, can be cut into stages. Constants and variables are not among them:
each follows the ops that use it.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from estimator_mp.graph import colocation, op_types, shapes, traversal

import tensorflow as tf

# A weight needs itself, and two slots of an optimizer like Adam.
_COPIES = 3


@dataclasses.dataclass(frozen=True)
class Weights:
  """Variables that share a device, and the ops on features that use them.

  Attributes:
    variables: The variables.
    local_users: Users that run where the variables are: gathers, loops.
    remote_users: Users that get the variables' values. Users of a scalar that
      is computed from these, such as a penalty, are not among them: the scalar
      is computed where the variables are.
  """

  variables: list[tf.Operation]
  local_users: list[tf.Operation]
  remote_users: list[tf.Operation]

  @property
  def num_bytes(self) -> int:
    """The bytes of the variables' values."""
    return sum(map(shapes.variable_bytes, self.variables))

  @property
  def is_table(self) -> bool:
    """Whether rows are looked up in them, and nothing else is done."""
    return not self.remote_users and all(
      op.type.startswith(op_types.GATHERS) for op in self.local_users
    )

  @property
  def gradient_bytes(self) -> int:
    """The bytes of their gradients: of a table, those of a nominal batch."""
    if not self.is_table:
      return self.num_bytes
    rows = sum(sum(map(shapes.tensor_bytes, op.outputs)) for op in self.users)
    return min(rows, self.num_bytes)

  @property
  def training_bytes(self) -> int:
    """The bytes that training them takes: gradients and slots, too."""
    return self.num_bytes * _COPIES + self.gradient_bytes

  @property
  def users(self) -> list[tf.Operation]:
    """All ops on features that use them."""
    return self.local_users + self.remote_users

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
class ForwardGraph:
  """The ops that compute targets from features.

  Attributes:
    ops: The ops on features, in the order in which they were made.
    weights: The variables that these use, by colocation group.
    groups: The colocation groups of all of them.
  """

  ops: Sequence[tf.Operation]
  weights: Sequence[Weights]
  groups: colocation.ColocationGroups

  @property
  def layers(self) -> list[int]:
    """The indices of weights that are layers: matrices, or all if none is."""
    matrices = [i for i, group in enumerate(self.weights) if group.is_matrix]
    return matrices or list(range(len(self.weights)))


def read_forward(
  ops: Sequence[tf.Operation], groups: colocation.ColocationGroups
) -> ForwardGraph:
  """Returns the forward graph of the ops that lead to a target.

  Args:
    ops: The ops, in the order in which they were made.
    groups: Their colocation groups.
  """
  on_features = _on_features(ops)
  return ForwardGraph(
    [op for op in ops if op in on_features],
    _weights(ops, on_features, groups),
    groups,
  )


def _on_features(forward: Sequence[tf.Operation]) -> set[tf.Operation]:
  """Returns the ops that compute something from features."""
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
) -> list[Weights]:
  """Returns the variables that ops on features use, by their group."""
  by_group: dict[tf.Operation, Weights] = {}
  for op in op_types.variables_of(forward):
    group = by_group.setdefault(groups.of(op), Weights([], [], []))
    group.variables.append(op)
  others = [op for op in forward if op not in on_features]
  used = [op for op in forward if op in on_features]
  _add_users(by_group, used, _variables_read(others, _is_no_scalar), groups)
  lone = {op: group for op, group in by_group.items() if not group.users}
  if lone:  # Variables that only a penalty reads.
    _add_users(lone, used, _variables_read(others, lambda op, v: True), groups)
  return [x for x in by_group.values() if x.users]


def _add_users(
  by_group: Mapping[tf.Operation, Weights],
  ops: Sequence[tf.Operation],
  reads: Mapping[tf.Operation, set[tf.Operation]],
  groups: colocation.ColocationGroups,
) -> None:
  """Adds users of variables to by_group, by the variables of their inputs."""
  for op in ops:
    group_of_op = groups.of(op)
    variables = {v for t in op.inputs for v in reads.get(t.op, ())}
    for other in {groups.of(variable) for variable in variables}:
      if other in by_group:
        is_local = other is group_of_op
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
    read = {v for t in op.inputs for v in reads.get(t.op, ())}
    passed = {variable for variable in read if passes_on(op, variable)}
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
