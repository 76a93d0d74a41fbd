"""Decisions: the lowering of an op that reads or makes a split tensor.

A split tensor is the concat of its parts, one on each device of the model axis.
An op that reads one is made once for each part where that is the same:

    MatMul(x, Shard(1))          -> Shard(1):  x @ K_i beside K_i
    BiasAdd(Shard(1), Shard(0))  -> Shard(1):  h_i + b_i
    MatMul(Shard(1), Shard(0))   -> Partial(SUM): the sum over i of h_i @ K_i

which is Megatron-LM's pair of a column and a row parallel layer (Shoeybi et
al., 2019, arXiv:1909.08053), found by algebra; GSPMD (Xu et al., 2021,
arXiv:2105.04663) does the same to XLA's ops. A rule (`rules`) says so as data,
which is made into ops in `lower`.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from estimator_mp.collectives.exchange import RowOwners
from estimator_mp.propagate.splits import ByTurns as ByTurns
from estimator_mp.propagate.splits import Shard as Shard
from estimator_mp.propagate.splits import even_sizes as even_sizes

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Turned:
  """An operand of which part i reads every Nth row, from the ith on.

  Attributes:
    split: How the rows are split.
  """

  split: ByTurns


@dataclasses.dataclass(frozen=True)
class Replicate:
  """A tensor that is whole: each part reads all of it, or makes all of it."""


@dataclasses.dataclass(frozen=True)
class OwnShard:
  """An operand that is the handle of a variable: part i works on shard i."""


@dataclasses.dataclass(frozen=True)
class Constants:
  """An operand that is another constant for each part, whatever it was.

  Attributes:
    values: The constant of each part.
  """

  values: tuple[np.ndarray[Any, Any], ...]


@dataclasses.dataclass(frozen=True)
class Resized:
  """An operand that is a shape, and names the size of the split dimension.

  Attributes:
    index: Which element of the vector it is.
    sizes: The size of the split dimension in each part.
  """

  index: int
  sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Shifted:
  """An operand of indices into the split dimension.

  Attributes:
    offsets: The number that each part subtracts from the indices.
  """

  offsets: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Owned:
  """An operand of entries for some rows: part i reads those of its own rows.

  The rows themselves become the numbers that they have on their shard.

  Attributes:
    rows: Which rows of a table are whose.
    indices: Which input of the op says what rows the entries are for.
  """

  rows: RowOwners
  indices: int


Operand: TypeAlias = (
  Shard | Replicate | OwnShard | Constants | Resized | Shifted | Owned | Turned
)


class Reduction(enum.Enum):
  """How partial tensors become the whole one, entry by entry."""

  SUM = "sum"
  PRODUCT = "product"
  MAXIMUM = "maximum"
  MINIMUM = "minimum"
  ALL = "all"
  ANY = "any"


@dataclasses.dataclass(frozen=True)
class Partial:
  """A tensor that is the reduction of its parts, each of the whole shape.

  Attributes:
    reduction: Which one.
  """

  reduction: Reduction = Reduction.SUM


Output: TypeAlias = Shard | Partial | Replicate


@dataclasses.dataclass(frozen=True)
class PerPart:
  """The op is made once for each part, on the part's device.

  Attributes:
    operands: The operand of each part in place of each input.
    outputs: The layout of each output; empty for a write of shards.
    attributes: For each part the attributes that differ from the op's own, as
      `AttrValue`s by name; empty if none do.
  """

  operands: tuple[Operand, ...]
  outputs: tuple[Output, ...]
  attributes: tuple[Mapping[str, tf.compat.v1.AttrValue], ...] = ()


# A context in which new ops are on the device of a part, by its number.
OnPart: TypeAlias = Callable[[int], AbstractContextManager[None]]
# The tensors that each part reads in place of an op's inputs.
PartInputs: TypeAlias = Sequence[Sequence[tf.Tensor]]
# For a Shard output the list of its parts, for another one the whole tensor.
PartOutputs: TypeAlias = list[tf.Tensor | list[tf.Tensor]]
Build: TypeAlias = Callable[[tf.Operation, PartInputs, OnPart], PartOutputs]


@dataclasses.dataclass(frozen=True)
class Composite:
  """Other ops stand for the op: its parts exchange results.

  Attributes:
    operands: The operand of each part in place of each input.
    outputs: The layout of each output; `Replicate()` for one that is whole.
    build: Makes the ops. It is called outside of any device or name scope but
      its own; it puts its ops on parts' devices by `OnPart`.
    exchanged: The shapes of the tensors that are joined over devices, and
      read on all of them, inside: for costs.
  """

  operands: tuple[Operand, ...]
  outputs: tuple[Output, ...]
  build: Build
  exchanged: tuple[tf.TensorShape, ...] = ()


@dataclasses.dataclass(frozen=True)
class LookUp:
  """Rows of a table that is split by rows are exchanged for their numbers.

  Lookups of one table share an exchange.

  Attributes:
    rows: Which rows are whose.
    operands: The handle of the table, and numbers of rows.
    outputs: The rows, which are whole.
  """

  rows: RowOwners
  operands: tuple[Operand, ...] = (OwnShard(), Replicate())
  outputs: tuple[Output, ...] = (Replicate(),)


@dataclasses.dataclass(frozen=True)
class OnCopies:
  """The op has no rule, and is done once, on copies of whole variables.

  A cond or a loop that updates a variable is an example. Shards are joined
  before, and written from the copies after it.

  Attributes:
    operands: `OwnShard()` for the handles of split variables; all else is read
      whole.
    outputs: All whole.
  """

  operands: tuple[Operand, ...]
  outputs: tuple[Output, ...]


Decision: TypeAlias = PerPart | Composite | LookUp | OnCopies

# How each input of an op is split; None for one that is whole.
Shards: TypeAlias = Sequence[Shard | None]
# From an op, and how its inputs are split, to what becomes of the op; None if
# it has to read whole tensors. It reads static shapes, attributes and constant
# inputs, and makes no op.
Rule: TypeAlias = Callable[[tf.Operation, Shards], Decision | None]
# From an op none of whose inputs is split, and how its only output is to be
# split, to how parts make that themselves; None if it has to be made whole.
Source: TypeAlias = Callable[[tf.Operation, Shard], PerPart | None]


@dataclasses.dataclass
class Table:
  """Rules by the types of ops.

  Attributes:
    rules: Those of ops that read something split.
    sources: Those of ops whose output a reader wants split, such as a mask of
      random numbers that is multiplied with a split tensor.
  """

  rules: dict[str, Rule] = dataclasses.field(default_factory=dict)
  sources: dict[str, Source] = dataclasses.field(default_factory=dict)

  def rule(self, *types: str) -> Callable[[Rule], Rule]:
    """Returns a decorator that enters a rule for types of ops.

    Args:
      *types: The types, such as "MatMul".
    """

    def enter(rule: Rule) -> Rule:
      self.rules.update(dict.fromkeys(types, rule))
      return rule

    return enter

  def source(self, *types: str) -> Callable[[Source], Source]:
    """Returns a decorator that enters a source for types of ops.

    Args:
      *types: The types, such as "RandomUniform".
    """

    def enter(source: Source) -> Source:
      self.sources.update(dict.fromkeys(types, source))
      return source

    return enter


def joined(tables: Sequence[Table]) -> Table:
  """Returns one table of the entries of several.

  Args:
    tables: Tables.

  Raises:
    ValueError: If a type of op is in two of them.
  """
  total = Table()
  for table in tables:
    for name in table.rules.keys() & total.rules.keys():
      raise ValueError(f"ops of type {name} have two rules")
    for name in table.sources.keys() & total.sources.keys():
      raise ValueError(f"ops of type {name} have two sources")
    total.rules |= table.rules
    total.sources |= table.sources
  return total
