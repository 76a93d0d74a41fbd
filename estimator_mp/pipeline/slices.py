"""The slice: the ops of a graph that each micro-batch needs its own copy of.

They lie between a micro-batch's features and what is wanted of it, such as its
loss and gradients. What does not depend on the features (constants, reads of
variables, a penalty on weights) is shared by all micro-batches; a random op is
not, and neither is an op that keeps a state of its own, such as a v1 loop's
stack.

An update of a variable, such as batch normalisation's moving averages, is not
in the slice: it happens once per batch. What waits for such an update by a
control dependency would wait for all micro-batches, while these wait for each
other. So ops of the slice stop waiting, and whoever gets their results has to
wait instead.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from estimator_mp.graph import draws, op_types, traversal, variables

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class FoundSlice:
  """A slice.

  Attributes:
    ops: Its ops, in the order of the graph.
    shared: What it reads that does not differ, in the order of the graph.
    reads_sums: Whether it depends on sums over all micro-batches, such as those
      of gradients.
    late: The updates that ops of the slice, or what they read, wait for, by
      the op that has to stop waiting.
  """

  ops: list[tf.Operation]
  shared: list[tf.Operation]
  reads_sums: bool
  late: Mapping[tf.Operation, Sequence[tf.Operation]]


class SliceFinder:
  """Finds slices of a graph that grows."""

  def __init__(self, roots: Iterable[tf.Tensor]):
    """Starts with an empty graph.

    Args:
      roots: What differs between micro-batches, such as their features.
    """
    roots = list(roots)
    self._wholes: set[tf.Operation] = set()
    self._roots = {root.name for root in roots}
    self._num_rows = {
      root.shape.as_list()[0] for root in roots if root.shape.rank
    } - {None}
    self._order: dict[tf.Operation, int] = {}
    self._differs: set[tf.Operation] = set()
    self._updates: set[tf.Operation] = set()
    self._sums: set[tf.Operation] = set()
    self._loops = traversal.Loops()

  def add_root(self, root: tf.Tensor) -> None:
    """Adds something that differs, before anything reads it.

    Args:
      root: A tensor.
    """
    self._roots.add(root.name)

  def add_wholes(self, ops: Iterable[tf.Operation]) -> None:
    """Adds ops that join what micro-batches have, before others hear of them.

    Args:
      ops: Ops whose results are the same for all.
    """
    self._wholes.update(ops)
    self._sums.update(ops)

  def add_sums(self, ops: Sequence[tf.Operation]) -> None:
    """Adds ops that sum over micro-batches: their results are the same for all.

    Args:
      ops: Ops in the order in which they were made.
    """
    for op in ops:
      self._order[op] = len(self._order)
    self._sums.update(ops)

  def place(self, op: tf.Operation) -> int:
    """Returns the place of an op in the order in which ops were made.

    Args:
      op: An op that was added.
    """
    return self._order[op]

  def differs(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor differs between micro-batches.

    Args:
      tensor: A tensor of an op that was added, or of another.
    """
    return tensor.name in self._roots or tensor.op in self._differs

  def depends(self, op: tf.Operation) -> bool:
    """Whether what an op does differs between micro-batches.

    Args:
      op: An op that was added, or another.
    """
    return op in self._differs or op in self._updates

  def add(self, ops: Sequence[tf.Operation]) -> None:
    """Adds ops of the graph.

    Args:
      ops: Ops in the order in which they were made.
    """
    for op in ops:
      self._order[op] = len(self._order)
    self._loops.add(ops)

    def visit(op: tf.Operation) -> bool:
      is_new = op not in self._differs and (
        self._finds_difference(op)
        or draws.is_for_examples(op, self.differs, self._num_rows)
      )
      if is_new:
        self._differs.update([op, *self._loops.ops_with(op)])
      return is_new

    # Loops feed back, and v1 conds make the `Switch` before an op after it.
    traversal.repeat_until_stable(visit, ops)

  def _finds_difference(self, op: tf.Operation) -> bool:
    """Whether an op differs, by what is known of those before it."""
    if op.type in op_types.MOVES_GENERATOR or op in self._wholes:
      return False
    waits = [c for c in op.control_inputs if c not in self._updates]
    reads = any(self.differs(tensor) for tensor in op.inputs)
    follows = reads or any(c in self._differs for c in waits)
    waits_for_update = len(waits) < len(op.control_inputs)
    # A write happens once per batch, and so it has no state of its own.
    if op_types.is_write(op):
      if follows or waits_for_update:
        self._updates.add(op)
      return follows
    is_made_of_update = any(t.op in self._updates for t in op.inputs)
    if (waits_for_update or is_made_of_update) and not reads:
      self._updates.add(op)
    return follows or op_types.has_own_state(op)

  def find(
    self, targets: Iterable[tf.Operation], done: set[tf.Operation]
  ) -> FoundSlice:
    """Returns the slice that leads to targets.

    Args:
      targets: What is wanted of each micro-batch.
      done: Ops of earlier slices, which are left out.

    Raises:
      ValueError: If the model reads a variable after an update of it that
        depends on the features, or what such an update returns; or if it
        has a state that cannot be shared or cloned.
    """
    found: set[tf.Operation] = set()
    shared: set[tf.Operation] = set()
    late: dict[tf.Operation, Sequence[tf.Operation]] = {}

    def before(op: tf.Operation) -> list[tf.Operation]:
      loop = self._loops.ops_with(op) if op in found else ()
      updates = late.get(op, ())
      waits = [c for c in op.control_inputs if c not in updates]
      ops = [*loop, *traversal.inputs(op), *waits]
      return [op for op in ops if op in self._order]

    known = [op for op in targets if op in self._order]
    for op in traversal.walk(known, before, done):
      if op in self._differs and op_types.is_write(op):
        raise ValueError(
          f"{op.name} writes a variable from the batch, and the loss reads "
          "what it has written, so micro-batches cannot pass one after the "
          "other; use num_micro_batches=1 and no data axis"
        )
      op_types.check_state(op)
      for tensor in filter(op_types.is_handle, op.inputs):
        op_types.check_state(tensor.op)
      updates = self._updates_before(op)
      if updates:
        late[op] = updates
      (found if op in self._differs else shared).add(op)
    if late:
      self._check_reads(found | shared, late)
    return FoundSlice(
      sorted(found, key=self._order.__getitem__),
      sorted(shared, key=self._order.__getitem__),
      not shared.isdisjoint(self._sums),
      late,
    )

  def _updates_before(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the updates from the batch that an op waits for."""
    updates = [c for c in op.control_inputs if c in self._updates]
    if updates and op.type in op_types.VARIABLE_READS:
      raise ValueError(_read_after(op, updates[0]))
    return updates

  def _check_reads(
    self,
    ops: Collection[tf.Operation],
    late: Mapping[tf.Operation, Sequence[tf.Operation]],
  ) -> None:
    """Raises if what a read needs waits for an update of what is read.

    TensorFlow lets an op not wait itself if one of its inputs does, such as the
    constant rows of a lookup.
    """
    for read in ops:
      if read.type not in op_types.VARIABLE_READS:
        continue
      variable = variables.variable_of(read.inputs[0])
      for op in traversal.ancestors(traversal.inputs(read), within=ops):
        for update in late.get(op, ()):
          if variable in self._written_by(update):
            raise ValueError(_read_after(read, update))

  def _written_by(self, update: tf.Operation) -> set[tf.Operation]:
    """Returns the variables that are written when an update has run."""
    return {
      variable
      for op in traversal.walk(
        [update],
        lambda op: [x for x in traversal.sources(op) if x in self._updates],
      )
      for variable in variables.written_variables(op)
    }


def _read_after(read: tf.Operation, update: tf.Operation) -> str:
  """Returns the text of an error."""
  return (
    f"{read.name} reads a variable after {update.name} has updated it from the "
    "batch, so micro-batches cannot pass one after the other; use "
    "num_micro_batches=1"
  )
