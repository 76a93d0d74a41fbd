"""Propagation: the layouts of all tensors, op by op in the order of the graph.

An op is executed in parts if its rule guarantees that the parts together are
the op, along a dimension in which one of its inputs is split. An op without a
rule, or with inputs in other layouts, is executed once, on whole tensors: that
is always right.

Sums travel: parts of a gradient that add up go through ops that are linear in
them, so that they are added once, where something reads their sum.

In a loop, layouts go around: a loop variable comes back in the layout in which
it went in, or goes in again in another one. See `regions` for ops that are in
parts as a whole.
"""

import collections
import itertools
from collections.abc import (
  Callable,
  Collection,
  Hashable,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from types import MappingProxyType

from compat.private import op_registry
from estimator_mp.analysis import symbolic_shapes
from estimator_mp.analysis.symbolic_shapes import SymbolicShapes
from estimator_mp.graph import frames as frames_lib
from estimator_mp.graph import op_types, variables
from estimator_mp.propagate import regions
from estimator_mp.propagate.layouts import (
  MIRRORED,
  ONCE,
  Layout,
  Layouts,
  Partial,
  Partition,
  Parts,
  Read,
  Repeated,
  Shard,
  Sizes,
  is_whole,
)
from estimator_mp.rules import control_flow
from estimator_mp.rules.rule import (
  Label,
  Labels,
  Local,
  Reduction,
  Rule,
  SizesOf,
  is_repeated,
  may_be_split,
)
from estimator_mp.sizes import polynomials
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf


class Propagation(Layouts):
  """Layouts on one axis, as they follow from those of inputs or variables."""

  def __init__(
    self,
    shapes: SymbolicShapes,
    roots: Mapping[str, Shard],
    able: Collection[tf.Operation],
    starts: Callable[[Size], Partition | None] = lambda size: None,
    rows: Callable[[tf.Tensor], Partition | None] = lambda tensor: None,
    of_inputs: Collection[tf.Operation] = (),
    fetched: Collection[str] = (),
    frames: frames_lib.Frames | None = None,
    exchanged: Collection[Label] = ("n",),
    alone: Collection[Label] = (),
    draws: Callable[[Size], Partition | None] = lambda size: None,
  ):
    """Starts with the tensors that are split at first.

    Args:
      shapes: The sizes of tensors, and the rules of ops.
      roots: How inputs, or variables, are split, by the names of tensors.
      able: Ops that may be executed in parts.
      starts: Returns the partition of a new dimension of a size, if that says
        so by itself: a multiple of the examples does.
      rows: Returns the partition that the first dimension of a tensor that was
        made once may have: if it is of examples.
      of_inputs: Ops whose results are there whole anyway: they are not added up
        of parts.
      fetched: The names of tensors that a step fetches, though no op may read
        them.
      frames: The loops that ops are in.
      exchanged: Labels along which parts exchange results, as rules say.
      alone: Labels along which they do not, but are copies of the op: that is
        another model.
      draws: As `starts`, for random numbers: those of a dimension that has the
        size by chance are as good as any others.
    """
    super().__init__(roots, {})
    self._shapes = shapes
    self._able = able
    self._starts = starts
    self._rows = rows
    self._of_inputs = of_inputs
    self._fetched = fetched
    self._roots = dict(roots)
    self._frames = frames or frames_lib.Frames(())
    self._exchanged = frozenset(exchanged)
    self._alone = frozenset(alone)
    self._draws = draws
    self._regions: dict[tf.Operation, Hashable] = {}
    self._num_readers: collections.Counter[str] = collections.Counter()
    self._wanted_outputs: Mapping[tf.Operation, Shard] = {}
    # Regions that are executed once, and the first op that has to be.
    self._refused: dict[Hashable, tf.Operation] = {}
    # The layouts of loop variables: of those that enter, and that come back.
    self._wanted: dict[tf.Operation, Layout] = {}
    # How the elements are split of lists that are made of one tensor.
    self._elements: dict[tf.Operation, Shard] = {}

  def run(
    self,
    ops: Sequence[tf.Operation],
    wanted: Mapping[tf.Operation, Shard] = MappingProxyType({}),
  ) -> None:
    """Decides on ops.

    Args:
      ops: Each after those that it reads, and loops as a whole
        (`frames.in_order`).
      wanted: Ops that are to make parts though they read nothing in parts, and
        how their output is split.
    """
    self._wanted_outputs = wanted
    self.prepare(ops)
    known = None
    while known != (len(self._refused), len(self._elements)):
      known = len(self._refused), len(self._elements)
      self.layouts, self.parts = dict(self._roots), {}
      self._wanted = {}
      for loop, group in itertools.groupby(ops, self._frames.loop):
        if loop is None:
          self._visit(group)
        else:
          self._visit_loop(list(group))
      self._check_containers()
    self._leave_whole_regions()

  def prepare(self, ops: Sequence[tf.Operation]) -> None:
    """Reads which ops are in loops, and how many read a tensor.

    Args:
      ops: As for `run`, which does it, too.
    """
    self._num_readers.clear()
    self._regions = regions.find(ops, self._frames, self._shapes)
    # Summaries, say, read tensors, too, but no step runs them.
    self._num_readers.update(x.name for op in ops for x in op.inputs)

  def _visit(self, ops: Iterable[tf.Operation]) -> None:
    for op in ops:
      parts = self._decide(op)
      if parts is None:
        continue
      self.parts[op] = parts
      for tensor, layout in zip(op.outputs, parts.outputs, strict=True):
        if layout != ONCE:
          self.layouts[tensor.name] = layout

  def _visit_loop(self, ops: Sequence[tf.Operation]) -> None:
    """Decides on the ops of a loop until its rounds have the same layouts."""
    merges = [op for op in ops if frames_lib.is_begin_of_round(op)]
    self._visit(ops)
    while any([self._has_changed(op) for op in merges]):
      self._forget(ops)
      self._visit(ops)

  def _has_changed(self, op: tf.Operation) -> bool:
    """Whether a loop variable comes back in another layout than it entered.

    Args:
      op: The op that begins its rounds.
    """
    if self._regions[op] in self._refused:
      return False
    first, back = self.layout(op.outputs[0]), self.layout(op.inputs[1])
    if first == back or (is_whole(first) and is_whole(back)):
      return False
    if is_whole(first):
      self._wanted[op.inputs[0].op] = back
    elif is_whole(back):
      self._wanted[op.inputs[1].op] = first
    else:
      self._refused.setdefault(self._regions[op], op)
      return False
    return True

  def _forget(self, ops: Iterable[tf.Operation]) -> None:
    for op in ops:
      self.parts.pop(op, None)
      for tensor in op.outputs:
        self.layouts.pop(tensor.name, None)

  def _check_containers(self) -> None:
    """Refuses regions in which containers change their layouts.

    Only empty ones may. The tensor that a list is made of is cut before.
    """
    for op, region in self._regions.items():
      parts = self.parts.get(op)
      for tensor, read in zip(
        op.inputs, parts.reads if parts else (), strict=False
      ):
        if (
          self._shapes.is_container(tensor)
          and is_whole(self.layout(tensor))
          and isinstance(read, Shard | Partial)
          and tensor.op.type not in control_flow.EMPTY
        ):
          is_of_one = tensor.op.type == "TensorListFromTensor"
          if (
            is_of_one
            and isinstance(read, Shard)
            and self._elements.setdefault(tensor.op, read) == read
          ):
            continue
          self._refused.setdefault(region, op)

  def _leave_whole_regions(self) -> None:
    """Decides that regions are executed once that have nothing in parts."""
    split = {
      region
      for op, region in self._regions.items()
      if not all(is_whole(self.layout(tensor)) for tensor in op.outputs)
    }
    self._forget(
      [op for op, region in self._regions.items() if region not in split]
    )

  @property
  def refused(self) -> list[tf.Operation]:
    """For each region that is executed once the op that cannot be in parts."""
    return list(self._refused.values())

  def refuses(self, op: tf.Operation) -> tf.Operation | None:
    """Returns the op for which a region is executed once; None if it is not.

    Args:
      op: An op of the region.
    """
    return self._refused.get(self._regions.get(op))

  def is_in_region(self, op: tf.Operation) -> bool:
    """Whether an op is one of a loop, or of the containers of one.

    Args:
      op: The op.
    """
    return op in self._regions

  def _decide(self, op: tf.Operation) -> Parts | None:
    """Returns how an op is executed in parts; None if it is executed once."""
    region = self._regions.get(op)
    if region is None:
      return self.decide(op, [self.layout(tensor) for tensor in op.inputs])
    if region in self._refused:
      return None
    parts = self._inside(op)
    if parts is None or not self._is_possible(op, parts):
      self._refused.setdefault(region, op)
      return None
    return parts

  def decide(self, op: tf.Operation, layouts: Sequence[Layout]) -> Parts | None:
    """Returns how an op is executed in parts; None if it is executed once.

    Args:
      op: One of the ops that were run, or prepared. Alone, one of a loop is
        executed once.
      layouts: Those of its inputs.
    """
    if op not in self._able or op in self._regions:
      return None
    return self._by_rule(op, layouts)

  def _by_rule(
    self, op: tf.Operation, layouts: Sequence[Layout]
  ) -> Parts | None:
    """Returns how an op is executed in parts, if its rule lets it be."""
    if op.type in op_types.MERGES:
      return self._merge(op, layouts)
    rule = self._shapes.rule(op)
    if rule is None:
      return None
    if rule.is_tuple:
      return Parts(tuple(layouts), tuple(layouts))
    return (
      self._pass_on(op, rule, layouts)
      or self._split(op, rule, layouts)
      or self._start(op, rule, layouts)
      or self._want(op)
    )

  def _want(self, op: tf.Operation) -> Parts | None:
    """Returns how an op makes the output that its readers ask for."""
    output = self._wanted_outputs.get(op)
    return None if output is None else self.along_output(op, output)

  def along_input(
    self, op: tf.Operation, index: int, read: Shard
  ) -> Parts | None:
    """Returns how parts read an input that is split; None if they do not.

    Args:
      op: An op outside of loops.
      index: The number of the input.
      read: How it is to be split.
    """
    rule = self._shapes.rule(op)
    if rule is None or op in self._regions:
      return None
    return self._along_dimension(op, rule, rule.labels(index), read)

  def along_output(self, op: tf.Operation, output: Shard) -> Parts | None:
    """Returns how parts make an output that is split; None if they do not.

    Args:
      op: An op outside of loops.
      output: How its first output is to be split.
    """
    return None if op in self._regions else self._along_output(op, output)

  def _along_output(self, op: tf.Operation, output: Shard) -> Parts | None:
    rule = self._shapes.rule(op)
    if rule is None:
      return None
    return self._along_dimension(op, rule, rule.outputs[0] or (), output)

  def _along_dimension(
    self, op: tf.Operation, rule: Rule, labels: Labels, shard: Shard
  ) -> Parts | None:
    """Returns an op in parts along a dimension of one of its tensors."""
    if shard.dim >= len(labels):
      return None
    label = labels[shard.dim]
    if label is None or not may_be_split(label):
      return None
    layouts = [self.layout(tensor) for tensor in op.inputs]
    return self._along(op, rule, label, shard.partition, layouts)

  def _inside(self, op: tf.Operation) -> Parts | None:
    """Returns how an op of a region is executed; None if it cannot be."""
    layouts = tuple(self.layout(tensor) for tensor in op.inputs)
    mirrored = (MIRRORED,) * len(op.outputs)
    wanted = self._wanted.get(op)
    if wanted is not None:
      return Parts((wanted,), (wanted,))
    if op in self._elements:
      return self._along_output(op, self._elements[op])
    if op.type in op_types.ENTERS:
      (layout,) = layouts
      if isinstance(layout, Partial) and self._frames.input_frame(op) is None:
        layout = ONCE
      return Parts((layout,), mirrored if is_whole(layout) else (layout,))
    if frames_lib.is_begin_of_round(op):
      layout = layouts[0]
      output = MIRRORED if is_whole(layout) else layout
      return Parts((layout, layout), (output, MIRRORED))
    if op.type == "StackPopV2":
      pushed = self._shapes.pushed(op)
      layout = ONCE if pushed is None else self.layout(pushed)
      return Parts(layouts, mirrored if is_whole(layout) else (layout,))
    if op.type in symbolic_shapes.MEASURES and all(
      self._shapes.value(tensor) is not None for tensor in op.outputs
    ):
      return Parts(layouts, mirrored)
    if op not in self._able or _writes(op):
      return None
    parts = self._by_rule(op, layouts)
    if parts is not None:
      return parts
    if op.type in op_types.RANDOM:
      return None  # Parts would draw other numbers.
    if all(map(is_whole, layouts)):
      return Parts(layouts, mirrored)
    return Parts((ONCE,) * len(layouts), mirrored)

  def _is_possible(self, op: tf.Operation, parts: Parts) -> bool:
    """Whether parts of a region can read tensors in the layouts they need.

    In a loop, no part has those of others. A container never is whole again.
    """
    in_loop = self._frames.input_frame(op) is not None
    if in_loop and parts.exchanges:
      return False
    for tensor, read in zip(op.inputs, parts.reads, strict=True):
      layout = self.layout(tensor)
      is_same = read == layout or isinstance(read, Sizes)
      if is_whole(layout) and isinstance(read, Partial) and read != Partial():
        return False  # Nothing that others have would change nothing.
      if is_whole(layout) or is_same or frames_lib.is_begin_of_round(op):
        continue
      if in_loop or self._shapes.is_container(tensor):
        return False
    return True

  def _merge(self, op: tf.Operation, layouts: Sequence[Layout]) -> Parts | None:
    """Returns the end of branches, all of which make the same parts."""
    kinds = {layout for layout in layouts if not is_whole(layout)}
    if len(kinds) != 1:
      return None
    (layout,) = kinds
    some_are_whole = any(map(is_whole, layouts))
    if isinstance(layout, Partial) and some_are_whole and layout != Partial():
      return None
    return Parts((layout,) * len(layouts), (layout, MIRRORED))

  def _pass_on(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> Parts | None:
    """Returns an op of parts that add up, if it is linear in them."""
    partial = frozenset(
      i for i, layout in enumerate(layouts) if isinstance(layout, Partial)
    )
    output = next((layouts[i] for i in partial), ONCE)
    is_sum = output == Partial()
    if not (is_sum or output == Partial(Reduction.MEAN)):
      return None
    if any(layouts[i] != output for i in partial):
      return None
    is_free = op not in self._regions
    for group in rule.linear:
      # Several sums and whole terms are one sum, not several.
      is_all = partial == group or (
        is_sum and op.type == "AddN" and len(partial) > 1
      )
      if not partial <= group or not (is_all or (is_sum and not is_free)):
        continue
      # A reader of the whole sum needs it anyway.
      names = [op.inputs[i].name for i in partial]
      if is_free and any(self._num_readers[name] > 1 for name in names):
        continue
      if is_free and self._repeats(op, partial):
        continue
      if all(
        is_whole(layouts[i]) for i in range(len(layouts)) if i not in partial
      ):
        reads = (
          output if i in group else layout for i, layout in enumerate(layouts)
        )
        return Parts(tuple(reads), (output,) * len(op.outputs))
    return None

  def _repeats(self, op: tf.Operation, partial: Iterable[int]) -> bool:
    """Whether an op makes more than it reads of a sum: that is added before."""
    sizes = [self._num_elements(op.inputs[i]) for i in partial]
    size = self._num_elements(op.outputs[0])
    if size is None:
      return False
    times = [polynomials.quotient(size, x) if x else None for x in sizes]
    return None not in times and 1 not in times

  def _num_nominal(self, tensor: tf.Tensor) -> int:
    """Returns about how many elements a tensor has."""
    size = self._num_elements(tensor)
    if size is None:
      return 0
    return sum(
      count * _NOMINAL ** len(term)
      for term, count in polynomials.terms_of(size).items()
    )

  def _num_elements(self, tensor: tf.Tensor) -> Size | None:
    shape = self._shapes.shape(tensor)
    return None if shape is None else polynomials.product(shape)

  def _split(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> Parts | None:
    """Returns an op in parts along the label that needs the fewest joins.

    Of labels that need as many it is the one that joins the least.
    """
    best: tuple[tuple[int, int], Parts] | None = None
    for label, partition in self._candidates(op, rule, layouts).items():
      parts = self._along(op, rule, label, partition, layouts)
      if parts is None:
        continue
      joined = [
        self._num_nominal(tensor)
        for tensor, layout, read in zip(
          op.inputs, layouts, parts.reads, strict=True
        )
        if isinstance(layout, Shard) and read != layout
      ]
      joins = len(joined), sum(joined)
      if best is None or joins < best[0]:
        best = joins, parts
    return None if best is None else best[1]

  def _start(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> Parts | None:
    """Returns an op that is executed in parts though it reads whole tensors.

    The parts of a `Fill`, say, are made in their own size. And products are
    worth it to split rows of examples that were made once, as after a sort.
    """
    for label, partition in self._beginnings(op, rule):
      parts = None
      if may_be_split(label):
        parts = self._along(op, rule, label, partition, layouts)
      if parts is not None:
        return parts
    return None

  def _beginnings(
    self, op: tf.Operation, rule: Rule
  ) -> Iterator[tuple[Label, Partition]]:
    """Yields labels along which an op may begin to be split."""
    for index, read in enumerate(rule.inputs):
      if isinstance(read, SizesOf):
        labels = rule.outputs[read.output] or ()
        shape = self._shapes.shape(op.outputs[read.output]) or ()
        sizes = dict(zip(labels, shape, strict=False))
        begins = self._draws if op.type in op_types.RANDOM else self._starts
        partitions = {label: begins(x) for label, x in sizes.items()}
      elif rule.labels(index) and op.type in _WORTH_SPLITTING:
        rows = rule.labels(index)[0]
        partitions = {rows: self._rows(op.inputs[index])}
      else:
        continue
      for label, partition in partitions.items():
        if label is not None and partition is not None:
          yield label, partition

  def _candidates(
    self, op: tf.Operation, rule: Rule, layouts: Sequence[Layout]
  ) -> dict[Label, Partition]:
    """Returns labels along which inputs are split, with the partitions."""
    partitions: dict[Label, Partition] = {}
    for index, layout in enumerate(layouts):
      labels = rule.labels(index)
      if isinstance(layout, Shard) and layout.dim < len(labels):
        label = labels[layout.dim]
        if label is not None and may_be_split(label):
          partitions.setdefault(label, layout.partition)
    return partitions

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
    number = rule.exchanged.get(label)
    if number is not None and not (
      label in self._exchanged | self._alone
      and isinstance(layouts[number], Shard)
    ):
      return None
    outputs: list[Layout] = []
    for index in range(len(op.outputs)):
      output = self._output(op, rule, label, partition, index)
      if output is None:
        return None
      outputs.append(output)
    reads: list[Read] = []
    for index, operand in enumerate(rule.inputs):
      read: Read | None = ONCE
      if isinstance(operand, SizesOf):
        read = self._sizes(op.inputs[index], operand, outputs[operand.output])
      elif self._is_local(rule, label, index, layouts[index]):
        read = layouts[index]
      elif label in rule.labels(index):
        dim = rule.labels(index).index(label)
        read = layouts[index]
        shape = self._shapes.shape(op.inputs[index])
        if (
          not isinstance(read, Shard)
          or read.dim != dim
          or _is_uneven(read.partition, partition)
        ):
          read = None
          if self._shapes.is_container(op.inputs[index]) and shape is None:
            read = Shard(dim, partition)  # Nothing is in it.
          elif shape is None and op.type == "AssignVariableOp":
            read = Shard(dim, partition)  # Read of a checkpoint.
          elif shape is not None:
            read = _shard(rule, label, partition, dim, shape[dim])
      if read is None:
        return None
      reads.append(read)
    if partition.is_cyclic and any(
      isinstance(x, Shard) and x.dim for x in (*outputs, *reads)
    ):
      return None  # Rows go to parts by turns, and nothing else.
    counted = None
    if rule.places is not None and rule.places[1] == label:
      index, _, size = rule.places
      places = partition.of(size)
      if places is None or op in self._regions:
        return None
      counted = index, places
    owned = None
    if rule.owned is not None and rule.owned[1] == label:
      is_known = all(isinstance(x, int) for x in partition.parts)
      if op in self._regions or not is_known:
        return None
      owned = rule.owned[0], partition
    exchanges = label in rule.exchanged and label in self._exchanged
    return Parts(tuple(reads), tuple(outputs), exchanges, counted, owned)

  def _is_local(
    self, rule: Rule, label: Label, index: int, layout: Layout
  ) -> bool:
    """Whether parts read local tensors, as their moments are."""
    is_alone = label in rule.exchanged and label in self._alone
    is_local = is_alone or isinstance(rule.inputs[index], Local)
    return is_local and layout == Partial(Reduction.MEAN)

  def _sizes(self, tensor: tf.Tensor, sizes: SizesOf, output: Layout) -> Read:
    """Returns the read of an input that has the sizes of an output."""
    entry = sizes.entry(output.dim) if isinstance(output, Shard) else None
    value = self._shapes.value(tensor)
    if entry is None or not isinstance(output, Shard):
      return ONCE
    if value is None or entry >= value.size:
      return ONCE  # It says nothing of elements, or that they are lists.
    if not value.ndim and value[()] == -1:
      return ONCE
    return Sizes(entry, output.partition)

  def _output(
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
      dim, shape = labels.index(label), self._shapes.shape(tensor)
      size = partition.whole if shape is None else shape[dim]
      part = _scaled(rule, partition, size)
      return None if part is None else Shard(dim, part)
    if rule.is_alike:
      return MIRRORED
    is_read = tensor.consumers() or tensor.name in self._fetched
    if label in rule.exchanged and label in self._alone:
      return Partial(rule.reduction or Reduction.SUM)
    if not is_read or label in rule.exchanged:
      return ONCE
    if index in rule.local:
      return Partial(Reduction.MEAN)
    if labels is None or rule.reduction is None or is_repeated(label):
      return None
    if op in self._of_inputs:
      return None
    if op.type == "Mean" and not tensor.dtype.is_floating:
      return None
    if op.type in _SCATTERS and self._rows(tensor) is not None:
      return None  # Each part would have rows for all examples.
    return Partial(rule.reduction)


def is_without_state(op: tf.Operation) -> bool:
  """Whether an op may be executed in parts that know nothing of each other.

  Args:
    op: The op. One that reads a variable, or looks up in a table, may. One that
      draws random numbers may not, whether it has a state or a seed.
  """
  if op.type in op_types.RANDOM:
    return False
  if op.type in control_flow.KEEPERS:
    return True
  return not op_registry.definition_of(op).is_stateful or op.type in _READS


def _writes(op: tf.Operation) -> bool:
  """Whether an op writes a variable; a container's writes nobody else sees."""
  is_keeper = op.type in control_flow.KEEPERS
  return not is_keeper and bool(variables.written_states(op))


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
# The size of dimensions of which nothing is known, to compare tensors.
_NOMINAL = 32
_SCATTERS = frozenset(["ScatterNd", "UnsortedSegmentSum"])
_READS = frozenset(
  ["LookupTableFindV2", "ReadVariableOp", "ResourceGather", "ResourceGatherNd"]
)


def _scaled(rule: Rule, partition: Partition, size: Size) -> Partition | None:
  """Returns the partition of a dimension with the label of another one."""
  same = partition.of(size)
  if same is None and not rule.is_proportional:
    # It is the same size, by another name.
    both = isinstance(size, int) and isinstance(partition.whole, int)
    return None if both else partition
  return same


def _shard(
  rule: Rule, label: Label, partition: Partition, dim: int, size: Size
) -> Read | None:
  """Returns the read of a tensor that is not split along a label."""
  if is_repeated(label):
    if size == 1:
      return ONCE
    if not isinstance(size, int) and partition.of(size) is None:
      return Repeated(Shard(dim, partition))
  part = _scaled(rule, partition, size)
  return None if part is None else Shard(dim, part)


def _is_uneven(one: Partition, other: Partition) -> bool:
  """Whether parts of two dimensions are not those of the same entries."""
  if one.is_cyclic != other.is_cyclic:
    return True
  known = (*one.parts, *other.parts, one.whole, other.whole)
  if not all(isinstance(x, int) for x in known):
    return False
  return any(
    x * other.whole != y * one.whole
    for x, y in zip(one.parts, other.parts, strict=True)
  )
