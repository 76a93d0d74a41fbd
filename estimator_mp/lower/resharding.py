"""Resharding: tensors of the graph in the layouts in which they are read.

    slice     the parts of a tensor that is computed once
    concat    the whole of one that is split
    reduce    the whole of parts that add up

Each is made once, on demand. A reader that wants the layout that a tensor has
reads the parts themselves.
"""

from collections.abc import Callable, Sequence

from estimator_mp.analysis.symbolic_shapes import MEASURES
from estimator_mp.graph import op_types
from estimator_mp.graph.definitions import op_name
from estimator_mp.lower.axis import Axis
from estimator_mp.lower.size_tensors import SizeTensors
from estimator_mp.lower.source import Source
from estimator_mp.pipeline import batched_gradients
from estimator_mp.pipeline.batched_gradients import BatchedGradient
from estimator_mp.propagate.layouts import (
  MIRRORED,
  ONCE,
  Partial,
  Read,
  Repeated,
  Shard,
  Sizes,
  is_whole,
)
from estimator_mp.rules import control_flow as rules_of_control_flow
from estimator_mp.rules.rule import Reduction

import numpy as np
import tensorflow as tf

_REDUCTIONS = {
  Reduction.ALL: "LogicalAnd",
  Reduction.ANY: "LogicalOr",
  Reduction.MAX: "Maximum",
  Reduction.MEAN: "AddV2",  # Of weighted terms.
  Reduction.MIN: "Minimum",
  Reduction.PRODUCT: "Mul",
  Reduction.SUM: "AddV2",
}


class Resharding:
  """The stand-ins for tensors of a graph, in parts and whole.

  Attributes:
    copies: For an op in parts, its copy in each part.
    outputs: The outputs of these.
    accumulated: From the op that makes a sum of parts to the ops that add the
      part of a slice to those before: the numbers of slices, and names.
  """

  def __init__(
    self,
    source: Source,
    axis: Axis,
    waits_of: Callable[[tf.Operation, int], Sequence[str]],
  ):
    """Starts with nothing in parts.

    Args:
      source: The graph.
      axis: The parts.
      waits_of: Returns the control inputs of an op's copy in a part.
    """
    self.copies: dict[tf.Operation, list[str]] = {}
    self.outputs: dict[tf.Operation, list[list[str]]] = {}
    self.accumulated: dict[tf.Operation, list[tuple[int, str]]] = {}
    self.sizes = SizeTensors(source, axis, self._holder)
    self._source = source
    self._axis = axis
    self._layouts = source.layouts
    self._shapes = source.shapes
    self._order_of = source.order_of or (lambda _: range(len(axis.replicas[0])))
    self._waits_of = waits_of
    self._tensors: dict[tuple[object, ...], str] = {}
    self._pieces: dict[tuple[object, ...], list[str]] = {}

  def read(self, tensor: tf.Tensor) -> str:
    """Returns the stand-in for a tensor that an op that is executed once reads.

    Args:
      tensor: A tensor of the plain graph.
    """
    if self.measures(tensor):
      value = self._shapes.value(tensor)
      if value is not None:
        return self.sizes.vector(value, tensor.dtype)
    return self.whole(tensor)

  def read_as(self, tensor: tf.Tensor, read: Read, number: int) -> str:
    """Returns the stand-in for a tensor that a part reads.

    Args:
      tensor: A tensor of the plain graph.
      read: How it is read.
      number: The number of the part.
    """
    layout = self._layouts.layout(tensor)
    if layout == read and not is_whole(layout) and self.is_in_parts(tensor):
      return self.part(tensor, number)
    if isinstance(read, Shard | Partial) and self._is_empty(tensor):
      return self._new_container(tensor, read, number)
    if isinstance(read, Shard):
      return self._slice(tensor, read, number)
    if isinstance(read, Partial):
      return self._term(tensor, number)
    if isinstance(read, Sizes):
      value = self._shapes.value(tensor)
      assert value is not None
      sizes = np.array(value)
      sizes.flat[read.entry] = read.partition.size_of(number)
      return self.sizes.vector(sizes, tensor.dtype, number)
    if isinstance(read, Repeated):
      return self._repeat(tensor, read.shard, number)
    if layout == MIRRORED and not self.measures(tensor):
      return self.part(tensor, number)
    mirror = self._source.mirror_of(tensor, self._axis.replica_of[number])
    return self.read(tensor) if mirror is tensor else str(mirror.name)

  def part(self, tensor: tf.Tensor, number: int) -> str:
    """Returns a part of a tensor that is in parts."""
    index: int = tensor.value_index
    return self.outputs[tensor.op][number][index]

  def is_replaced(self, tensor: tf.Tensor) -> bool:
    """Whether a step has something else in place of a tensor."""
    return self.is_in_parts(tensor) and tensor.op not in self._source.of_inputs

  def is_in_parts(self, tensor: tf.Tensor) -> bool:
    """Whether parts of a tensor are there."""
    return tensor.op in self.copies

  def whole(self, tensor: tf.Tensor) -> str:
    """Returns all of a tensor."""
    if not self.is_replaced(tensor):
      return str(tensor.name)
    key = "whole", tensor.name
    if key not in self._tensors:
      parts = [self.part(tensor, i) for i in self._axis.numbers]
      with self._axis.on(tensor.op, 0):
        self._tensors[key] = self._join(tensor, parts)
    return self._tensors[key]

  def _join(self, tensor: tf.Tensor, parts: Sequence[str]) -> str:
    """Returns a tensor of its parts."""
    layout = self._layouts.layout(tensor)
    if is_whole(layout) or op_types.is_resource(tensor):
      return parts[0]  # A handle of which nobody needs more than the sizes.
    if isinstance(layout, Shard):
      return self._concat(tensor, layout, parts)
    joined, *others = self.of_replicas(tensor)
    if layout == Partial() and len(others) > 1:
      return self._add(tensor, [joined, *others], "reduce")
    for other in others:
      joined = self._reduce(tensor, joined, other)
    return joined

  def of_replicas(self, tensor: tf.Tensor) -> list[str]:
    """Returns a tensor's parts, joined in each replica."""
    layout = self._layouts.layout(tensor)
    joined = []
    for replica, span in enumerate(self._axis.replicas):
      key = "of replica", tensor.name, replica
      if key not in self._tensors:
        if isinstance(layout, Shard):
          with self._axis.on(tensor.op, span[0]):
            parts = [self.part(tensor, number) for number in span]
            self._tensors[key] = self._concat(tensor, layout, parts)
        else:
          self._tensors[key] = self._sum_of(tensor, span)
      joined.append(self._tensors[key])
    return joined

  def _sum_of(self, tensor: tf.Tensor, span: Sequence[int]) -> str:
    """Returns the sum of a replica's parts.

    The terms of a weight that several stages use are added up on each, so that
    it sends one sum.
    """
    by_device = self._terms_by_device(tensor, span[0])
    if tensor.name in self._source.batched:
      return self._sum_batched(self._source.batched[tensor.name], span)
    if len(by_device) < 2:
      with self._axis.on(tensor.op, span[0]):
        parts = [self.part(tensor, number) for number in span]
        return self._accumulate(tensor, span, parts)
    sums = []
    for terms in by_device:
      parts = []
      for number in span:
        with self._axis.on(terms[0].op, number):
          read = [self.part(x, number) for x in terms]
          parts.append(self._add(tensor, read, self._axis.name_of(number)))
      with self._axis.on(terms[0].op, span[0]):
        sums.append(self._accumulate(terms[0], span, parts))
    with self._axis.on(tensor.op, span[0]):
      return self._add(tensor, sums, "sum")

  def _sum_batched(self, gradient: BatchedGradient, span: Sequence[int]) -> str:
    """Returns the sum of a gradient that several slices make at once."""
    op, joined = self._source.graph.get_operation_by_name(gradient.op), ""
    reads = self._layouts.parts[op].reads
    for group in batched_gradients.groups(self._order_of(op), gradient.group):
      numbers = [span[place] for place in group]
      with self._axis.on(op, span[0]):
        operands = []
        for x, read in zip(op.inputs, reads, strict=True):
          assert isinstance(read, Shard)
          parts = [self.read_as(x, read, number) for number in numbers]
          operands.append(self._concat(x, read, parts))
        product = self._axis.definitions.copy(
          op, f"products/{op.name}", operands, ()
        )
        ends = [product]
        if joined:
          product = self._reduce(op.outputs[0], joined, product)
          ends.append(product)
      joined = product
      added = self.accumulated.setdefault(op, [])
      added += [(numbers[-1], op_name(x)) for x in ends]
    return joined

  def _terms_by_device(
    self, tensor: tf.Tensor, number: int
  ) -> list[list[tf.Tensor]]:
    """Returns the terms of which slices add up a tensor, by their devices."""
    op = tensor.op
    parts = self._layouts.parts[op]
    if op.type != "AddN" or not all(
      read == Partial() == self._layouts.layout(x) and self.is_in_parts(x)
      for x, read in zip(op.inputs, parts.reads, strict=True)
    ):
      return []
    terms: dict[str, list[tf.Tensor]] = {}
    for x in op.inputs:
      device = self._axis.device_of(x.op, self._axis.replica_of[number])
      terms.setdefault(device, []).append(x)
    return [*terms.values()]

  def _add(self, tensor: tf.Tensor, terms: Sequence[str], scope: str) -> str:
    """Returns the sum of some of the terms that make a tensor."""
    if len(terms) == 1:
      return terms[0]
    name = f"{scope}/{tensor.op.name}"
    return self._axis.definitions.add(
      "AddN", name, terms, N=len(terms), T=tensor.dtype
    )

  def _concat(
    self, tensor: tf.Tensor, layout: Shard, parts: Sequence[str]
  ) -> str:
    if len(parts) == 1:
      return parts[0]
    if layout.partition.is_cyclic:
      return self._concat_cyclic(tensor, layout, parts)
    return self._axis.definitions.add(
      "ConcatV2",
      f"concat/{tensor.op.name}",
      [*parts, self.sizes.constant(layout.dim, tf.int32)],
      N=len(parts),
      T=tensor.dtype,
      Tidx=tf.int32,
    )

  def _concat_cyclic(
    self, tensor: tf.Tensor, layout: Shard, parts: Sequence[str]
  ) -> str:
    """Returns a tensor of which parts have rows by turns."""
    count, size = len(parts), layout.partition.whole
    assert isinstance(size, int)
    turns = [
      self.sizes.constant(tuple(range(part, size, count)), tf.int32)
      for part in range(count)
    ]
    return self._axis.definitions.add(
      "DynamicStitch",
      f"concat/{tensor.op.name}",
      [*turns, *parts],
      N=count,
      T=tensor.dtype,
    )

  def _accumulate(
    self, tensor: tf.Tensor, numbers: Sequence[int], parts: Sequence[str]
  ) -> str:
    """Returns the sum of a replica's parts.

    They are added one after the other: each term is freed before the last one
    is there.
    """
    layout = self._layouts.layout(tensor)
    if layout == Partial(Reduction.MEAN):
      parts = [
        self._weighted(tensor, part, number)
        for part, number in zip(parts, numbers, strict=True)
      ]
    first, *others = self._order_of(tensor.op)
    joined = parts[first]
    for place in others:
      joined = self._reduce(tensor, joined, parts[place])
      added = numbers[place], op_name(joined)
      self.accumulated.setdefault(tensor.op, []).append(added)
    return joined

  def _weighted(self, tensor: tf.Tensor, part: str, number: int) -> str:
    """Returns a slice's part times the share of examples that it has."""
    dtype, name = (
      tensor.dtype,
      f"{self._axis.name_of(number)}/{tensor.op.name}/weighted",
    )
    size = self.sizes.scalar(self.sizes.examples_of(number), dtype)
    of_all = self.sizes.number_of(self._shapes.num_examples, dtype)
    share = self._axis.definitions.add("RealDiv", name, [size, of_all], T=dtype)
    return self._axis.definitions.add("Mul", name, [part, share], T=dtype)

  def _reduce(self, tensor: tf.Tensor, x: str, y: str) -> str:
    """Returns two of a tensor's parts of the whole shape as one."""
    layout, dtype = self._layouts.layout(tensor), tensor.dtype
    assert isinstance(layout, Partial)
    fields = {} if dtype == tf.bool else {"T": dtype}
    op_type = _REDUCTIONS[layout.reduction]
    return self._axis.definitions.add(
      op_type, f"reduce/{tensor.op.name}", [x, y], **fields
    )

  def measures(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor has sizes of a tensor in parts."""
    op = tensor.op
    if op.type not in MEASURES or not self._layouts.parts:
      return False
    if op in self._layouts.parts:
      return True  # Those of a loop measure parts.
    if op in self._source.of_inputs:  # By its sizes, whatever it measures.
      return not all(x.op in self._source.of_inputs for x in op.inputs)
    return any(map(self.is_replaced, op.inputs))

  def _is_empty(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is a container with nothing in it."""
    is_new = tensor.op.type in rules_of_control_flow.EMPTY
    return is_new and self._shapes.is_container(tensor)

  def _new_container(
    self, tensor: tf.Tensor, elements: Shard | Partial, number: int
  ) -> str:
    """Returns an empty container for elements that are parts."""
    op, index = tensor.op, tensor.value_index
    if self._layouts.layout(tensor) == MIRRORED and index:
      return self.part(tensor, number)
    key = "empty", tensor.name, elements, number
    if key not in self._tensors:
      inputs = [self.read_as(x, ONCE, number) for x in op.inputs]
      value = self._shapes.value(op.inputs[0]) if inputs else None
      of_element = 0 if value is None or not value.ndim else len(value)
      if isinstance(elements, Shard) and elements.dim < of_element:
        read = Sizes(elements.dim, elements.partition)
        inputs[0] = self.read_as(op.inputs[0], read, number)
      with self._axis.on(op, number):
        self._tensors[key] = self._axis.definitions.copy(
          op,
          f"{self._axis.name_of(number)}/{op.name}",
          inputs,
          self._waits_of(op, number),
        )
    return self._tensors[key]

  def _term(self, tensor: tf.Tensor, number: int) -> str:
    """Returns a slice's term of a sum: that of the first is all of it."""
    whole = self._whole_for(tensor, number)
    if not number:
      return whole
    name = f"{self._axis.name_of(number)}/{tensor.op.name}/nothing"
    return self._axis.definitions.add(
      "ZerosLike", name, [whole], T=tensor.dtype
    )

  def _holder(self, tensor: tf.Tensor, dim: int | None, number: int) -> str:
    """Returns where a part measures a dimension, or reads a value if None."""
    layout = self._layouts.layout(tensor)
    name = self._whole_for(tensor, number)
    is_split = isinstance(layout, Shard) and layout.dim == dim
    if dim is None or name == tensor.name or is_split:
      return name
    return self.part(tensor, number)

  def _whole_for(self, tensor: tf.Tensor, number: int) -> str:
    """Returns a whole tensor as it is there for a slice."""
    if self._layouts.layout(tensor) == MIRRORED:
      return self.part(tensor, number)
    return self.whole(tensor)

  def _slice(self, tensor: tf.Tensor, shard: Shard, number: int) -> str:
    """Returns a slice's part of a tensor that is whole."""
    if tensor.name in self._source.examples.pieces:
      return self._slice_of_piece(tensor, shard, number)
    whole = self._whole_for(tensor, number)
    key = "slice", whole, shard
    if key not in self._pieces:
      with self._axis.on(self._cut_with(tensor, shard), 0):
        name = f"slice/{tensor.op.name}"
        self._pieces[key] = self._split(whole, tensor, shard, name)
    return self._pieces[key][number]

  def _slice_of_piece(
    self, tensor: tf.Tensor, shard: Shard, number: int
  ) -> str:
    """Returns a slice's part of the batch that its replica has read itself."""
    replica = self._axis.replica_of[number]
    span = self._axis.replicas[replica]
    piece = self._source.examples.pieces[tensor.name][replica]
    key = "slice", piece.name, shard
    if key not in self._pieces:
      with self._axis.definitions.on(piece.device):
        name = f"slice/{tensor.op.name}"
        self._pieces[key] = self._split(piece.name, tensor, shard, name, span)
    return self._pieces[key][number - span[0]]

  def _cut_with(self, tensor: tf.Tensor, shard: Shard) -> tf.Operation:
    """Returns the op beside which a tensor is cut, so that it is sent once.

    That is a reader if all slices read it on one device, or else its producer.
    """
    readers = {
      self._axis.device_of(op, 0): op
      for op in tensor.consumers()
      for x, read in zip(
        op.inputs,
        getattr(self._layouts.parts.get(op), "reads", ()),
        strict=False,
      )
      if x.name == tensor.name and read == shard
    }
    if len(readers) == 1 and len(self._axis.replicas) == 1:
      return next(iter(readers.values()))
    return tensor.op

  def _repeat(self, tensor: tf.Tensor, shard: Shard, number: int) -> str:
    """Returns a slice's part of a tensor after it has been repeated."""
    before = self._whole_for(tensor, number)
    key = "repeat", before, shard
    if key not in self._pieces:
      name = f"repeat/{tensor.op.name}"
      shape = self._shapes.shape(tensor)
      assert shape is not None
      sizes = list(shape)
      sizes[shard.dim] = shard.partition.whole
      vector = self.sizes.vector(np.array(sizes, object), tf.int32)
      with self._axis.on(tensor.op, 0):
        whole = self._axis.definitions.add(
          "BroadcastTo",
          name,
          [before, vector],
          T=tensor.dtype,
          Tidx=tf.int32,
        )
        self._pieces[key] = self._split(whole, tensor, shard, name)
    return self._pieces[key][number]

  def _split(
    self,
    whole: str,
    tensor: tf.Tensor,
    shard: Shard,
    name: str,
    numbers: Sequence[int] | None = None,
  ) -> list[str]:
    """Returns the parts of slices: by default those of all."""
    numbers = self._axis.numbers if numbers is None else numbers
    count = len(numbers)
    if shard.partition.is_cyclic:
      return [
        self._slice_cyclic(whole, tensor, part, count, name) for part in numbers
      ]
    sizes = [
      self.sizes.size(shard.partition.size_of(number), number)
      for number in numbers
    ]
    dim = self.sizes.constant(shard.dim, tf.int32)
    fields = {"num_split": count, "T": tensor.dtype}
    waits = self._checks_of(tensor)
    if all(isinstance(x, int) and x == sizes[0] for x in sizes):
      split = self._axis.definitions.add(
        "Split", name, [dim, whole], waits, **fields
      )
    else:
      vector = self.sizes.pack(sizes, tf.int32)
      split = self._axis.definitions.add(
        "SplitV", name, [whole, vector, dim], waits, Tlen=tf.int32, **fields
      )
    stem = split.rpartition(":")[0]
    return [f"{stem}:{place}" for place in range(count)]

  def _slice_cyclic(
    self, whole: str, tensor: tf.Tensor, part: int, count: int, name: str
  ) -> str:
    """Returns the rows that a part has by turns."""
    begin, end, step = (
      self.sizes.constant((x,), tf.int32) for x in (part, 0, count)
    )
    return self._axis.definitions.add(
      "StridedSlice",
      name,
      [whole, begin, end, step],
      T=tensor.dtype,
      Index=tf.int32,
      end_mask=1,
    )

  def _checks_of(self, tensor: tf.Tensor) -> list[str]:
    """Returns the check of an input's size, if the graph has a static one."""
    is_known = isinstance(self._shapes.num_examples, int)
    if self._source.examples.count is None or not is_known:
      return []
    is_inside = self._source.frames.output_frame(tensor.op) is not None
    is_input = tensor.op in self._source.of_inputs and not is_inside
    return [self._source.examples.count.op.name] if is_input else []
