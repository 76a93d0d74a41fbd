"""Statistics: what the inputs of a batch make together, and each example reads.

The sum of all weights, the share of a class in the labels, the size of the
batch by which each loss is divided: they depend on no variable, and so the
whole batch's are known before the first slice begins. A slice's would be other
numbers. What activations make, such as the moments of a batch normalisation
between layers, is there only after all slices: each slice has its own.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types, traversal
from estimator_mp.pipeline import example_axes, merges
from estimator_mp.pipeline.example_axes import Kind
from estimator_mp.pipeline.merges import Term

import tensorflow as tf

# They give each example the same: which input it is.
_SPREADS = {"BroadcastTo": 0, "Fill": 1, "Tile": 0}


@dataclasses.dataclass(frozen=True)
class Statistics:
  """Where examples read what all examples of their slice make.

  Attributes:
    whole: Inputs of ops that are to be those of the whole batch.
    own: What activations make, and each slice has its own; and the op that
      makes it of examples.
  """

  whole: tuple[Term, ...]
  own: Mapping[Term, tf.Operation]


class StatisticsFinder:
  """Finds where examples read statistics of their slice."""

  def __init__(
    self,
    axes: example_axes.ExampleAxes,
    rules: merges.MergeRules,
    differs: Callable[[tf.Tensor], bool],
  ):
    """Starts without a loss.

    Args:
      axes: Where tensors have their examples.
      rules: How tensors are merged.
      differs: Whether a tensor differs between slices.
    """
    self._axes = axes
    self._rules = rules
    self._differs = differs
    self._own: dict[Term, tf.Operation] = {}
    self._histograms: set[str] = set()  # And what is made of these alone.

  def find(
    self, targets: Sequence[tf.Tensor], but: Collection[tf.Operation]
  ) -> Statistics:
    """Returns what examples read on the way to losses.

    Args:
      targets: The losses.
      but: Ops that do not matter: gradients begin with what is right for them.

    Raises:
      ValueError: If the graph knows the size of a batch, and an op is made for
        that of a slice; if ids of a slice are counted; if a slice adds up what
        the whole batch's is a part of.
    """
    self._axes.add(targets)
    ops = self._ops_before(targets)
    for op in ops:
      if self._is_of_histograms(op):
        self._histograms.update(x.name for x in op.outputs)
    found: dict[Term, None] = {}
    for op in ops:
      if op in but:
        continue
      for index, tensor in enumerate(op.inputs):
        self._check_counts(op, tensor)
        if not self._is_read_by_examples(op, index):
          continue
        if not self._differs(tensor):
          self._check_size(op, index)
        elif self._is_number(op, tensor):
          for term in self._read_through(Term(op, index)):
            found |= dict.fromkeys(_with_whole_condition(term))
    self._check_sums(found)
    return Statistics(tuple(found), self._own)

  def _ops_before(self, targets: Iterable[tf.Tensor]) -> list[tf.Operation]:
    """Returns what slices compute for losses, in order; nothing of loops."""
    before = traversal.tensors_before(
      targets, lambda x: not self._differs(x) or self._axes.is_input(x)
    )
    ops = dict.fromkeys(x.op for x in before if self._differs(x))
    return traversal.in_order(
      [op for op in ops if graph_reads.outermost_loop(op) is None]
    )

  def _is_of_histograms(self, op: tf.Operation) -> bool:
    """Whether an op makes something of classes, of which data say how many."""
    if op.type in op_types.HISTOGRAMS:
      return bool(op.outputs[0].shape.rank == 1)
    is_one = any(x.name in self._histograms for x in op.inputs)
    return is_one and not any(map(self._has_examples, op.inputs))

  def _has_examples(self, tensor: tf.Tensor) -> bool:
    is_none = self._axes.of(tensor).kind is Kind.NONE
    return not is_none and tensor.name not in self._histograms

  def _is_read_by_examples(self, op: tf.Operation, index: int) -> bool:
    """Whether an op gives something to each example that is of none."""
    if self._has_examples(op.inputs[index]):
      return False
    others = [x for i, x in enumerate(op.inputs) if i != index]
    is_spread = _SPREADS.get(op.type) == index
    return any(map(self._has_examples, op.outputs)) and (
      is_spread or any(self._is_for_each(op, index, x) for x in others)
    )

  def _is_for_each(
    self, op: tf.Operation, index: int, other: tf.Tensor
  ) -> bool:
    """Whether all examples of an op's other input read an input.

    One of many rows was made for a batch of one size, which does not meet a
    slice: the step says so.
    """
    if not self._has_examples(other):
      return False
    tensor, axis = op.inputs[index], self._axes.of(other).axis
    ranks = tensor.shape.rank, other.shape.rank
    is_by_place = not (
      op.type in op_types.MATRIX_PRODUCTS
      or op.type.startswith(op_types.GATHERS)
      or axis is None
      or None in ranks
    )
    if not is_by_place:
      return True
    place = axis - other.shape.rank + tensor.shape.rank
    return bool(place < 0 or tensor.shape[place] in (1, other.shape[axis]))

  def _is_number(self, op: tf.Operation, tensor: tf.Tensor) -> bool:
    """Whether an input is no place or length, which a slice has its own of."""
    is_compared = op.type in op_types.COMPARISONS
    return is_compared or tensor.dtype.is_floating or tensor.dtype == tf.bool

  def _read_through(self, term: Term) -> list[Term]:
    """Returns the statistics of inputs that an input of an op is made of.

    A variable may be in between, such as the scale of a normalisation.

    Args:
      term: What examples read.
    """
    found, seen, todo = [], {term}, [term]
    while todo:
      one = todo.pop()
      if self._is_statistic(one.tensor):
        found.append(one)
      elif self._is_of_examples(one.tensor.op):
        self._own[term] = one.tensor.op
        return []
      else:
        inputs = enumerate(one.tensor.op.inputs)
        more = [
          Term(one.tensor.op, index)
          for index, tensor in inputs
          if self._differs(tensor) and not tensor.dtype.is_integer
        ]
        todo += [x for x in more if x not in seen]
        seen.update(more)
    return found

  def _is_of_examples(self, op: tf.Operation) -> bool:
    return (
      any(self._differs(x) and self._has_examples(x) for x in op.inputs)
      or graph_reads.outermost_loop(op) is not None
    )

  def _is_statistic(self, tensor: tf.Tensor) -> bool:
    is_in_loop = graph_reads.outermost_loop(tensor.op) is not None
    return not is_in_loop and self._rules.is_statistic(tensor)

  def _check_sums(self, found: Collection[Term]) -> None:
    """Raises if a slice's sum, which examples read, would be of shares."""
    readers = [term.op for term in found]
    for term, op in self._own.items():
      if not readers or op.type in op_types.AVERAGES:
        continue
      before = {x.op for x in traversal.tensors_before(op.inputs)}
      reader = next((x for x in readers if x in before), None)
      if reader is not None:
        raise ValueError(
          f"{op.name} ({op.type}) makes of the examples of a slice what "
          f"{term.op.name} gives back to them, and reads {reader.name}, for "
          "which the whole batch's inputs count; use tf.reduce_mean, or "
          "num_micro_batches=1 and no data axis"
        )

  def _check_counts(self, op: tf.Operation, tensor: tf.Tensor) -> None:
    """Raises if an op reads how often ids are in a slice."""
    output = op_types.COUNTS_OF_IDS.get(tensor.op.type)
    if output == tensor.value_index and self._differs(tensor):
      raise ValueError(
        f"{op.name} ({op.type}) reads {tensor.name}, which counts the ids of a "
        "slice of the batch, and the plain model's those of all examples; "
        "count with tf.math.bincount or tf.math.unsorted_segment_sum, join the "
        "ids by estimator_mp.toolbox.whole_batch(...), or use "
        "num_micro_batches=1 and no data axis"
      )

  def _check_size(self, op: tf.Operation, index: int) -> None:
    """Raises if examples are divided by the size of a slice, as a constant."""
    is_factor = op.type in op_types.PRODUCTS
    if not is_factor and (op.type not in op_types.QUOTIENTS or index != 1):
      return
    other, size = op.inputs[1 - index], op.inputs[index]
    if self._rules.divides_by_slice(other, size, is_factor):
      raise ValueError(
        f"{op.name} ({op.type}) divides examples by {size.name}, which is the "
        "size of a slice of the batch where the graph knows that, and not of "
        "the batch; let input_fn leave the size of a batch open (no "
        "drop_remainder), divide their sum instead, or use num_micro_batches=1 "
        "and no data axis"
      )


def _with_whole_condition(term: Term) -> list[Term]:
  """Returns all inputs that have to be replaced together with one.

  All of a v1 cond has to go the same way: it has an op that gives its condition
  to every switch but the first one, which lets constants go the way.

  Args:
    term: An input, maybe the condition of a switch.
  """
  if term.op.type not in op_types.SWITCHES:
    return [term]
  condition = term.tensor
  while condition.op.type == "Identity":
    condition = condition.op.inputs[0]
  return [
    Term(op, index)
    for op in dict.fromkeys(condition.consumers())
    if op.type in op_types.SWITCHES | {"Identity"}
    for index, tensor in enumerate(op.inputs)
    if tensor is condition
  ]


def no_statistic(term: Term, reason: str) -> str:
  """Returns the text of an error.

  Args:
    term: What examples read.
    reason: Why the whole batch's cannot be made.
  """
  return (
    f"{term.op.name} ({term.op.type}) reads {term.tensor.name} for each "
    "example, which all examples of the batch make together, and that cannot "
    f"be made of more examples than a slice has: {reason}; let input_fn leave "
    "the size of a batch open (no drop_remainder), or use num_micro_batches=1 "
    "and no data axis"
  )


def has_its_own(ops: Iterable[tf.Operation]) -> str:
  """Returns the text of a warning.

  Args:
    ops: What makes something of activations that examples read.
  """
  names = sorted({f"{op.name} ({op.type})" for op in ops})
  more = f" and {len(names) - 3} more" if len(names) > 3 else ""
  return (
    f"{', '.join(names[:3])}{more}: what is made of activations here goes back "
    "into each example, and is that of a slice, as the moments of a batch "
    "normalisation are; the plain model's is the whole batch's (see "
    "docs/differences.md)"
  )
