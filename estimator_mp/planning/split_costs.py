"""The costs of choices of splits: bytes that are sent, and held by devices."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from estimator_mp.graph import op_types, shapes
from estimator_mp.placement import rounds
from estimator_mp.planning.split_candidates import Candidate, Candidates
from estimator_mp.rules import elementwise

import tensorflow as tf

# A weight that is trained needs a gradient and two slots, as Adam has.
_COPIES = 4
# The first device may hold, and compute, this much more than its even share.
_MEMORY_SLACK = 0.1
_WORK_SLACK = 0.05
# Beyond that, no more than this much of all weights, or work, may be whole.
_MOST_WHOLE = 0.1


@dataclasses.dataclass(frozen=True, order=True)
class Cost:
  """The cost of a choice; earlier fields count more.

  A whole variable is on the first device alone. Let u be the share of all
  weights, or of all work, that is whole beyond a little that is free. Then

      priced_bytes = bytes sent in a step / (1 - u / 0.1)

  so nothing is split for its own sake, and a tenth is never whole. With an even
  share as a condition instead, the little that is left over in a small model
  would be split at any price, as a table of positions whose columns all that
  follows takes on.

  Attributes:
    over_limit: The bytes of the first device above the memory limit.
    too_uneven: The share that is whole beyond the limit, in hundredths.
    priced_bytes: The bytes sent in a step, times the price of the weights and
      the work that stay whole.
    peak_bytes: The bytes that the fullest device holds.
    num_sent: How many tensors are sent.
  """

  over_limit: int
  too_uneven: int
  priced_bytes: float
  peak_bytes: int
  num_sent: int


class Costs:
  """The costs of choices.

  Attributes:
    users: The ops of the forward pass that join a variable with features.
    work: The multiplications of a forward pass with each variable.
  """

  def __init__(self, candidates: Candidates):
    """Reads the graph.

    Args:
      candidates: The layouts and the traffic of choices.
    """
    self._candidates = candidates
    self._problem = candidates.problem
    undecided = self._problem.variables
    self._weights = weights(self._problem.ops, undecided)
    self.users = users(self._problem.ops, self._problem.backward, self._weights)
    self._bytes = {x: shapes.variable_bytes(x) for x in undecided}
    self.work = {x: self._work_of(x) for x in undecided}
    self._worth: frozenset[tf.Operation] = frozenset()

  def set_worth(self, worth: Collection[tf.Operation]) -> None:
    """Sets the variables that should be split for even memory and work.

    Args:
      worth: The variables.
    """
    self._worth = frozenset(worth)

  def cost(self, candidate: Candidate) -> Cost:
    """Returns the cost of a choice.

    Args:
      candidate: The choice.
    """
    gathered = self.gathered(candidate)
    held = self._held(candidate, gathered)
    limit = self._problem.memory_limit
    whole = {x for x in self._worth if candidate.splits[x] is None}
    uneven = self.uneven(whole | gathered)
    left = max(1.0 - uneven / _MOST_WHOLE, 0.01)
    return Cost(
      0 if limit is None else max(0, max(held) - limit),
      max(0, math.ceil(100.0 * (uneven - _MOST_WHOLE))),
      priced_bytes=candidate.num_bytes / left,
      peak_bytes=max(held),
      num_sent=candidate.num_sent,
    )

  def gathered(self, candidate: Candidate) -> set[tf.Operation]:
    """Returns the variables that a step gathers although they are split.

    Args:
      candidate: The choice.
    """
    return {
      variable
      for name, of in self._weights.items()
      if of and self._candidates.is_gathered(candidate, name)
      for variable in of
    }

  def uneven(self, names: Collection[tf.Operation]) -> float:
    """Returns how uneven devices are because variables are whole.

    Args:
      names: The variables. Those count that should be split.

    Returns:
      How much of all weights, or work, is on the first device only although it
      should be split, beyond the excess over its even share that it may have.
    """
    whole = self._worth.intersection(names)
    others = self._problem.num_parts - 1
    excesses = [
      sum(amounts[x] for x in whole) / total - slack / others
      for amounts, slack in (
        (self._bytes, _MEMORY_SLACK),
        (self.work, _WORK_SLACK),
      )
      if (total := sum(amounts.values()))
    ]
    return max([0.0, *excesses])

  def _held(
    self, candidate: Candidate, gathered: Collection[tf.Operation]
  ) -> list[int]:
    """Returns the bytes of variables that each device holds."""
    held = [0] * self._problem.num_parts
    for variable, split in candidate.splits.items():
      num_bytes = self._bytes[variable]
      if split is None:
        held[0] += _COPIES * num_bytes
        continue
      whole = split.partition.whole
      for part, size in enumerate(split.partition.parts):
        assert isinstance(size, int) and isinstance(whole, int)
        held[part] += _COPIES * num_bytes * size // max(whole, 1)
      if variable in gathered:
        held[0] += num_bytes
    return held

  def _work_of(self, variable: tf.Operation) -> float:
    """Returns the multiplications of products with a variable."""
    return sum(self._work(x, variable) for x in self.users.get(variable, ()))

  def _work(self, op: tf.Operation, variable: tf.Operation) -> float:
    """Returns the multiplications of an op with a variable.

    A product of [m, k] and [k, n] has as many as the root of the product of
    the elements of both and of the result. Each round of a loop multiplies a
    batch with the weights that it captures.
    """
    if op.type in op_types.FUNCTIONAL_LOOPS:
      count = tf.TensorShape(variable.get_attr("shape")).num_elements()
      return float(count * shapes.NOMINAL_BATCH * rounds.NOMINAL)
    if not op.type.startswith(op_types.LARGE_WORK):
      return 0.0
    tensors = (*op.inputs[:2], *op.outputs[:1])
    return math.sqrt(math.prod(map(self._elements, tensors)))

  def _elements(self, tensor: tf.Tensor) -> int:
    """Returns the elements of a tensor of a nominal batch."""
    num_bytes = self._problem.sizes.get(tensor.name, 0)
    return num_bytes // max(int(tensor.dtype.size or 0), 1)


def weights(
  ops: Iterable[tf.Operation], variables: Collection[tf.Operation]
) -> dict[str, frozenset[tf.Operation]]:
  """Returns the variables that tensors are made of, with constants only.

  Args:
    ops: Each after those that it reads.
    variables: The variables that are told.

  Returns:
    The variables by the name of the tensor; nothing else is in it.
  """
  by_tensor: dict[str, frozenset[tf.Operation]] = {}
  for op in ops:
    of_op: frozenset[tf.Operation] | None = None
    if op_types.is_variable(op):
      of_op = frozenset([op] if op in variables else [])
    elif op.type in op_types.CONSTANTS:
      of_op = frozenset()
    elif op.inputs and all(x.name in by_tensor for x in op.inputs):
      of_op = frozenset().union(*(by_tensor[x.name] for x in op.inputs))
    if of_op is not None:
      by_tensor.update((tensor.name, of_op) for tensor in op.outputs)
  return by_tensor


def users(
  ops: Iterable[tf.Operation],
  backward: Collection[tf.Operation],
  of: Mapping[str, Collection[tf.Operation]],
) -> dict[tf.Operation, list[tf.Operation]]:
  """Returns where variables meet features.

  Args:
    ops: Each after those that it reads.
    backward: Those that come after the forward pass.
    of: The `weights` of tensors.

  Returns:
    Ops of the forward pass, by the variables.
  """
  by_variable: dict[tf.Operation, list[tf.Operation]] = {}
  for op in ops:
    names = [x.name for x in op.inputs]
    if op in backward or all(x in of for x in names):
      continue
    for name in dict.fromkeys(names):
      for variable in of.get(name, ()):
        by_variable.setdefault(variable, []).append(op)
  return by_variable


def without_followers(
  ops: Sequence[tf.Operation],
  backward: Collection[tf.Operation],
  variables: Collection[tf.Operation],
) -> list[tf.Operation]:
  """Returns variables but for those that meet features entry by entry.

  These follow the features that they meet, as a bias does.

  Args:
    ops: Each after those that it reads.
    backward: Those that come after the forward pass.
    variables: The variables.
  """
  met = users(ops, backward, weights(ops, variables))
  return [
    variable
    for variable in variables
    if not all(
      x.type in elementwise.TABLE.types for x in met.get(variable, [variable])
    )
  ]
