"""A rule: which dimensions of an op's inputs and outputs go together.

    MatMul(x [m, k], w [k, n]) -> [m, n], a sum over k

A dimension has a label, and equal labels are split alike: if x is split along
m, so is the product, and each part of it is the product of a part of x with all
of w. Split along k, which the product has not, both operands are, and the
products of parts add up. GSPMD (Xu et al., 2021, arXiv:2105.04663) propagates
shardings so, and one rule says it for ops of the forward and of the backward
pass, for slices of the batch and for devices of the model axis. It also says
which sizes are the same.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, TypeAlias

from estimator_mp.sizes.polynomials import Size

# The name of a dimension. One that begins with a capital is never split, but
# has the size of others with the name.
Label: TypeAlias = str
# Of each dimension; None for one that is never split, and has its own size.
Labels: TypeAlias = tuple[Label | None, ...]


class Reduction(enum.Enum):
  """How parts of a tensor, each of the whole shape, become it by entries."""

  SUM = "sum"
  MEAN = "mean"  # Over examples: parts weigh as much as they have of them.
  PRODUCT = "product"
  MAX = "max"
  MIN = "min"
  ALL = "all"
  ANY = "any"


@dataclasses.dataclass(frozen=True)
class Whole:
  """An input of which each part reads all."""


@dataclasses.dataclass(frozen=True)
class Local:
  """An input of which each part reads the tensor that the same part made."""


@dataclasses.dataclass(frozen=True)
class SizesOf:
  """An input that has the sizes of an output: a part's own for each part.

  Attributes:
    output: The number of the output.
    dimensions: Which dimension of it each entry is the size of, and None for an
      entry that is no size; `None` if they are all of its dimensions in order.
  """

  output: int = 0
  dimensions: tuple[int | None, ...] | None = None

  def entry(self, dimension: int) -> int | None:
    """Returns which entry is the size of a dimension; None if none is.

    Args:
      dimension: The dimension of the output.
    """
    if self.dimensions is None:
      return dimension
    places = enumerate(self.dimensions)
    return next((i for i, x in places if x == dimension), None)


Input: TypeAlias = Labels | Whole | Local | SizesOf


@dataclasses.dataclass(frozen=True)
class Rule:
  """How the dimensions of an op's inputs and outputs go together.

  Attributes:
    inputs: The labels of each input's dimensions, or how parts read it.
    outputs: The labels of each output's dimensions; None if nothing is known
      of it, or if it is no tensor of numbers.
    reduction: How parts along a label make an output that does not have it;
      None if they do not.
    linear: Which inputs the op is linear in, in groups: it may be given parts
      that add up in place of all inputs of a group, if all others are whole,
      and then makes parts that add up.
    sizes: Sizes of outputs' dimensions, by (output, dimension), where no label
      says them.
    is_proportional: Whether dimensions with one label may differ in size: parts
      are in proportion then. Otherwise their sizes are equal, even if the graph
      knows one of them only.
    nonempty: Whether kernels need parts that have entries.
    exchanged: Labels along which parts are no copies of the op, but exchange
      their results: `lower.exchanges` says how. Outputs without the
      label are whole. They are only split along it if the input of the number
      that it leads to is. Parts that do not exchange anything, which is another
      model, make such outputs by `reduction`.
    places: The number of an input, a label, and a size: its entries are places
      in a dimension with the label, of that size. A part counts them from its
      own first one on.
    owned: An input whose entries are places along a label, which any part may
      have. A part works on its own: along the label of an output, it leaves out
      places of -1; if it writes, it reads along labels "Entries" entries for
      its own places.
    local: Outputs of which nothing is known but that each part makes one for
      itself, which an op reads that has it as its `Local`.
    is_alike: Whether outputs that lack a label are the same for all parts along
      it, such as the length of a list.
    is_tuple: Whether each output is the input of its number, whatever that is.
    attributes: Attributes that parts of any size have in place of the op's.
    shape_attribute: The attribute that is the shape of the first output.
  """

  inputs: tuple[Input, ...]
  outputs: tuple[Labels | None, ...]
  reduction: Reduction | None = None
  linear: tuple[frozenset[int], ...] = ()
  sizes: Mapping[tuple[int, int], Size] = dataclasses.field(
    default_factory=dict
  )
  is_proportional: bool = False
  nonempty: bool = False
  exchanged: Mapping[Label, int] = dataclasses.field(default_factory=dict)
  places: tuple[int, Label, Size] | None = None
  owned: tuple[int, Label] | None = None
  local: frozenset[int] = frozenset()
  is_alike: bool = False
  is_tuple: bool = False
  attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  shape_attribute: str | None = None

  def labels(self, index: int) -> Labels:
    """Returns the labels of an input's dimensions; none if it has none.

    Args:
      index: The number of the input.
    """
    labels = self.inputs[index]
    return labels if isinstance(labels, tuple) else ()


def may_be_split(label: Label | None) -> bool:
  """Whether tensors may be split along a label.

  Args:
    label: The label of a dimension, or None.
  """
  return label is not None and not label[0].isupper()


def is_repeated(label: Label) -> bool:
  """Whether an operand of size 1 is repeated along a label.

  Args:
    label: The label of a dimension.
  """
  return label.startswith("...")
