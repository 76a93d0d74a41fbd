"""Which ops of evaluation and prediction work on parts of the batch, as data.

There are no gradients that could be added up, and what is evaluated has to be
the plain model's. So the graph is built as it is, for the whole batch, and an
op is done part by part only where that is the same: where the op of
concatenated examples is the concatenation of the op's results. That is what the
rules of the model axis say of parts of a layer (`model_axis.rules`); here they
are asked about parts of the batch, in a graph of a batch of an odd size (see
`pipeline.example_axes`). What has no such rule, as a mean over examples, a
metric, a softmax over the batch, or whatever has a state, is done once, and
reads what the parts make, joined.

    features -> cut -> [ops by parts] -> joined -> [ops once] -> cut -> ...
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from compat.private import graph_reads
from estimator_mp.capture.micro_batches import BatchInput
from estimator_mp.graph import control_flow, op_types, traversal
from estimator_mp.model_axis import axes
from estimator_mp.model_axis.decisions import (
  Operand,
  Output,
  PerPart,
  Resized,
  Split,
  Whole,
)
from estimator_mp.model_axis.rules.table import TABLE
from estimator_mp.pipeline import example_axes, slices
from estimator_mp.pipeline.example_axes import ODD_BATCH, Kind

import numpy as np
import tensorflow as tf

# Two parts of the odd batch, of different sizes.
_PARTS = (ODD_BATCH // 2, ODD_BATCH - ODD_BATCH // 2)


@dataclasses.dataclass(frozen=True)
class Cut:
  """Where a tensor is cut into parts of the batch.

  Attributes:
    axis: The axis of its examples.
    per_example: How long the axis is for each of them.
  """

  axis: int
  per_example: int


@dataclasses.dataclass(frozen=True)
class ForwardPlan:
  """What is done part by part.

  Attributes:
    rounds: The ops that are, in the order of the graph: those of the next round
      depend on what is done once, and reads what those of a round made.
    cuts: Where what they read is cut that is not made by parts, by name.
    joins: Where what they make is joined, by name.
  """

  rounds: tuple[tuple[tf.Operation, ...], ...]
  cuts: Mapping[str, Cut]
  joins: Mapping[str, Cut]

  @property
  def ops(self) -> list[tf.Operation]:
    """The ops of all rounds."""
    return [op for ops in self.rounds for op in ops]


class ForwardPlanner:
  """Decides for one graph, once it is built."""

  def __init__(
    self,
    inputs: Sequence[BatchInput],
    batch_size: int | None,
    per_example: Sequence[str],
  ):
    """Starts without an op.

    Args:
      inputs: The features and labels that have examples, whole.
      batch_size: The number of examples, if the graph knows it.
      per_example: Expressions for names of ops that the user says to be done
        for each example by itself.
    """
    roots = [
      x
      for entry in inputs
      for x in tf.nest.flatten(entry.whole, expand_composites=True)
    ]
    self._finder = slices.SliceFinder(roots)
    self._axes = example_axes.ExampleAxes(
      inputs, self._finder.differs, batch_size
    )
    self._per_example = [re.compile(x) for x in per_example]
    self._splits: dict[str, Split] = {}  # Of what is made by parts.
    self._cuts: dict[str, Split] = {}
    self._by_parts: set[tf.Operation] = set()

  def does_work(self, op: tf.Operation) -> bool:
    """Whether it is worth while to do an op part by part.

    Args:
      op: An op that can be.
    """
    return op.type.startswith(op_types.LARGE_WORK) or self._is_said(op)

  def plan(self, ops: Sequence[tf.Operation]) -> ForwardPlan:
    """Returns what is done part by part.

    Args:
      ops: The ops of the model, in the order of the graph.

    Raises:
      ValueError: If the shape of an op's output is not known that the user says
        to be done for each example.
    """
    self._finder.add(ops)
    in_order = traversal.in_order(
      [
        op
        for op in ops
        if self._finder.depends(op)
        or any(map(self._finder.differs, op.outputs))
      ]
    )
    for op in filter(self._is_said, in_order):
      for tensor in op.outputs:
        if tensor.shape.rank is None:
          raise ValueError(unknown_shape(tensor))
        self._axes.add_rows(tensor)
    for op in in_order:  # Of what a table says no shape is inferred.
      if op.type == "LookupTableFindV2" and op.outputs[0].shape.rank:
        layout = self._axes.of(op.inputs[1])
        if (layout.axis, layout.per_example) == (0, 1):
          self._axes.add_rows(op.outputs[0])
    inner = control_flow.ops_in_branches(in_order[0].graph.get_operations())
    able = [
      op
      for op in in_order
      if op.outputs and op not in inner and self._is_able(op)
    ]
    graph = self._axes.odd_graph(able)
    for op in able:
      decision = self._decision(op, graph)
      if decision is not None:
        self._accept(op, decision)
    return self._found(in_order)

  def _depends(self, op: tf.Operation) -> bool:
    """Whether an op depends on the batch."""
    differs = self._finder.differs
    return self._finder.depends(op) or any(map(differs, op.outputs))

  def _is_said(self, op: tf.Operation) -> bool:
    return any(x.search(op.name) for x in self._per_example)

  def _is_able(self, op: tf.Operation) -> bool:
    """Whether an op may be done part by part, whatever it computes."""
    waits = any(map(self._finder.depends, op.control_inputs))
    is_lookup = op.type in op_types.VARIABLE_READS | op_types.TABLE_LOOKUPS
    is_stateful = op.op_def.is_stateful and not is_lookup
    return (
      not waits
      and graph_reads.outermost_loop(op) is None
      and op.type not in op_types.SWITCHES | op_types.MERGES
      and not any(map(op_types.is_reference, op.inputs))
      and (self._is_said(op) or not (is_stateful or op_types.is_call(op)))
    )

  def _decision(self, op: tf.Operation, graph: tf.Graph) -> PerPart | None:
    """Returns what parts of an op read and make, if parts are the same."""
    if self._is_said(op):
      operands = [self._split_of(x) or Whole() for x in op.inputs]
      outputs = [Split(0, _PARTS) for _ in op.outputs]
      return PerPart(tuple(operands), tuple(outputs))
    try:
      odd = graph.get_operation_by_name(op.name)
    except KeyError:  # It cannot do with another size of the batch.
      return None
    splits = [self._split_of(x) for x in op.inputs]
    if not any(splits):
      return None
    rule = TABLE.rules.get(op.type)
    found = None if rule is None else rule(odd, splits)
    if not isinstance(found, PerPart):
      return None
    # A part of one example must not lose its dimension.
    names_sizes = op.type == "Squeeze" and op.get_attr("squeeze_dims")
    if any(found.attributes) and not names_sizes:
      return None
    return found if self._fits(op, odd, found) else None

  def _fits(
    self, op: tf.Operation, odd: tf.Operation, decision: PerPart
  ) -> bool:
    """Whether parts can read what they shall, and make parts of the batch."""
    return all(
      _is_of_batch(output) or not tensor.consumers()
      for output, tensor in zip(decision.outputs, op.outputs, strict=True)
    ) and all(
      self._may_read(*x)
      for x in zip(op.inputs, odd.inputs, decision.operands, strict=True)
    )

  def _may_read(
    self, tensor: tf.Tensor, odd: tf.Tensor, operand: Operand
  ) -> bool:
    """Whether each part can have what it is to read in place of a tensor."""
    if isinstance(operand, Split):
      return _is_of_batch(operand)
    if isinstance(operand, Whole):
      if self._split_of(tensor) is not None:
        return False
      # Shapes are there for each part; so they must not be of the batch.
      return (
        not self._finder.differs(tensor)
        or not self._is_made_of_shapes(tensor)
        or _is_small(odd)
      )
    if not isinstance(operand, Resized):
      return False
    value = axes.shape_value(odd)
    if value is None or sum(operand.sizes) % ODD_BATCH:
      return False
    others = [x for i, x in enumerate(value) if i != operand.index]
    is_small = all(x < ODD_BATCH // 2 for x in others)
    return is_small and value[operand.index] in (-1, sum(operand.sizes))

  def _split_of(self, tensor: tf.Tensor) -> Split | None:
    """Returns how a tensor is made by parts, or how it can be cut."""
    if tensor.name in self._splits:
      return self._splits[tensor.name]
    if not self._finder.differs(tensor):
      return None
    layout = self._axes.of(tensor)
    if layout.kind is not Kind.ROWS or not layout.per_example:
      return None
    return Split(layout.axis or 0, _PARTS).times(layout.per_example)

  def _accept(self, op: tf.Operation, decision: PerPart) -> None:
    """Lets an op be done by parts, and the shapes that it reads."""
    self._by_parts.add(op)
    for tensor, output in zip(op.outputs, decision.outputs, strict=True):
      if isinstance(output, Split):
        self._splits[tensor.name] = output
    for tensor, operand in zip(op.inputs, decision.operands, strict=True):
      if isinstance(operand, Split):
        self._cut(tensor, operand)
      elif self._finder.differs(tensor) and self._is_made_of_shapes(tensor):
        self._accept_shapes(tensor)

  def _is_made_of_shapes(self, tensor: tf.Tensor) -> bool:
    """Whether nothing but shapes and constants make a tensor."""
    return tensor.dtype.is_integer and all(
      not x.op.op_def.is_stateful and not self._axes.is_input(x)
      for x in traversal.tensors_before(
        [tensor], lambda x: x.op.type in op_types.SHAPE_ONLY
      )
    )

  def _accept_shapes(self, tensor: tf.Tensor) -> None:
    """Lets what makes a shape be there for each part."""

    def is_end(x: tf.Tensor) -> bool:
      return not self._finder.differs(x) or x.op.type in op_types.SHAPE_ONLY

    for x in traversal.tensors_before([tensor], is_end):
      if not self._finder.differs(x):
        continue
      self._by_parts.add(x.op)
      if x.op.type in op_types.SHAPE_ONLY:
        (measured,) = x.op.inputs
        split = self._split_of(measured)
        if split is not None:
          self._cut(measured, split)

  def _cut(self, tensor: tf.Tensor, split: Split) -> None:
    if tensor.name not in self._splits:
      self._cuts[tensor.name] = split

  def _found(self, ops: Sequence[tf.Operation]) -> ForwardPlan:
    """Returns the plan, round by round."""
    rounds: list[list[tf.Operation]] = []
    number: dict[tf.Operation, int] = {}
    for op in ops:
      before = [number[x] for x in traversal.sources(op) if x in number]
      number[op] = max(before, default=0)
      if op in self._by_parts:
        rounds += [[] for _ in range(number[op] + 1 - len(rounds))]
        rounds[number[op]].append(op)
      elif any(x in self._by_parts for x in traversal.sources(op)):
        number[op] = max(
          number[x] + (x in self._by_parts)
          for x in traversal.sources(op)
          if x in number
        )
    return ForwardPlan(
      tuple(map(tuple, rounds)),
      {name: _cut_of(split) for name, split in self._cuts.items()},
      {name: _cut_of(split) for name, split in self._splits.items()},
    )


def _is_of_batch(split: Operand | Output) -> bool:
  """Whether something is split as the batch is."""
  if not isinstance(split, Split):
    return False
  factor, rest = divmod(split.sizes[0], _PARTS[0])
  return not rest and split.sizes == Split(0, _PARTS).times(factor).sizes


def _cut_of(split: Split) -> Cut:
  return Cut(split.axis, split.sizes[0] // _PARTS[0])


def _is_small(odd: tf.Tensor) -> bool:
  """Whether no number of a tensor is the size of the batch."""
  value = axes.shape_value(odd)
  return value is not None and bool(np.all(value < ODD_BATCH // 2))


def unknown_shape(tensor: tf.Tensor) -> str:
  """Returns the text of an error about an op of `per_example`.

  Args:
    tensor: What it makes.
  """
  return (
    f"per_example names {tensor.op.name}, but {tensor.name} has an unknown "
    "number of dimensions; set its shape, such as x.set_shape([None, 8])"
  )
