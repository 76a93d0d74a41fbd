"""Tables of rules: lines of text, and functions where a line cannot say it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from estimator_mp.rules import notation
from estimator_mp.rules.rule import Rule
from estimator_mp.sizes.polynomials import Size
from estimator_mp.sizes.values import Value

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Axes:
  """Dimensions that an op is told by number.

  Attributes:
    sure: Those that are.
    maybe: Those that are if two sizes differ, of which that is not known.
  """

  sure: frozenset[int]
  maybe: frozenset[int] = frozenset()


class Shapes(Protocol):
  """The known sizes and values of the tensors that an op reads."""

  def shape(self, tensor: tf.Tensor) -> Sequence[Size] | None:
    """Returns the sizes of dimensions; None if their number is not known."""

  def value(self, tensor: tf.Tensor) -> Value | None:
    """Returns the entries of a small tensor of integers, such as a shape."""

  def axes(self, tensor: tf.Tensor, rank: int) -> Axes | None:
    """Returns the dimensions, from 0, that a tensor has the numbers of."""

  def is_size(self, size: Size) -> bool:
    """Whether a size is one of a dimension for sure, and never -1."""

  def variable_shape(self, handle: tf.Tensor) -> Sequence[Size] | None:
    """Returns the shape of the variable that a handle is of."""


# From an op, and the shapes of its inputs, to its rule; None if there is none
# for such shapes.
Function: TypeAlias = Callable[[tf.Operation, Shapes], Rule | None]


class Table:
  """Rules by the types of ops."""

  def __init__(self, text: str = ""):
    """Reads rules.

    Args:
      text: In the notation of `notation`.
    """
    self._functions: dict[str, Function] = {}
    self._enter({name: _bound(x) for name, x in notation.parse(text).items()})

  @property
  def types(self) -> frozenset[str]:
    """The types of ops that have a rule."""
    return frozenset(self._functions)

  def rule(self, *types: str) -> Callable[[Function], Function]:
    """Returns a decorator that enters a function for types of ops.

    Args:
      *types: The types, such as "Reshape".
    """

    def enter(function: Function) -> Function:
      self._enter(dict.fromkeys(types, function))
      return function

    return enter

  def find(
    self, op: tf.Operation, shapes: Shapes, as_type: str = ""
  ) -> Rule | None:
    """Returns the rule of an op; None if it has none.

    Args:
      op: The op.
      shapes: The sizes and values of its inputs.
      as_type: The type whose rule it is, if not its own.
    """
    function = self._functions.get(as_type or op.type)
    return None if function is None else function(op, shapes)

  def join(self, *others: "Table") -> "Table":
    """Enters the rules of other tables, and returns this one."""
    for other in others:
      self._enter(other._functions)
    return self

  def _enter(self, functions: Mapping[str, Function]) -> None:
    for name in functions.keys() & self._functions.keys():
      raise ValueError(f"ops of type {name} have two rules")
    self._functions.update(functions)


def ranks_of(op: tf.Operation, shapes: Shapes) -> list[int | None]:
  """Returns the ranks of an op's inputs, as far as known.

  Args:
    op: The op.
    shapes: The sizes of its inputs.
  """
  of_inputs = [shapes.shape(tensor) for tensor in op.inputs]
  return [None if x is None else len(x) for x in of_inputs]


def _bound(template: notation.Template) -> Function:
  # A model has many ops of the same few ranks.
  bound: dict[tuple[object, ...], Rule | None] = {}

  def rule(op: tf.Operation, shapes: Shapes) -> Rule | None:
    ranks = ranks_of(op, shapes)
    key = tuple(ranks), len(op.outputs), template.orders(op)
    if key not in bound:
      bound[key] = template.bind(op, ranks)
    return bound[key]

  return rule
