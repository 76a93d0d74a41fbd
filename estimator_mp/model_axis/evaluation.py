"""Evaluation: the cost of a choice of splits, to compare it with others."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence

from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.model_axis import costs, inference
from estimator_mp.model_axis.decisions import Shard, Table
from estimator_mp.model_axis.inference import Inferred
from estimator_mp.plan.split_plan import EXCHANGE, Sent
from estimator_mp.propagate.splits import Unsplittable

import tensorflow as tf

# A weight that is trained needs a gradient and two slots, as Adam has.
_COPIES = 4
# The first device may hold, and compute, this much more than its even share.
_MEMORY_SLACK = 0.1
_WORK_SLACK = 0.05
# Beyond that, no more than this much of all weights, or work, may be whole.
_MOST_WHOLE = 0.1

Choice = Mapping[str, Shard | None]


@dataclasses.dataclass(frozen=True)
class Problem:
  """A graph whose variables are to be split.

  Attributes:
    ops: The ops, in the order of the graph.
    table: The rules.
    num_parts: The number of devices.
    variables: The shapes of the variables to decide about, by the names of
      their ops. Of those that are vectors, inference decides.
    fixed: How other variables are split, by name; None for whole ones.
    memory_limit: The bytes of a device for its variables, with their gradients
      and slots; None for no limit.
    known: How tensors are split that other ops have made, by their names.
    initial_writes: Writes of initial values, which are no part of a step.
    targets: The ops that a step computes; None if it runs all.
    trained: The names of the variables that have gradients.
    num_bytes: The bytes of tensors by their names, for a nominal batch. What
      is not among them is taken from the graph.
  """

  ops: Sequence[tf.Operation]
  table: Table
  num_parts: int
  variables: Mapping[str, Sequence[int]]
  fixed: Choice = dataclasses.field(default_factory=dict)
  memory_limit: int | None = None
  known: Mapping[str, Shard] = dataclasses.field(default_factory=dict)
  initial_writes: Collection[tf.Operation] = ()
  targets: Collection[tf.Operation] | None = None
  trained: Collection[str] = ()
  num_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, order=True)
class Cost:
  """The cost of a choice; earlier fields count more.

  Evenness has a price. Beyond a little that is free, it is worth a tenth of the
  bytes that are sent, or more, to split another hundredth of all weights, or of
  all work; what costs more than that stays whole. The price grows with what is
  whole, and has no limit where that is a tenth: else it would be cheapest to
  split nothing. With an even share as a condition instead, the little that is
  left over in a small model would be split at any price, as a table of
  positions whose columns all that follows takes on.

  Attributes:
    over_limit: The bytes of the first device above the memory limit.
    too_uneven: The share that is whole beyond the limit, in hundredths.
    priced_bytes: The bytes sent in a training step, times the price of the
      weights and the work that stay whole.
    peak_bytes: The bytes that the fullest device holds.
    num_sent: How many tensors are sent.
  """

  over_limit: int
  too_uneven: int
  priced_bytes: float
  peak_bytes: int
  num_sent: int


class Evaluation:
  """Tells what choices cost.

  Attributes:
    problem: The problem.
    refused: The variables that cannot be split, by an axis, or as what they
      meet (None): an op without a rule works on them. It grows as choices are
      looked at.
    weights: The variables that a tensor is made of, by its name, for those
      that nothing else is in but constants.
    users: The positions of the ops that join a variable with features, by its
      name.
    traffic: Tells what a training step sends.
    work: The multiplications of a forward pass with each variable, by name.
    visits: How many ops were decided about.
  """

  def __init__(self, problem: Problem):
    """Reads the graph.

    Args:
      problem: The graph, and what is known of it.
    """
    self.problem = problem
    self.refused: set[tuple[str, int | None]] = set()
    self.visits = 0
    self.inference = inference.Inference(problem.ops, problem.table)
    self.weights = _weights(self.inference, problem.variables)
    self.users = self._find_users()
    step = (
      problem.ops
      if problem.targets is None
      else traversal.ancestors(problem.targets, problem.ops)
    )
    initial_writes = frozenset(problem.initial_writes)
    step = [op for op in step if op not in initial_writes]
    self._names_of_step = {op.name for op in step}
    self.traffic = costs.Traffic(
      step,
      problem.num_parts,
      problem.table,
      costs.tensors_with_gradients(
        problem.ops, problem.trained, problem.targets
      ),
      problem.num_bytes,
    )
    self._bytes = self._bytes_of_variables()
    self.work = {name: self._work_of(name) for name in problem.variables}
    self._worth: set[str] = set()
    # With whether that is all that a choice costs.
    self._found: dict[
      tuple[tuple[str, Shard | None], ...], tuple[Cost, bool]
    ] = {}

  def count(self, names: Collection[str]) -> None:
    """Hears which variables should be split for devices to hold as much.

    Args:
      names: Their names.
    """
    self._worth = set(names)
    self._found.clear()

  def infer(self, splits: Choice) -> Inferred:
    """Returns what follows from a choice.

    Args:
      splits: The choice; variables that it leaves out are whole.

    Raises:
      Unsplittable: If an op without a rule works on a variable of the user's
        rules.
    """
    problem = self.problem
    fixed = {k: v for k, v in problem.fixed.items() if v is not None}
    while True:
      chosen = {
        name: split
        for name, split in splits.items()
        if split is not None and (name, split.axis) not in self.refused
      }
      adoptable = [
        name
        for name, shape in problem.variables.items()
        if len(shape) == 1 and (name, None) not in self.refused
      ]
      try:
        inferred = self.inference.infer(
          fixed | chosen, problem.known, adoptable, problem.initial_writes
        )
        self.visits += len(inferred.decisions)
        return inferred
      except Unsplittable as error:
        if error.variable not in problem.variables:
          raise
        split = chosen.get(error.variable)
        axis = None if split is None else split.axis
        self.refused.add((error.variable, axis))

  def cost(self, splits: Choice, limit: Cost | None = None) -> Cost:
    """Returns what a choice costs.

    Args:
      splits: The choice.
      limit: If it costs more than that, some of its cost will do which is more,
        too. None to return all of it.
    """
    key = tuple(splits.items())
    found, is_all = self._found.get(key, (None, False))
    if found is None or not (is_all or (limit is not None and limit < found)):
      found = self._cost(splits, limit)
      self._found[key] = (found, limit is None or found <= limit)
    return found

  def gathered(self, inferred: Inferred) -> set[str]:
    """Returns the variables that a step gathers although they are split.

    Args:
      inferred: The consequences of a choice.
    """
    return {
      variable
      for gather in inferred.gathers
      if gather.reader in self._names_of_step
      for variable in self.weights.get(gather.tensor, ())
    }

  def _cost(self, splits: Choice, limit: Cost | None) -> Cost:
    inferred = self.infer(splits)
    gathered = self.gathered(inferred)
    held = self._held(inferred, gathered)
    memory = self.problem.memory_limit
    whole = (name for name in self._worth if splits.get(name) is None)
    uneven = self.uneven({*whole, *gathered})
    left = max(1.0 - uneven / _MOST_WHOLE, 0.01)
    over_limit = 0 if memory is None else max(0, max(held) - memory)
    too_uneven = max(0, math.ceil(100.0 * (uneven - _MOST_WHOLE)))
    most_bytes = math.inf
    if limit is not None and (over_limit, too_uneven) >= (
      limit.over_limit,
      limit.too_uneven,
    ):
      most_bytes = limit.priced_bytes * left + 1  # However that is rounded.
    sent = self.traffic.sent(inferred, most_bytes)
    return Cost(
      over_limit,
      too_uneven,
      priced_bytes=sum(map(self._bytes_with_update, sent)) / left,
      peak_bytes=max(held),
      num_sent=len(sent),
    )

  def _bytes_with_update(self, sent: Sent) -> int:
    """Returns what a tensor costs, if it is of rows with their update."""
    is_rows = sent.kind == EXCHANGE and sent.type == "ResourceGather"
    if is_rows and sent.tensor in self.traffic.differentiated:
      return 2 * sent.num_bytes
    return sent.num_bytes

  def _held(self, inferred: Inferred, gathered: Collection[str]) -> list[int]:
    """Returns the bytes of variables that each device holds."""
    held = [0] * self.problem.num_parts
    for name, num_bytes in self._bytes.items():
      copies = _COPIES if name in self.problem.trained else 1
      split = inferred.splits.get(f"{name}:0")
      if split is None:
        held[0] += copies * num_bytes
        continue
      for part, size in enumerate(split.sizes):
        held[part] += copies * num_bytes * size // max(split.size, 1)
      if name in gathered:
        held[0] += num_bytes
    return held

  def uneven(self, names: Collection[str]) -> float:
    """Returns how uneven devices are because variables are whole.

    Args:
      names: Their names. Those count that should be split.

    Returns:
      How much of all weights, or work, that should be split is on the first
      device only, beyond what it may have more than its even share.
    """
    whole = self._worth.intersection(names)
    others = self.problem.num_parts - 1
    excesses = [
      sum(amounts[name] for name in whole) / total - slack / others
      for amounts, slack in (
        (self._bytes, _MEMORY_SLACK),
        (self.work, _WORK_SLACK),
      )
      if (total := sum(amounts[name] for name in self._worth))
    ]
    return max([0.0, *excesses])

  def _bytes_of_variables(self) -> dict[str, int]:
    """Returns the bytes of the values of variables, by name."""
    names = {*self.problem.variables, *self.problem.fixed}
    graph = self.problem.ops[0].graph
    return {
      name: shapes.variable_bytes(graph.get_operation_by_name(name))
      for name in sorted(names)
    }

  def _find_users(self) -> dict[str, list[int]]:
    """Returns where variables meet features."""
    users: dict[str, list[int]] = {}
    for position, names in enumerate(self.inference.inputs):
      if all(name in self.weights for name in names):
        continue
      for name in names:
        for variable in self.weights.get(name, ()):
          users.setdefault(variable, []).append(position)
    return users

  def _work_of(self, variable: str) -> float:
    """Returns the multiplications of products with a variable.

    A product of [m, k] and [k, n] has as many as the root of the product of
    the elements of both and of the result.
    """
    return sum(
      math.sqrt(
        math.prod(map(self._elements, (*op.inputs[:2], *op.outputs[:1])))
      )
      for position in self.users.get(variable, ())
      if (op := self.inference.ops[position]).type.startswith(
        op_types.LARGE_WORK
      )
    )

  def _elements(self, tensor: tf.Tensor) -> int:
    """Returns the elements of a tensor of a nominal batch."""
    return self.traffic.bytes_of(tensor) // max(int(tensor.dtype.size), 1)


def _weights(
  ops: inference.Inference, variables: Collection[str]
) -> dict[str, frozenset[str]]:
  """Returns the variables that tensors are made of, with constants only."""
  # The ops may be those on variables that were made before.
  found = {f"{name}:0": frozenset([name]) for name in variables}
  for op, names in zip(ops.ops, ops.inputs, strict=True):
    made: frozenset[str] | None = None
    if op_types.is_variable(op):
      made = frozenset([op.name])
    elif op.type in op_types.CONSTANTS:
      made = frozenset()
    elif names and all(name in found for name in names):
      made = frozenset().union(*(found[name] for name in names))
    if made is not None:
      found.update((tensor.name, made) for tensor in op.outputs)
  return found
