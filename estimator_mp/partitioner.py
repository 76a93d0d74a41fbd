"""The partitioner: a finished graph of the whole batch becomes one of slices.

model_fn has returned, and its graph is the plain program's: forward, backward,
clipping, updates. Nothing of it is intercepted. What is split is decided on
that graph (`analysis`, `propagate`), made as data (`lower.instantiation`), and
added to it at once; then what is executed once reads what slices make.

So far on one device. The rest of DESIGN.md is still done by `conductor`.
"""

from collections.abc import Sequence

from compat.private import graph_reads
from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.graph import op_types, traversal
from estimator_mp.graph.calls import inlining
from estimator_mp.lower import ordering
from estimator_mp.lower.instantiation import SLICE, Fetch, Instantiation
from estimator_mp.plan import unordered_reads
from estimator_mp.propagate.layouts import Partition, Shard
from estimator_mp.propagate.propagation import Propagation, is_without_state
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Polynomial, Size

import tensorflow as tf


class Partitioner:
  """Partitions the graph of one call of a model_fn over slices of its batch.

  Attributes:
    shapes: The sizes of tensors.
    batch: Their layouts over slices.
  """

  def __init__(self, examples: Sequence[tf.Tensor], fetches: Sequence[Fetch]):
    """Decides how ops are executed; the graph stays as it is.

    Args:
      examples: Features and labels whose first dimension is that of examples.
      fetches: What a step runs.
    """
    self._graph = examples[0].graph
    self._examples = list(examples)
    self._fetches = list(fetches)
    self._inline_calls()
    self._order_reads()
    live = traversal.ops_run_with(*self._fetches)
    self._ops = traversal.in_order(
      [op for op in self._graph.get_operations() if op in live]
    )
    self.shapes = SymbolicShapes(examples)
    self.shapes.add(self._ops)
    self._of_inputs = self._find_of_inputs()
    self._depends = set(
      traversal.descendants([x.op for x in examples], self._ops)
    )
    self.batch = Propagation(
      self.shapes,
      {tensor.name: Shard(0, self._partition) for tensor in examples},
      {
        op
        for op in self._ops
        if is_without_state(op) and not graph_reads.is_in_control_flow(op)
      },
      self._starts,
      self._rows,
      self._of_inputs,
      {x.name for x in self._fetches if isinstance(x, tf.Tensor)},
    )
    self.batch.run(self._ops)

  @property
  def _partition(self) -> Partition:
    return Partition(self.shapes.num_examples, (polynomials.symbol(SLICE),))

  def _starts(self, size: Size) -> Partition | None:
    """Returns how something new is split that has a size."""
    if not isinstance(size, Polynomial) or not self.shapes.has_examples(size):
      return None
    return self._partition.of(size)

  def _rows(self, tensor: tf.Tensor) -> Partition | None:
    """Returns how a tensor is split whose first dimension is of examples."""
    shape = self.shapes.shape(tensor)
    if not shape or not self.shapes.has_examples(shape[0]):
      return None
    return self._partition.of(shape[0]) if tensor.op in self._depends else None

  def _find_of_inputs(self) -> set[tf.Operation]:
    """Returns ops that depend on inputs alone, and on no state."""
    found = set(traversal.ops_run_with(*self._examples))
    for op in self._ops:
      read = [*traversal.inputs(op), *op.control_inputs]
      if not op.op_def.is_stateful and all(x in found for x in read):
        found.add(op)
    return found

  def _inline_calls(self) -> None:
    """Puts the ops of functions that read the batch in the place of calls."""
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    starts = [tensor.op for tensor in self._examples]
    calls = [
      op
      for op in traversal.descendants(starts, ops)
      if op.type in op_types.FUNCTION_CALLS
    ]
    found = inlining.inline(calls)
    self._fetches = [
      found.get(x.name, x) if isinstance(x, tf.Tensor) else x
      for x in self._fetches
    ]

  def _order_reads(self) -> None:
    """Lets reads of variables come before writes, as they do by chance.

    That gradients wait for each other, in `tf.tuple`, orders them, but would
    let slices wait for each other, too.
    """
    ordering.forget_tuples(self._graph.get_operations())
    live = traversal.ops_run_with(*self._fetches)
    ops = [op for op in self._graph.get_operations() if op in live]
    ordering.read_before_writing(unordered_reads.find(ops))

  def lower(self, num_slices: int) -> list[Fetch]:
    """Makes the slices.

    Args:
      num_slices: How many slices the batch has.

    Returns:
      What stands for what a step fetches.
    """
    made = Instantiation(
      self._graph,
      self.shapes,
      self.batch,
      self._of_inputs,
      num_slices,
      self._examples[0],
    )
    made.add(self._ops)
    return made.apply(self._fetches)
