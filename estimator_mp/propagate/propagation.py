"""Propagation: the layouts of all tensors, op by op in the order of the graph.

An op is executed in parts if its rule guarantees that the parts together are
the op, along a dimension in which one of its inputs is split. What has no rule,
or reads what was made in another way, is executed once, on whole tensors: that
is always right.

Sums travel: parts of a gradient that add up go through ops that are linear in
them, so that they are added once, where something reads their sum.
"""

from collections.abc import (
  Callable,
  Collection,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)

from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.graph import op_types
from estimator_mp.propagate.layouts import (
  ONCE,
  Layout,
  Partial,
  Partition,
  Parts,
  Read,
  Repeated,
  Shard,
  Sizes,
)
from estimator_mp.rules.rule import (
  Label,
  Reduction,
  Rule,
  SizesOf,
  is_repeated,
  may_be_split,
)
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf


class Propagation:
  """Layouts on one axis.

  Attributes:
    layouts: Those of tensors that are not whole, by their names.
    parts: How ops are executed that are executed in parts.
  """

  def __init__(
    self,
    shapes: SymbolicShapes,
    roots: Mapping[str, Shard],
    able: Collection[tf.Operation],
    starts: Callable[[Size], Partition | None] = lambda size: None,
    rows: Callable[[tf.Tensor], Partition | None] = lambda tensor: None,
    of_inputs: Collection[tf.Operation] = (),
    fetched: Collection[str] = (),
  ):
    """Starts with what is split at first.

    Args:
      shapes: The sizes of tensors, and the rules of ops.
      roots: How inputs, or variables, are split, by the names of tensors.
      able: Ops that may be executed in parts.
      starts: Returns into what parts a dimension is split of what has a size,
        if that says so by itself: a multiple of the examples is.
      rows: Returns into what parts the first dimension of a tensor may be split
        that was made once: if it is of examples.
      of_inputs: Ops whose results are there whole anyway: they are not added up
        of parts.
      fetched: The names of tensors that a step fetches, though no op may read
        them.
    """
    self.layouts: dict[str, Layout] = dict(roots)
    self.parts: dict[tf.Operation, Parts] = {}
    self._shapes = shapes
    self._able = able
    self._starts = starts
    self._rows = rows
    self._of_inputs = of_inputs
    self._fetched = fetched

  def run(self, ops: Iterable[tf.Operation]) -> None:
    """Decides on ops.

    Args:
      ops: Each after those that it reads.
    """
    for op in ops:
      found = self._decide(op)
      if found is None:
        continue
      self.parts[op] = found
      for tensor, layout in zip(op.outputs, found.outputs, strict=True):
        if layout != ONCE:
          self.layouts[tensor.name] = layout

  def layout(self, tensor: tf.Tensor) -> Layout:
    """Returns the layout of a tensor.

    Args:
      tensor: The tensor.
    """
    return self.layouts.get(tensor.name, ONCE)

  def _decide(self, op: tf.Operation) -> Parts | None:
    """Returns how an op is executed in parts; None if it is executed once."""
    if op not in self._able:
      return None
    rule = self._shapes.rule(op)
    if rule is None:
      return None
    layouts = [self.layout(tensor) for tensor in op.inputs]
    if rule.is_tuple:
      return Parts(tuple(layouts), tuple(layouts))
    return (
      self._pass_on(op, rule, layouts)
      or self._split(op, rule, layouts)
      or self._start(op, rule, layouts)
    )

  def _pass_on(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> Parts | None:
    """Returns an op of parts that add up, if it is linear in them."""
    partial = frozenset(
      i for i, layout in enumerate(layouts) if isinstance(layout, Partial)
    )
    if not partial or partial not in rule.linear:
      return None
    if any(layouts[i] != Partial(Reduction.SUM) for i in partial):
      return None
    others = (x for i, x in enumerate(layouts) if i not in partial)
    if any(layout != ONCE for layout in others):
      return None
    # What reads a sum whole needs it anyway.
    if any(len(op.inputs[i].consumers()) > 1 for i in partial):
      return None
    return Parts(tuple(layouts), (Partial(),) * len(op.outputs))

  def _split(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> Parts | None:
    """Returns an op in parts along the label that needs the fewest joins."""
    best: tuple[int, Parts] | None = None
    for label, partition in self._candidates(op, rule, layouts).items():
      found = self._along(op, rule, label, partition, layouts)
      if found is None:
        continue
      joins = sum(
        isinstance(layout, Shard) and read != layout
        for layout, read in zip(layouts, found.reads, strict=True)
      )
      if best is None or joins < best[0]:
        best = joins, found
    return None if best is None else best[1]

  def _start(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> Parts | None:
    """Returns an op that is executed in parts though it reads whole tensors.

    The parts of a `Fill`, say, are made in their own size. And products are
    worth it to split rows of examples that were made once, as after a sort.
    """
    for label, partition in self._beginnings(op, rule):
      found = None
      if may_be_split(label):
        found = self._along(op, rule, label, partition, layouts)
      if found is not None:
        return found
    return None

  def _beginnings(
    self, op: tf.Operation, rule: Rule
  ) -> Iterator[tuple[Label, Partition]]:
    """Yields labels along which an op may begin to be split."""
    for index, how in enumerate(rule.inputs):
      if isinstance(how, SizesOf):
        labels = rule.outputs[how.output] or ()
        shape = self._shapes.shape(op.outputs[how.output]) or ()
        sizes = dict(zip(labels, shape, strict=False))
        found = {label: self._starts(x) for label, x in sizes.items()}
      elif rule.labels(index) and op.type in _WORTH_SPLITTING:
        rows = rule.labels(index)[0]
        found = {rows: self._rows(op.inputs[index])}
      else:
        continue
      for label, partition in found.items():
        if label is not None and partition is not None:
          yield label, partition

  def _candidates(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> dict[Label, Partition]:
    """Returns labels along which inputs are split, and into what."""
    found: dict[Label, Partition] = {}
    for index, layout in enumerate(layouts):
      labels = rule.labels(index)
      if isinstance(layout, Shard) and layout.axis < len(labels):
        label = labels[layout.axis]
        if label is not None and may_be_split(label):
          found.setdefault(label, layout.partition)
    return found

  def _along(
    self,
    op: tf.Operation,
    rule: Rule,
    label: Label,
    partition: Partition,
    layouts: Sequence[Layout],
  ) -> Parts | None:
    """Returns an op in parts along a label; None if they do not make the op."""
    if rule.nonempty and partition.has_empty:
      return None
    given = rule.exchanged.get(label)
    if given is not None and not isinstance(layouts[given], Shard):
      return None
    outputs: list[Layout] = []
    for index in range(len(op.outputs)):
      made = self._made(op, rule, label, partition, index)
      if made is None:
        return None
      outputs.append(made)
    reads: list[Read] = []
    for index, how in enumerate(rule.inputs):
      read: Read | None = ONCE
      if isinstance(how, SizesOf):
        read = _sizes(how, outputs[how.output])
      elif label in rule.labels(index):
        axis = rule.labels(index).index(label)
        read = layouts[index]
        if not isinstance(read, Shard) or read.axis != axis:
          shape = self._shapes.shape_of_input(op.inputs[index])
          read = None
          if shape is not None:
            read = _shard(rule, label, partition, axis, shape[axis])
      if read is None:
        return None
      reads.append(read)
    return Parts(tuple(reads), tuple(outputs), label in rule.exchanged)

  def _made(
    self,
    op: tf.Operation,
    rule: Rule,
    label: Label,
    partition: Partition,
    index: int,
  ) -> Layout | None:
    """Returns the layout of an output; None if parts do not make it."""
    tensor, labels = op.outputs[index], rule.outputs[index]
    if labels is not None and label in labels:
      axis, shape = labels.index(label), self._shapes.shape(tensor)
      own = partition if shape is None else _own(rule, partition, shape[axis])
      return None if own is None else Shard(axis, own)
    is_read = tensor.consumers() or tensor.name in self._fetched
    if not is_read or label in rule.exchanged:
      return ONCE
    if labels is None or rule.reduction is None or is_repeated(label):
      return None
    if op in self._of_inputs:
      return None
    if op.type == "Mean" and not tensor.dtype.is_floating:
      return None
    return Partial(rule.reduction)


def is_without_state(op: tf.Operation) -> bool:
  """Whether an op may be executed in parts that know nothing of each other.

  Args:
    op: The op. One that reads a variable, or looks up in a table, may. One that
      draws random numbers may not, whether it has a state or a seed.
  """
  if op.type in op_types.RANDOM:
    return False
  return not op.op_def.is_stateful or op.type in _READS


_WORTH_SPLITTING = frozenset(
  [
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "Conv2D",
    "Conv3D",
    "DepthwiseConv2dNative",
    "Einsum",
    "MatMul",
    "ResourceGather",
  ]
)
_READS = frozenset(
  ["LookupTableFindV2", "ReadVariableOp", "ResourceGather", "ResourceGatherNd"]
)


def _own(rule: Rule, partition: Partition, size: Size) -> Partition | None:
  """Returns the partition of a dimension with the label of another one."""
  found = partition.of(size)
  if found is None and not rule.is_proportional:
    # It is the same size, by another name.
    both = isinstance(size, int) and isinstance(partition.whole, int)
    return None if both else partition
  return found


def _shard(
  rule: Rule, label: Label, partition: Partition, axis: int, size: Size
) -> Read | None:
  """Returns what parts read of a tensor that is not split along a label."""
  if is_repeated(label):
    if size == 1:
      return ONCE
    if not isinstance(size, int) and partition.of(size) is None:
      return Repeated(Shard(axis, partition))
  own = _own(rule, partition, size)
  return None if own is None else Shard(axis, own)


def _sizes(how: SizesOf, made: Layout) -> Read:
  """Returns what parts read of an input that has the sizes of an output."""
  entry = how.entry(made.axis) if isinstance(made, Shard) else None
  if entry is None or not isinstance(made, Shard):
    return ONCE
  return Sizes(entry, made.partition)
