"""Statistics: what the inputs of a batch make together, and each example reads.

The sum of all weights, the share of a class in the labels, the size of the
batch by which each loss is divided: they depend on no variable, and so the
whole batch's are known before the first slice begins. A slice's would be other
numbers. What activations make, such as the moments of a batch normalisation,
is no statistic in this sense: each slice has its own.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from compat.private import graph_reads
from estimator_mp.graph import op_types, traversal
from estimator_mp.pipeline import example_axes, merges
from estimator_mp.pipeline.example_axes import Kind
from estimator_mp.pipeline.merges import Term

import tensorflow as tf

# They give each example the same: which input it is.
_SPREADS = {"BroadcastTo": 0, "Fill": 1, "Tile": 0}


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
    self._histograms: set[str] = set()  # And what is made of these alone.

  def find(
    self, targets: Sequence[tf.Tensor], but: Collection[tf.Operation]
  ) -> Iterator[Term]:
    """Yields what examples read on the way to losses.

    Args:
      targets: The losses.
      but: Ops that do not matter: gradients begin with what is right for them.

    Yields:
      Inputs of ops, which are to be those of the whole batch.

    Raises:
      ValueError: If the graph knows the size of a batch, and an op is made for
        that of a slice.
    """
    self._axes.add(targets)
    ops = self._ops_before(targets)
    for op in ops:
      if self._is_of_histograms(op):
        self._histograms.update(x.name for x in op.outputs)
    for op in ops:
      if op in but:
        continue
      for index, tensor in enumerate(op.inputs):
        if not tensor.dtype.is_floating or not self._is_read_by_examples(
          op, index
        ):
          continue
        if self._is_statistic(tensor):
          yield Term(op, index)
        elif self._is_size_of_slice(op, index):
          raise ValueError(_size_of_slice(op, tensor))

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
      is_spread or any(map(self._has_examples, others))
    )

  def _is_statistic(self, tensor: tf.Tensor) -> bool:
    return (
      self._differs(tensor)
      and graph_reads.outermost_loop(tensor.op) is None
      and self._rules.is_statistic(tensor)
    )

  def _is_size_of_slice(self, op: tf.Operation, index: int) -> bool:
    """Whether examples are divided by the size of a slice, as a constant."""
    is_factor = op.type in op_types.PRODUCTS
    if not is_factor and (op.type not in op_types.QUOTIENTS or index != 1):
      return False
    other = op.inputs[1 - index]
    return not self._differs(op.inputs[index]) and bool(
      self._rules.divides_by_slice(other, op.inputs[index], is_factor)
    )


def _size_of_slice(op: tf.Operation, size: tf.Tensor) -> str:
  """Returns the text of an error."""
  return (
    f"{op.name} ({op.type}) divides examples by {size.name}, which is the size "
    "of a slice of the batch where the graph knows that, and not of the batch; "
    "let input_fn leave the size of a batch open (no drop_remainder), divide "
    "their sum instead, or use num_micro_batches=1 and no data axis"
  )


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
