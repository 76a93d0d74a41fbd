"""Splits of variables over the devices of a model axis."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from estimator_mp.collectives.exchange import Ownership, RowOwners
from estimator_mp.config.split_rules import SplitError
from estimator_mp.graph import op_types, variables

import tensorflow as tf

_Split = TypeVar("_Split")


@dataclasses.dataclass(frozen=True)
class VariableSplit:
  """How a variable is split: the concat of its shards is the variable.

  Attributes:
    dim: The dimension that is split, from 0.
    sizes: The size of each shard in that dimension.
  """

  dim: int
  sizes: tuple[int, ...]

  @property
  def offsets(self) -> tuple[int, ...]:
    """Where each part begins."""
    return tuple(sum(self.sizes[:i]) for i in range(len(self.sizes)))

  @property
  def rows(self) -> RowOwners:
    """How the rows of a table are owned, if its rows are split."""
    return RowOwners(self.sizes)

  @property
  def size(self) -> int:
    """The size of the whole dimension."""
    return sum(self.sizes)


@dataclasses.dataclass(frozen=True)
class CyclicSplit(VariableSplit):
  """How a table is split whose row r is on device r % N, as its row r // N.

  Only handles of variables are split so. Their readers get rows that were
  looked up, or the whole table; no other rule hears of it.
  """

  @property
  def rows(self) -> RowOwners:
    """How the rows are owned."""
    return RowOwners(self.sizes, Ownership.MOD)


def used_at_once(
  ops: Iterable[tf.Operation],
) -> list[list[tf.Operation]]:
  """Returns the variables, and other states, of each op that uses several.

  Args:
    ops: Ops; a call of functions may use some of its variables each by itself.
  """
  states = [
    [variables.variable_of(x) for x in op.inputs if op_types.is_resource(x)]
    for op in ops
    if not op_types.is_call(op)
  ]
  return [used for used in states if len(used) > 1]


def with_slots(
  splits: Mapping[tf.Operation, _Split],
  together: Sequence[Sequence[tf.Operation]],
) -> dict[tf.Operation, _Split]:
  """Returns splits of variables, and of the slots that are updated with them.

  Args:
    splits: How variables are split, by their ops.
    together: The states that each op uses, of `used_at_once`.
  """
  of_all = dict(splits)
  is_new = True
  while is_new:
    is_new = False
    for used in together:
      known = [of_all[x] for x in used if x in of_all]
      if not known:
        continue
      shape = tf.TensorShape(used[0].get_attr("shape"))
      for other in used:
        is_variable = other.type == "VarHandleOp" and other not in of_all
        if is_variable and tf.TensorShape(other.get_attr("shape")) == shape:
          of_all[other] = known[0]
          is_new = True
  return of_all


def even_sizes(size: int, num_parts: int, multiple: int = 1) -> tuple[int, ...]:
  """Returns sizes of parts that differ by one multiple at most.

  Args:
    size: The size of the whole.
    num_parts: How many parts there are.
    multiple: A divisor of `size` that divides the size of each part, too.
  """
  least, more = divmod(size // multiple, num_parts)
  return tuple(multiple * (least + (i < more)) for i in range(num_parts))


class Unsplittable(SplitError):
  """A variable cannot be split: an op works on it that has no rule.

  Attributes:
    variable: The name of the variable's op.
    op: The op.
  """

  def __init__(self, variable: str, op: tf.Operation):
    super().__init__(
      f"{variable} cannot be split over devices: {op.name} works on it, "
      f"and there is no rule for such an op ({op.type}); keep it whole by the "
      f"rule ({variable!r}, None) before others"
    )
    self.variable = variable
    self.op = op
