"""Merges: how tensors of slices become what they are in the whole batch.

Each micro-batch of each replica has a tensor of its own where the plain model
has one. Where examples lie along an axis, the slices are laid one after
another. A mean over examples is the mean of the slices' means, each times its
share of the batch; sums add up; and what is computed of such tensors is
computed again of the merged ones. This file only says which it is.

The same rules tell how the gradient of a loss begins in each slice. There the
loss has to be linear in its means and sums over examples: only then is its
gradient the sum of the slices' gradients.
"""

import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types, shapes, traversal
from estimator_mp.pipeline import example_axes
from estimator_mp.pipeline.example_axes import Kind

import numpy as np
import tensorflow as tf


class Merge(enum.Enum):
  """How the tensors of slices become one."""

  FIRST = "that of the first slice: it is the same for all"
  MEAN = "mean, each slice with its share of the batch"
  SUM = "sum"
  COUNT = "sum, and it is a number of examples, or some times that"
  MAX = "largest"
  MIN = "smallest"
  ALL = "whether it is true for all"
  ANY = "whether it is true for any"
  CONCAT = "one after another, along the axis of examples"
  AGAIN = "computed again of what is merged"
  UNKNOWN = "not known"


# What a loss may consist of: the slices' terms add up to the whole's.
LINEAR = frozenset([Merge.FIRST, Merge.MEAN, Merge.SUM, Merge.COUNT])
SUMS = frozenset([Merge.SUM, Merge.COUNT])

_REDUCTIONS = {
  "All": Merge.ALL,
  "Any": Merge.ANY,
  "L2Loss": Merge.SUM,
  "Max": Merge.MAX,
  "Mean": Merge.MEAN,
  "Min": Merge.MIN,
  "Sum": Merge.SUM,
}
# tf.losses and Keras name the number of elements so, even as a constant.
_NAME_OF_SIZE = re.compile(
  r"(^|/)(Size|Shape|num_elements|num_present)(_\d+)?(/|$)"
)


@dataclasses.dataclass(frozen=True)
class Term:
  """An input of an op by which a loss is made of its terms.

  Attributes:
    op: The op.
    index: The number of the input.
  """

  op: tf.Operation
  index: int

  @property
  def tensor(self) -> tf.Tensor:
    """The input itself."""
    return self.op.inputs[self.index]


@dataclasses.dataclass(frozen=True)
class Terms:
  """How a loss is made of means and sums over examples.

  Attributes:
    merges: How the loss, and each tensor on the way to its terms, is merged,
      by name, once the inputs below are replaced.
    sums: Sums beside means or terms without examples: they have to count as
      much more as their slice is a part of the batch.
    statistics: What is computed of the inputs of the model alone, such as the
      sum of examples' weights: slices have to use that of the whole batch.
    asked: Where it is not linear, and so is what the user says, if anything.
    by_slice: Sums that are divided by the size of a slice, as a constant: they
      are means, which the graph does not tell.
  """

  merges: Mapping[str, Merge]
  sums: tuple[Term, ...]
  statistics: tuple[Term, ...]
  asked: tuple[tf.Tensor, ...]
  by_slice: tuple[tf.Tensor, ...]


class MergeRules:
  """Says how tensors of one graph are merged."""

  def __init__(
    self,
    axes: example_axes.ExampleAxes,
    differs: Callable[[tf.Tensor], bool],
    slice_size: int | None,
    num_slices: int,
  ):
    """Starts without a tensor.

    Args:
      axes: Where tensors have their examples.
      differs: Whether a tensor differs between slices.
      slice_size: The examples of each slice, if the graph knows.
      num_slices: How many slices there are.
    """
    self._num_slices = num_slices
    self._axes = axes
    self._differs = differs
    self._slice_size = slice_size
    self._said: dict[str, Merge] = {}
    self._known: dict[str, Merge] = {}
    self._terms: dict[str, Merge] = {}

  def keep(self, terms: Mapping[str, Merge]) -> None:
    """Keeps how slices' terms of losses add up, now that it is so.

    Args:
      terms: Ways of merging, by the names of tensors.
    """
    self._terms |= terms
    for name in terms:  # Their inputs may be others now.
      self._known.pop(name, None)

  def say(self, name: str, merge: Merge) -> None:
    """Says how a tensor is merged, where the graph does not tell.

    Args:
      name: The tensor's name.
      merge: How.
    """
    self._said[name] = merge

  def kept(self, tensor: tf.Tensor) -> Merge | None:
    """Returns what was kept of a tensor, if anything.

    Args:
      tensor: A tensor.
    """
    return self._terms.get(tensor.name)

  def of(self, tensor: tf.Tensor) -> Merge:
    """Returns how a tensor is merged.

    Args:
      tensor: A tensor of the first slice, or one that all slices share.
    """
    if not self._differs(tensor):
      return Merge.FIRST
    if tensor.name in self._said:
      return self._said[tensor.name]
    todo = [tensor]
    while todo:  # Inputs first: a model may be deep.
      last = todo[-1]
      unknown = [
        x
        for x in last.op.inputs
        if self._differs(x)
        and x.name not in self._known
        and x.name not in self._said
      ]
      if last.name in self._known:
        todo.pop()
      elif self._is_made_of_numbers(last) and unknown:
        todo += unknown
      else:
        self._known[last.name] = self._find(last)
    return self._known[tensor.name]

  def _is_made_of_numbers(self, tensor: tf.Tensor) -> bool:
    """Whether the inputs of an op say how its output is merged."""
    return (
      graph_reads.outermost_loop(tensor.op) is None
      and not self.has_examples(tensor)
      and not self.reduces_examples(tensor.op)
    )

  def _find(self, tensor: tf.Tensor) -> Merge:
    op = tensor.op
    kind = self._axes.of(tensor).kind
    if kind is Kind.ROWS:
      return Merge.CONCAT
    if kind is not Kind.NONE or graph_reads.outermost_loop(op) is not None:
      return Merge.AGAIN
    if op.type in op_types.SHAPE_ONLY or tensor.dtype.is_integer:
      found = self._of_shape(tensor)
      if found is not None:
        return found
    if op.type in op_types.FUSED_BATCH_NORMS:
      return Merge.MEAN
    if op.type in _REDUCTIONS:
      found = self._of_reduction(op)
      if found is not None:
        return found
    found = self._of_linear(op)
    if found is not None:
      return found
    merges = [self.of(x) for x in op.inputs]
    is_pure = op.inputs and not op.op_def.is_stateful
    is_same = is_pure and all(x is Merge.FIRST for x in merges)
    return Merge.FIRST if is_same else Merge.AGAIN

  def _of_shape(self, tensor: tf.Tensor) -> Merge | None:
    """Returns the merge of a number that only shapes make."""
    if tensor.op.type in ("OnesLike", "Rank", "ZerosLike"):
      return Merge.FIRST
    value = shapes.evaluate(tensor, self._axes.size_for_odd_batch)
    if value is None:
      return None
    if np.max(value, initial=0) < example_axes.ODD_BATCH // 2:
      return Merge.FIRST
    is_count = np.all(np.mod(value, example_axes.ODD_BATCH) == 0)
    return Merge.COUNT if is_count else Merge.AGAIN

  def _of_reduction(self, op: tf.Operation) -> Merge | None:
    """Returns the merge of a reduction over examples; None if it is none."""
    data = op.inputs[0]
    layout = self._axes.of(data)
    if layout.kind is Kind.NONE:
      return None
    found = _REDUCTIONS[op.type]
    if layout.kind is Kind.UNKNOWN:
      # A mean over examples, or of what is a mean over them: it is one, too.
      is_mean = found is Merge.MEAN and not layout.is_counted
      return found if is_mean and op.outputs[0].shape.rank == 0 else Merge.AGAIN
    if found is Merge.MEAN and not layout.per_example:
      return Merge.AGAIN  # Of some rows only: no share of the batch.
    if op.type == "Sum" and self._is_made_of_shapes(data):
      return Merge.COUNT
    return found

  def _of_linear(self, op: tf.Operation) -> Merge | None:
    """Returns the merge of an op that is linear in what differs."""
    if op.type in op_types.LINEAR:
      found = self.of(op.inputs[0])
      is_rounded = op.type == "Cast" and (
        op.inputs[0].dtype.is_floating and not op.outputs[0].dtype.is_floating
      )
      return found if found in LINEAR and not is_rounded else None
    merges = [self.of(x) for x in op.inputs]
    if op.type in op_types.TERMS:
      if op.type == "ConcatV2":
        merges = merges[:-1]
      return _of_sum(merges)
    if op.type in op_types.SELECTS and merges[0] is Merge.FIRST:
      return _of_sum(merges[1:])
    if op.type in op_types.PRODUCTS:
      return _of_product(merges)
    if op.type in op_types.QUOTIENTS:
      return _of_quotient(merges)
    return None

  def reduces_examples(self, op: tf.Operation) -> bool:
    """Whether an op makes one of what all examples have.

    Args:
      op: An op of the slice.
    """
    return op.type in _REDUCTIONS and self.has_examples(op.inputs[0])

  def has_examples(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor may have a dimension that depends on the batch.

    Args:
      tensor: A tensor.
    """
    return self._axes.of(tensor).kind is not Kind.NONE

  def _is_made_of_shapes(self, tensor: tf.Tensor) -> bool:
    """Whether nothing but shapes and constants make a tensor."""
    return all(
      _is_pure(x) and not self._is_input(x) for x in self._before(tensor)
    )

  def is_statistic(self, tensor: tf.Tensor) -> bool:
    """Whether nothing but the model's inputs, and shapes, make a tensor.

    Args:
      tensor: A tensor of the slice.
    """
    return all(_is_pure(x) or self._is_input(x) for x in self._before(tensor))

  def _before(self, tensor: tf.Tensor) -> Iterator[tf.Tensor]:
    """Yields what leads to a tensor, from shapes and the model's inputs on."""
    return traversal.tensors_before(
      [tensor],
      lambda x: x.op.type in op_types.SHAPE_ONLY or self._is_input(x),
    )

  def _is_input(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is an input of the model."""
    is_fed = self._axes.is_input(tensor) or tensor.op.type in op_types.FEEDS
    return is_fed and tensor.op.type not in op_types.SHAPE_ONLY

  def terms(self, loss: tf.Tensor, word: Merge | None) -> Terms:
    """Returns how a loss is made of means and sums over examples.

    Args:
      loss: A tensor without examples.
      word: MEAN or SUM: what the user says of a part of it that is not
        linear, or whose divisor is ambiguous; None if nothing.
    """
    finder = _TermsFinder(self, word)
    finder.find(loss)
    return Terms(
      finder.found,
      tuple(finder.sums),
      tuple(finder.statistics),
      tuple(finder.asked),
      tuple(finder.by_slice),
    )

  def is_size_of_slice(self, tensor: tf.Tensor) -> bool:
    """Whether a number counts what a slice has, as a constant of the graph.

    Args:
      tensor: A tensor that all slices share.
    """
    size = self._slice_size
    if size is None or self._num_slices == 1 or not tensor.dtype.is_floating:
      return False
    value = shapes.evaluate(tensor, shapes.static_shape)
    if value is None or np.size(value) != 1 or not np.all(value):
      return False
    number = float(np.reshape(value, []))
    return any(
      round(x) and abs(x - round(x)) <= 1e-4 * abs(x) and round(x) % size == 0
      for x in (number, 1 / number)
    ) and self._is_size(tensor)

  def divides_by_slice(
    self, total: tf.Tensor, other: tf.Tensor, is_factor: bool
  ) -> bool | None:
    """Whether a sum is divided by the size of a slice; None if it may be.

    Where the graph knows the batch, Python code sees the size of the slice, and
    a constant does not tell where it is from.

    Args:
      total: A sum over examples.
      other: What it is divided by, or multiplied with.
      is_factor: Whether it is multiplied.
    """
    size = self._slice_size
    if size is None or self._num_slices == 1:
      return False
    value = shapes.evaluate(other, shapes.static_shape)
    if value is None:
      return None if self._is_made_of_shapes(other) else False
    if np.size(value) != 1 or not np.all(value):
      return False
    number = float(np.reshape(value, []))
    number = 1 / number if is_factor else number
    whole = round(number)
    if not whole or abs(number - whole) > 1e-4 * abs(number) or whole % size:
      return False
    is_of_slice = whole in self._sizes_of(total) and self._is_size(other)
    is_of_whole = whole % (size * self._num_slices) == 0
    return True if is_of_slice and not is_of_whole else None

  def _is_size(self, tensor: tf.Tensor) -> bool:
    """Whether the names of ops tell that a constant is a number of elements."""
    return any(
      _NAME_OF_SIZE.search(x.op.name)
      for x in traversal.tensors_before([tensor])
    )

  def _sizes_of(self, total: tf.Tensor) -> list[int | None]:
    """Returns the numbers that would make a mean of a sum over a slice."""
    while not self.reduces_examples(total.op):
      varying = [x for x in total.op.inputs if self._differs(x)]
      if len(varying) != 1:
        return [self._slice_size]
      (total,) = varying
    return [self._slice_size, total.op.inputs[0].shape.num_elements()]


class _TermsFinder:
  """Walks from a loss to its terms.

  Attributes:
    found: How each tensor on the way is merged, by name, once those of the
      next two are replaced.
    sums: As of `Terms`.
    statistics: As of `Terms`.
    asked: As of `Terms`.
    by_slice: As of `Terms`.
  """

  def __init__(self, rules: MergeRules, word: Merge | None):
    self._rules = rules
    self._word = word
    self.found: dict[str, Merge] = {}
    self.sums: list[Term] = []
    self.statistics: list[Term] = []
    self.asked: list[tf.Tensor] = []
    self.by_slice: list[tf.Tensor] = []

  def find(self, tensor: tf.Tensor) -> Merge:
    """Returns the merge of a term once its own terms are replaced."""
    if tensor.name not in self.found:
      found = self._find(tensor)
      if found not in LINEAR:
        found = self._word or Merge.UNKNOWN
        self.asked.append(tensor)
      self.found[tensor.name] = found
    return self.found[tensor.name]

  def _find(self, tensor: tf.Tensor) -> Merge:
    kept = self._rules.kept(tensor)
    if kept is not None:
      return kept
    op = tensor.op
    alone = self._rules.of(tensor)
    if alone in (Merge.FIRST, Merge.COUNT) or self._rules.has_examples(tensor):
      return alone
    if op.type in op_types.TERMS:
      return self._find_sum(op, range(len(op.inputs) - (op.type == "ConcatV2")))
    if op.type in op_types.SELECTS:
      terms = self._find_sum(op, range(1, 3))
      return terms if self._is_same(Term(op, 0)) else Merge.UNKNOWN
    if op.type in op_types.PRODUCTS or op.type in op_types.QUOTIENTS:
      return self._find_product(op)
    if op.type in op_types.LINEAR and not self._rules.reduces_examples(op):
      return self.find(op.inputs[0])
    return alone

  def _find_sum(self, op: tf.Operation, terms: Iterable[int]) -> Merge:
    """Returns the merge of a sum of terms."""
    merges = {i: self.find(op.inputs[i]) for i in terms}
    found = _of_sum(merges.values())
    if found is not None:
      return found
    if not LINEAR.issuperset(merges.values()):
      return Merge.UNKNOWN
    self.sums += [Term(op, i) for i, merge in merges.items() if merge in SUMS]
    return Merge.MEAN

  def _find_product(self, op: tf.Operation) -> Merge:
    """Returns the merge of a product or quotient."""
    is_factor = op.type in op_types.PRODUCTS
    index = self._index_of_factor(op) if is_factor else 1
    total, other = op.inputs[1 - index], op.inputs[index]
    found = self.find(total)
    scale = self._rules.of(other)
    if found in SUMS and scale is Merge.COUNT and not is_factor:
      return Merge.MEAN
    if found in SUMS and scale is Merge.FIRST:
      by_slice = self._rules.divides_by_slice(total, other, is_factor)
      if by_slice:
        self.by_slice.append(op.outputs[0])
      if by_slice is not False:
        return Merge.MEAN if by_slice else Merge.UNKNOWN
    is_same = found in LINEAR and self._is_same(Term(op, index))
    return found if is_same else Merge.UNKNOWN

  def _index_of_factor(self, op: tf.Operation) -> int:
    """Returns which input of a product scales the other."""
    tests: tuple[Callable[[tf.Tensor], bool], ...] = (
      lambda x: self._rules.of(x) is Merge.FIRST,
      self._rules.is_statistic,
    )
    for is_one in tests:
      for index in (1, 0):
        if is_one(op.inputs[index]):
          return index
    return 1

  def _is_same(self, term: Term) -> bool:
    """Whether an input is the same for all slices, or can be made so."""
    tensor = term.tensor
    if self._rules.of(tensor) is Merge.FIRST:
      return True
    if self._rules.is_statistic(tensor):
      self.statistics.append(term)
      return True
    return False


def _is_pure(tensor: tf.Tensor) -> bool:
  """Whether the inputs of an op are all that its output depends on."""
  return (
    not tensor.op.op_def.is_stateful or tensor.op.type in op_types.TABLE_LOOKUPS
  )


def _of_sum(merges: Iterable[Merge]) -> Merge | None:
  """Returns the merge of a sum of terms; None if they do not go together."""
  kinds = set(merges)
  if kinds == {Merge.FIRST}:
    return Merge.FIRST
  if kinds <= {Merge.FIRST, Merge.MEAN}:
    return Merge.MEAN
  if kinds <= {Merge.SUM, Merge.COUNT}:
    return Merge.SUM
  return None


def _of_product(merges: Iterable[Merge]) -> Merge | None:
  """Returns the merge of a product; None if it is not linear."""
  varying = [merge for merge in merges if merge is not Merge.FIRST]
  if not varying:
    return Merge.FIRST
  return varying[0] if len(varying) == 1 and varying[0] in LINEAR else None


def _of_quotient(merges: Sequence[Merge]) -> Merge | None:
  """Returns the merge of a quotient; None if it is not linear."""
  total, divisor = merges
  if divisor is Merge.FIRST:
    return total if total in LINEAR else None
  if divisor is Merge.COUNT and total in (Merge.SUM, Merge.COUNT):
    return Merge.FIRST if total is Merge.COUNT else Merge.MEAN
  return None
