"""Layouts of tensors over the parts of an axis: whole, split or added up.

A mesh splits two things: the batch into slices, and layers over the devices of
the model axis. On each of the two a tensor has one layout, as in GSPMD (Xu et
al., 2021, arXiv:2105.04663) and PyTorch's DTensor:

    Once           there is one, computed once
    Shard(dim)     parts, of which it is the concatenation
    Partial(SUM)   parts of the whole shape that add up to it
    Mirrored       the same for all parts, each of which computes it

A tensor is read in another layout than it has at the price of a reshard.
"""

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

from estimator_mp.rules.rule import Reduction
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf

# The symbol for the number of examples of a slice.
SLICE = "m"


@dataclasses.dataclass(frozen=True)
class Partition:
  """The parts into which a dimension is split.

  Attributes:
    whole: Its size.
    parts: The size of each part. All slices of a batch are one part, whose size
      has the symbol for the examples of a slice.
    is_cyclic: Whether entries go to parts by turns: entry i to part i % N.
      Otherwise each part has consecutive ones.
  """

  whole: Size
  parts: tuple[Size, ...]
  is_cyclic: bool = False

  def of(self, size: Size) -> "Partition | None":
    """Returns the partition of another size in the same proportions.

    Args:
      size: The size.

    Returns:
      None if a part would have no whole number of entries.
    """
    if size == self.whole:
      return self
    if self.is_cyclic:
      return None
    parts: list[Size] = []
    for part in self.parts:
      size_of_part = polynomials.quotient(part * size, self.whole)
      if size_of_part is None:
        return None
      parts.append(size_of_part)
    return Partition(size, tuple(parts))

  def size_of(self, number: int) -> Size:
    """Returns the size of a part; all slices are one, with a symbol.

    Args:
      number: The number of the part.
    """
    return self.parts[number] if len(self.parts) > 1 else self.parts[0]

  @property
  def has_empty(self) -> bool:
    """Whether a part is known to be empty."""
    return 0 in self.parts


@dataclasses.dataclass(frozen=True)
class Once:
  """A tensor that is computed once."""


@dataclasses.dataclass(frozen=True)
class Mirrored:
  """A tensor that each part computes for itself, and all alike."""


@dataclasses.dataclass(frozen=True)
class Shard:
  """A tensor that is the concatenation of its parts.

  Attributes:
    dim: The dimension that is split.
    partition: Its parts.
  """

  dim: int
  partition: Partition


@dataclasses.dataclass(frozen=True)
class Partial:
  """A tensor whose parts have its shape, and are reduced entry by entry.

  Attributes:
    reduction: How.
  """

  reduction: Reduction = Reduction.SUM


Layout: TypeAlias = Once | Mirrored | Shard | Partial
ONCE = Once()
MIRRORED = Mirrored()


def is_whole(layout: Layout) -> bool:
  """Whether all of a tensor is in one place, or in each.

  Args:
    layout: Its layout.
  """
  return isinstance(layout, Once | Mirrored)


@dataclasses.dataclass(frozen=True)
class Sizes:
  """A vector of sizes of which one entry is a part's own.

  Attributes:
    entry: Which one.
    partition: The parts of the dimension that it is the size of.
  """

  entry: int
  partition: Partition


@dataclasses.dataclass(frozen=True)
class Repeated:
  """A tensor that is repeated to the size of a dimension first, then split.

  It may have size 1 there, which is known only when a step runs.

  Attributes:
    shard: How it is split then.
  """

  shard: Shard


# The tensor that the parts of an op read of an input.
Read: TypeAlias = Layout | Sizes | Repeated


@dataclasses.dataclass(frozen=True)
class Parts:
  """How an op is executed in parts.

  Attributes:
    reads: How they read each input.
    outputs: The layouts of the outputs that they make.
    exchanges: Whether they are no copies of the op, but exchange results.
    places: The number of an input whose entries are places in a dimension that
      is split so: parts count from their own first place on.
    owned: The same, where each part works on the places that it owns.
  """

  reads: tuple[Read, ...]
  outputs: tuple[Layout, ...]
  exchanges: bool = False
  places: tuple[int, Partition] | None = None
  owned: tuple[int, Partition] | None = None


class Layouts:
  """The layouts of a graph on one axis.

  Attributes:
    layouts: Those of tensors by their names; all others are Once.
    parts: How ops are executed that are executed in parts.
  """

  def __init__(
    self,
    layouts: Mapping[str, Layout],
    parts: Mapping[tf.Operation, Parts],
  ):
    """Takes over known layouts."""
    self.layouts = dict(layouts)
    self.parts = dict(parts)

  def layout(self, tensor: tf.Tensor) -> Layout:
    """Returns the layout of a tensor.

    Args:
      tensor: The tensor.
    """
    return self.layouts.get(tensor.name, ONCE)
