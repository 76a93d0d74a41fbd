"""Instantiation: the ops that make a plan of slices, as definitions.

What is executed in parts is copied for each slice of the batch; between that
and what is executed once are reshards:

    slice     parts of what is computed once
    concat    the whole of what is split
    reduce    the whole of parts that add up

In a loop each slice goes around by itself: its copies of the loop's ops are in
a frame of their own, which sizes enter as constants.

Parts are made on demand, from what a step fetches, so what no step reaches is
not made. The plain ops stay: one that is executed in parts is not run any more,
unless somebody fetches it by its name.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, TypeAlias

from compat.private import graph_edits
from estimator_mp.analysis.symbolic_shapes import (
  EXAMPLES,
  MEASURES,
  SymbolicShapes,
)
from estimator_mp.graph import control_flow, draws, op_types, traversal
from estimator_mp.graph import frames as frames_lib
from estimator_mp.graph.definitions import Definitions
from estimator_mp.graph.frames import Frame, Frames
from estimator_mp.lower import exchanges, owned_rows
from estimator_mp.pipeline import weight_products
from estimator_mp.pipeline.weight_products import WeightProduct
from estimator_mp.plan import late_waits
from estimator_mp.plan.late_waits import LateWaits
from estimator_mp.propagate.layouts import (
  MIRRORED,
  ONCE,
  Partial,
  Partition,
  Read,
  Repeated,
  Shard,
  Sizes,
  is_whole,
)
from estimator_mp.propagate.propagation import Propagation
from estimator_mp.rules import control_flow as rules_of_control_flow
from estimator_mp.rules.rule import Reduction
from estimator_mp.sizes import polynomials, values
from estimator_mp.sizes.polynomials import Polynomial, Size

import numpy as np
import tensorflow as tf

Fetch: TypeAlias = tf.Tensor | tf.Operation

# The symbol for the number of examples of a slice.
SLICE = "m"

_REDUCTIONS = {
  Reduction.ALL: "LogicalAnd",
  Reduction.ANY: "LogicalOr",
  Reduction.MAX: "Maximum",
  Reduction.MEAN: "AddV2",  # Of what is weighted.
  Reduction.MIN: "Minimum",
  Reduction.PRODUCT: "Mul",
  Reduction.SUM: "AddV2",
}


# Attributes by which ops have a loop, or a state, of their own.
_NAMES_OF_STATES = frozenset(["frame_name", "stack_name", "tensor_array_name"])

_OTHER_ROWS = (
  "{} gathers rows of other examples than its own, which slices of the batch "
  "do not have; leave num_micro_batches and the data axis out"
)


@dataclasses.dataclass(frozen=True)
class ReadApart:
  """The batches of replicas that read their own.

  Attributes:
    pieces: By the name of an input, what it is the concatenation of.
    sizes: The numbers of examples of each.
  """

  pieces: Mapping[str, Sequence[tf.Tensor]] = dataclasses.field(
    default_factory=lambda: MappingProxyType({})
  )
  sizes: Sequence[int | tf.Tensor] = ()


_ONE_BATCH = ReadApart()


class Instantiation:
  """The ops of slices, and what the rest of the graph reads in their place.

  Attributes:
    definitions: The ops.
    rewired: From an op of the graph, and the number of an input, to the name
      of the tensor that it is to read.
    waits: From an op of the graph to the names of the ops that it is to wait
      for, where these are others.
    accumulated: From the op that makes a sum of parts to the ops that add the
      part of a slice to those before: the numbers of slices, and names.
    of_replicas: What is to be aggregated, of each replica, by the name of the
      plain tensor; after `apply`.
  """

  def __init__(
    self,
    graph: tf.Graph,
    shapes: SymbolicShapes,
    batch: Propagation,
    of_inputs: Iterable[tf.Operation],
    slices: Sequence[Sequence[int]],
    examples: tuple[tf.Tensor, int] | None,
    device_of: Callable[[tf.Operation, int], str],
    frames: Frames,
    num_examples: tf.Tensor | None = None,
    mirror_of: Callable[[tf.Tensor, int], tf.Tensor] = lambda x, replica: x,
    is_aggregated: Callable[[tf.Operation, tf.Tensor], bool] = lambda op, x: (
      False
    ),
    order_of: Callable[[tf.Operation], Sequence[int]] | None = None,
    late: LateWaits = late_waits.AS_THEY_ARE,
    products: Mapping[str, WeightProduct] = MappingProxyType({}),
    in_place: Mapping[tuple[tf.Operation, int], tf.Operation] = (
      MappingProxyType({})
    ),
    read_apart: ReadApart = _ONE_BATCH,
    scope: str = "slice",
  ):
    """Starts with nothing.

    Args:
      graph: The finished graph of model_fn.
      shapes: The sizes of its tensors.
      batch: Their layouts over slices of the batch.
      of_inputs: Ops that depend on inputs alone: whoever needs what they make
        whole reads the plain op.
      slices: For each replica the numbers of its slices, in order from 0.
      examples: An input, and its dimension of examples; None if no input has
        any.
      device_of: Returns the device of what stands for an op on a replica, "" if
        it has none. Reshards are where the first replica has the op.
      frames: The loops that ops are in.
      num_examples: How many examples there are, a scalar of int32; by default
        it is measured of `examples`.
      mirror_of: Returns what a replica has in place of what is computed once.
      is_aggregated: Returns whether an op is to read what others aggregate of
        a tensor, which then is joined in each replica only.
      order_of: Returns the order in which a replica's slices, counted from 0,
        make what an op makes, and in which it is added up; by default that of
        their numbers.
      late: What ops wait for.
      products: By the names of sums of slices, the products of which several
        slices make one.
      in_place: For an op and the number of a slice another op, whose copy the
        slice has in its place.
      read_apart: The batches of replicas, if each reads its own.
      scope: What one of them is called, in names.
    """
    self._scope = scope
    self._graph = graph
    self.definitions = Definitions(graph)
    self.rewired: dict[tuple[tf.Operation, int], str] = {}
    self.waits: dict[tf.Operation, list[str]] = {}
    self.accumulated: dict[tf.Operation, list[tuple[int, str]]] = {}
    self._reads_aggregated: list[tuple[tf.Operation, int]] = []
    self.of_replicas: dict[str, list[tf.Tensor]] = {}
    self._shapes = shapes
    self._batch = batch
    self._of_inputs = frozenset(of_inputs)
    self._replicas = slices
    self._slices = [number for own in slices for number in own]
    self._replica_of = {
      number: replica for replica, own in enumerate(slices) for number in own
    }
    self._examples = examples
    self._num_examples = num_examples
    self._device_of = device_of
    self._frames = frames
    self._late = late
    self._products = products
    self._in_place = in_place
    self._read_apart = read_apart
    self._mirror_of = mirror_of
    self._is_aggregated = is_aggregated
    self._order_of = order_of or (lambda op: range(len(slices[0])))
    self._in_branches = control_flow.ops_in_branches(graph.get_operations())
    # The loop in which ops are being added, and of which slice.
    self._here: tuple[Frame, int] | None = None
    # Of an op in parts, for each slice: an op of it, and its outputs.
    self._copies: dict[tf.Operation, list[str]] = {}
    self._outputs: dict[tf.Operation, list[list[str]]] = {}
    self._tensors: dict[tuple[object, ...], str] = {}
    self._pieces: dict[tuple[object, ...], list[str]] = {}
    self._made: dict[str, tf.Operation] = {}
    self._added: set[tf.Operation] = set()

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Makes what stands for ops.

    Args:
      ops: Those that a step runs, each after those that it reads.
    """
    begins: list[tf.Operation] = []
    for op in ops:
      self._added.add(op)
      if op in self._batch.parts:
        self._make(op)
        if frames_lib.is_begin_of_round(op):
          begins.append(op)
      if op not in self._batch.parts or op in self._of_inputs:
        self._rewire(op)
    for op in begins:
      for number, (first, *_) in enumerate(self._outputs[op]):
        back = self._part(op.inputs[1], number)
        self.definitions.loop_back(first, 1, back)

  def stand_for(self, op: tf.Operation, names: Sequence[str]) -> None:
    """Says what parts have in place of an op of the graph.

    Args:
      op: The op, with one output.
      names: An op for each part.
    """
    self._copies[op] = [*names]
    self._outputs[op] = [[f"{name}:0"] for name in names]

  def redirect(
    self, ops: Iterable[tf.Operation], starts: Iterable[tf.Operation] = ()
  ) -> None:
    """Lets other ops read what slices have made.

    Args:
      ops: Ops of the graph; those that were added are left out, and so are
        those that read lists, which no more than parts of a step have.
      starts: Ops that others wait for though no step runs them.
    """
    awaited = frozenset(starts).intersection(self._copies)
    for op in ops:
      if op in self._added or any(map(self._shapes.is_container, op.inputs)):
        continue
      if any(map(self._is_replaced, op.inputs)) or not awaited.isdisjoint(
        op.control_inputs
      ):
        self._rewire(op)

  def keep_state(self, ops: Iterable[tf.Operation]) -> None:
    """Lets plain ops that no step runs see the state that slices have seen.

    Somebody may fetch what is made of these. They would look up rows that have
    been updated, so they themselves may not be fetched, or draw other numbers.

    Args:
      ops: Ops that read variables, or draw random numbers.
    """
    for op in ops:
      if op not in self._copies or self._frames.loop(op) is not None:
        continue
      if any(map(op_types.is_handle, op.inputs)):  # A lookup.
        self._graph.prevent_fetching(op)
      for tensor in op.outputs:
        # To add parts up would delay the slices.
        if not isinstance(self._batch.layout(tensor), Shard):
          continue
        for reader in tensor.consumers():
          for index, read in enumerate(reader.inputs):
            if read.name == tensor.name and reader in self._copies:
              self.rewired[reader, index] = self._whole(tensor)

  def read(self, tensor: tf.Tensor) -> str:
    """Returns what an op that is executed once reads in place of a tensor.

    Args:
      tensor: A tensor of the plain graph.
    """
    if self._measures(tensor):
      value = self._shapes.value(tensor)
      if value is not None:
        return self._sizes(value, tensor.dtype)
    return self._whole(tensor)

  def copies(self, op: tf.Operation) -> Sequence[tf.Operation | None]:
    """Returns the op of each slice, if it was needed, after `apply`.

    Args:
      op: An op that is executed in parts.
    """
    return [self._made.get(name) for name in self._copies[op]]

  def made(self) -> dict[tf.Operation, tuple[tf.Operation, int]]:
    """Returns what was made, after `apply`.

    Returns:
      For each op the plain one for which it was made, and the replica, as far
      as it is on the devices of that.
    """
    made_for = self.definitions.made_for
    return {
      op: made_for[name] for name, op in self._made.items() if name in made_for
    }

  def op_named(self, name: str) -> tf.Operation | None:
    """Returns an op that was made, if it was needed, after `apply`.

    Args:
      name: Its name.
    """
    return self._made.get(name)

  def apply(
    self, fetches: Sequence[Fetch], others: Iterable[tf.Operation] = ()
  ) -> list[Fetch]:
    """Adds the ops to the graph, and lets the rest of it read them.

    Args:
      fetches: What a step runs.
      others: Ops in parts that are to be there, too.

    Returns:
      What stands for that.
    """
    stand_ins = [
      [self._fetched(x)] if isinstance(x, tf.Tensor) else self.ops_for(x)
      for x in fetches
    ]
    of_replicas = {
      tensor.name: self._of_replicas(tensor)
      for tensor in dict.fromkeys(
        op.inputs[index] for op, index in self._reads_aggregated
      )
    }
    needed = [*self.rewired.values()]
    needed += [name for op in others for name in self.ops_for(op)]
    for names in (*self.waits.values(), *stand_ins, *of_replicas.values()):
      needed += names
    self.definitions.keep(needed)
    self._made = made = self.definitions.import_into_graph()
    graph = self._graph

    def op_of(name: str) -> tf.Operation:
      return made.get(name) or graph.get_operation_by_name(name)

    def tensor_of(name: str) -> tf.Tensor:
      op, _, index = name.rpartition(":")
      return op_of(op).outputs[int(index)]

    self.of_replicas = {
      tensor: [tensor_of(name) for name in names]
      for tensor, names in of_replicas.items()
    }
    for (op, index), name in self.rewired.items():
      graph_edits.replace_input(op, index, tensor_of(name))
    for op, names in self.waits.items():
      graph_edits.set_control_inputs(op, [op_of(name) for name in names])
    found: list[Fetch] = []
    for fetch, names in zip(fetches, stand_ins, strict=True):
      if isinstance(fetch, tf.Tensor):
        found.append(tensor_of(names[0]))
      elif len(names) == 1:
        found.append(op_of(names[0]))
      else:
        with graph.as_default(), tf.control_dependencies(None):
          found.append(tf.group(*map(op_of, names), name="slices"))
    return found

  def _fetched(self, tensor: tf.Tensor) -> str:
    """Returns what stands for a tensor of which a session sees when it comes.

    What its slices have not waited for is over before.
    """
    name = self.read(tensor)
    awaited = self._late.late.get(tensor.op, ())
    waits = [x for op in awaited for x in self.ops_for(op)]
    if not waits or name == tensor.name:
      return name
    return self.definitions.add(
      "Identity", f"fetch/{tensor.op.name}", [name], waits, T=tensor.dtype
    )

  def read_aggregated(self, totals: Mapping[str, tf.Tensor]) -> None:
    """Lets ops that are executed once read what has been aggregated.

    Args:
      totals: What is aggregated of `of_replicas`, for the first replica.
    """
    for op, index in self._reads_aggregated:
      graph_edits.replace_input(op, index, totals[op.inputs[index].name])

  def ops_for(self, op: tf.Operation) -> list[str]:
    """Returns what stands for an op that somebody waits for.

    Args:
      op: An op of the plain graph.
    """
    if op in self._copies and op not in self._of_inputs:
      return self._copies[op]
    return [op.name]

  def on(self, op: tf.Operation, number: int) -> AbstractContextManager[None]:
    """A context in which ops are added on the device of a slice.

    Args:
      op: The op of the plain graph that they stand for.
      number: The number of the slice.
    """
    replica = self._replica_of[number]
    return self.definitions.on(self._device_of(op, replica), (op, replica))

  def number_of(self, size: Size, dtype: tf.DType) -> str:
    """Returns a size of the whole batch as a scalar of any type.

    Args:
      size: The size.
      dtype: The type.
    """
    return self._scalar(self._size(size, None), dtype)

  def sizes_of_parts(self, op: tf.Operation) -> Sequence[int]:
    """Returns the sizes of parts, along the dimension that is split.

    Args:
      op: An op whose first input is in parts of known sizes.
    """
    read = self._batch.parts[op].reads[0]
    assert isinstance(read, Shard)
    return [x for x in read.partition.parts if isinstance(x, int)]

  def shape(self, tensor: tf.Tensor) -> Sequence[Size]:
    """Returns the sizes of a tensor that is in parts, and so has known ones.

    Args:
      tensor: A tensor of the plain graph.
    """
    shape = self._shapes.shape(tensor)
    assert shape is not None
    return shape

  def _name_of(self, number: int) -> str:
    """Returns what a slice, or a part, is called in names."""
    return f"{self._scope}_{number}"

  # What stands for a tensor of the plain graph.

  def _part(self, tensor: tf.Tensor, number: int) -> str:
    index: int = tensor.value_index
    return self._outputs[tensor.op][number][index]

  def _is_replaced(self, tensor: tf.Tensor) -> bool:
    """Whether a step has something else in place of a tensor."""
    return self._is_in_parts(tensor) and tensor.op not in self._of_inputs

  def _is_in_parts(self, tensor: tf.Tensor) -> bool:
    return tensor.op in self._copies

  def _whole(self, tensor: tf.Tensor) -> str:
    if not self._is_replaced(tensor):
      return str(tensor.name)
    key = "whole", tensor.name
    if key not in self._tensors:
      parts = [self._part(tensor, i) for i in self._slices]
      with self.on(tensor.op, 0):
        self._tensors[key] = self._join(tensor, parts)
    return self._tensors[key]

  def _join(self, tensor: tf.Tensor, parts: Sequence[str]) -> str:
    """Returns a tensor of its parts."""
    layout = self._batch.layout(tensor)
    if is_whole(layout) or tensor.dtype == tf.resource:
      return parts[0]  # A handle of which nobody needs more than the sizes.
    if isinstance(layout, Shard):
      return self._concat(tensor, layout, parts)
    joined, *others = self._of_replicas(tensor)
    if layout == Partial() and len(others) > 1:
      return self._add(tensor, [joined, *others], "reduce")
    for other in others:
      joined = self._reduce(tensor, joined, other)
    return joined

  def _of_replicas(self, tensor: tf.Tensor) -> list[str]:
    """Returns what is joined of a tensor's parts in each replica."""
    layout = self._batch.layout(tensor)
    found = []
    for replica, own in enumerate(self._replicas):
      key = "of replica", tensor.name, replica
      if key not in self._tensors:
        if isinstance(layout, Shard):
          with self.on(tensor.op, own[0]):
            parts = [self._part(tensor, number) for number in own]
            self._tensors[key] = self._concat(tensor, layout, parts)
        else:
          self._tensors[key] = self._sum_of(tensor, own)
      found.append(self._tensors[key])
    return found

  def _sum_of(self, tensor: tf.Tensor, own: Sequence[int]) -> str:
    """Returns the sum of a replica's parts.

    The terms of a weight that several stages use are added up on each, so that
    it sends one sum.
    """
    by_device = self._terms_by_device(tensor, own[0])
    if tensor.name in self._products:
      return self._sum_of_products(self._products[tensor.name], own)
    if len(by_device) < 2:
      with self.on(tensor.op, own[0]):
        parts = [self._part(tensor, number) for number in own]
        return self._accumulate(tensor, own, parts)
    sums = []
    for terms in by_device:
      parts = []
      for number in own:
        with self.on(terms[0].op, number):
          read = [self._part(x, number) for x in terms]
          parts.append(self._add(tensor, read, self._name_of(number)))
      with self.on(terms[0].op, own[0]):
        sums.append(self._accumulate(terms[0], own, parts))
    with self.on(tensor.op, own[0]):
      return self._add(tensor, sums, "sum")

  def _sum_of_products(self, product: WeightProduct, own: Sequence[int]) -> str:
    """Returns the sum of a replica's products, of which several are one."""
    op, joined = product.op, ""
    reads = self._batch.parts[op].reads
    for group in weight_products.groups(self._order_of(op), product.group):
      numbers = [own[place] for place in group]
      with self.on(op, own[0]):
        operands = []
        for x, read in zip(op.inputs, reads, strict=True):
          assert isinstance(read, Shard)
          parts = [self._read(x, read, number) for number in numbers]
          operands.append(self._concat(x, read, parts))
        made = self.definitions.copy(op, f"products/{op.name}", operands, ())
        ends = [made]
        if joined:
          made = self._reduce(op.outputs[0], joined, made)
          ends.append(made)
      joined = made
      added = self.accumulated.setdefault(op, [])
      added += [(numbers[-1], _op_name(x)) for x in ends]
    return joined

  def _terms_by_device(
    self, tensor: tf.Tensor, number: int
  ) -> list[list[tf.Tensor]]:
    """Returns the terms of which slices add up a tensor, by their devices."""
    op = tensor.op
    how = self._batch.parts[op]
    if op.type != "AddN" or not all(
      read == Partial() == self._batch.layout(x) and self._is_in_parts(x)
      for x, read in zip(op.inputs, how.reads, strict=True)
    ):
      return []
    found: dict[str, list[tf.Tensor]] = {}
    for x in op.inputs:
      device = self._device_of(x.op, self._replica_of[number])
      found.setdefault(device, []).append(x)
    return [*found.values()]

  def _add(self, tensor: tf.Tensor, terms: Sequence[str], scope: str) -> str:
    """Returns the sum of some of the terms that make a tensor."""
    if len(terms) == 1:
      return terms[0]
    name = f"{scope}/{tensor.op.name}"
    return self.definitions.add(
      "AddN", name, terms, N=len(terms), T=tensor.dtype
    )

  def _concat(
    self, tensor: tf.Tensor, layout: Shard, parts: Sequence[str]
  ) -> str:
    if len(parts) == 1:
      return parts[0]
    if layout.partition.is_cyclic:
      return self._by_turns(tensor, layout, parts)
    return self.definitions.add(
      "ConcatV2",
      f"concat/{tensor.op.name}",
      [*parts, self._constant(layout.axis, tf.int32)],
      N=len(parts),
      T=tensor.dtype,
      Tidx=tf.int32,
    )

  def _by_turns(
    self, tensor: tf.Tensor, layout: Shard, parts: Sequence[str]
  ) -> str:
    """Returns a tensor of which parts have rows by turns."""
    count, size = len(parts), layout.partition.whole
    assert isinstance(size, int)
    turns = [
      self._constant(tuple(range(part, size, count)), tf.int32)
      for part in range(count)
    ]
    return self.definitions.add(
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

    They are added one after the other: what is added is gone before the last is
    there.
    """
    layout = self._batch.layout(tensor)
    if layout == Partial(Reduction.MEAN):
      parts = [
        self._weighted(tensor, part, number)
        for part, number in zip(parts, numbers, strict=True)
      ]
    first, *others = self._order_of(tensor.op)
    joined = parts[first]
    for place in others:
      joined = self._reduce(tensor, joined, parts[place])
      added = numbers[place], _op_name(joined)
      self.accumulated.setdefault(tensor.op, []).append(added)
    return joined

  def _weighted(self, tensor: tf.Tensor, part: str, number: int) -> str:
    """Returns a slice's part times the share of examples that it has."""
    dtype, name = (
      tensor.dtype,
      f"{self._name_of(number)}/{tensor.op.name}/weighted",
    )
    own = self._scalar(self._examples_of(number), dtype)
    of_all = self.number_of(self._shapes.num_examples, dtype)
    share = self.definitions.add("RealDiv", name, [own, of_all], T=dtype)
    return self.definitions.add("Mul", name, [part, share], T=dtype)

  def _reduce(self, tensor: tf.Tensor, x: str, y: str) -> str:
    """Returns two of a tensor's parts of the whole shape as one."""
    layout, dtype = self._batch.layout(tensor), tensor.dtype
    assert isinstance(layout, Partial)
    fields = {} if dtype == tf.bool else {"T": dtype}
    op_type = _REDUCTIONS[layout.reduction]
    return self.definitions.add(
      op_type, f"reduce/{tensor.op.name}", [x, y], **fields
    )

  def _measures(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor has sizes of what is made in parts."""
    op = tensor.op
    if op.type not in MEASURES or not self._batch.parts:
      return False
    if op in self._batch.parts:
      return True  # Those of a loop measure parts.
    if op in self._of_inputs:  # By its sizes, whatever it measures.
      return not all(x.op in self._of_inputs for x in op.inputs)
    return any(map(self._is_replaced, op.inputs))

  def _awaited_by_sizes(
    self, op: tf.Operation
  ) -> list[tf.Operation | tf.Tensor]:
    """Returns what sizes that an op reads wait for, or are sizes of.

    Sizes are made anew, and wait for nothing. In a branch that is not taken
    what is measured is not there, and so its sizes are not.
    """
    how = self._batch.parts.get(op)
    in_branch = op in self._in_branches
    found: dict[tf.Operation | tf.Tensor, None] = {}
    seen: set[tf.Operation] = set()
    todo = [
      tensor.op
      for i, tensor in enumerate(op.inputs)
      if self._measures(tensor)
      or (how is not None and isinstance(how.reads[i], Sizes))
    ]
    while todo:
      read = todo.pop()
      if read in seen:
        continue
      seen.add(read)
      found.update(
        dict.fromkeys(
          x for x in self._late.waits.of(read) if x not in self._copies
        )
      )
      if in_branch and read in self._copies:
        found[read] = None
      elif in_branch and read.type in MEASURES:
        found.update(dict.fromkeys(x for x in read.inputs))
      todo += [x.op for x in read.inputs if values.is_evaluated(x.op)]
      todo += [x.op for x in read.inputs if x.op.type in MEASURES]
    # No op of a loop waits for anything outside of it.
    here = self._frames.read_in(op)
    return [
      x for x in found if self._frames.made_in(getattr(x, "op", x)) == here
    ]

  def _awaited(self, waits: tf.Operation | tf.Tensor, number: int) -> str:
    """Returns the op that a slice waits for in place of an op, or a tensor."""
    if isinstance(waits, tf.Operation):
      copies = self._copies.get(waits)
      return waits.name if copies is None else copies[number]
    # A switch is done even where what it makes is not there.
    name = waits.name
    if self._is_in_parts(waits):
      name = self._part(waits, number)
    key = "there", name
    if key not in self._tensors:
      self._tensors[key] = _op_name(
        self.definitions.add("Identity", "sizes/of", [name], T=waits.dtype)
      )
    return self._tensors[key]

  # What parts read.

  def _read(self, tensor: tf.Tensor, how: Read, number: int) -> str:
    """Returns what a slice reads of an input."""
    layout = self._batch.layout(tensor)
    if layout == how and not is_whole(layout) and self._is_in_parts(tensor):
      return self._part(tensor, number)
    if isinstance(how, Shard | Partial) and self._is_empty(tensor):
      return self._new_container(tensor, how, number)
    if isinstance(how, Shard):
      return self._slice(tensor, how, number)
    if isinstance(how, Partial):
      return self._term(tensor, number)
    if isinstance(how, Sizes):
      value = self._shapes.value(tensor)
      assert value is not None
      sizes = np.array(value)
      sizes.flat[how.entry] = _of_part(how.partition, number)
      return self._sizes(sizes, tensor.dtype, number)
    if isinstance(how, Repeated):
      return self._repeat(tensor, how.shard, number)
    if layout == MIRRORED and not self._measures(tensor):
      return self._part(tensor, number)
    mirror = self._mirror_of(tensor, self._replica_of[number])
    return self.read(tensor) if mirror is tensor else str(mirror.name)

  def _is_empty(self, tensor: tf.Tensor) -> bool:
    """Whether a tensor is a container with nothing in it."""
    is_new = tensor.op.type in rules_of_control_flow.EMPTY
    return is_new and self._shapes.is_container(tensor)

  def _new_container(
    self, tensor: tf.Tensor, how: Shard | Partial, number: int
  ) -> str:
    """Returns an empty container for elements that are parts."""
    op, index = tensor.op, tensor.value_index
    if self._batch.layout(tensor) == MIRRORED and index:
      return self._part(tensor, number)
    key = "empty", tensor.name, how, number
    if key not in self._tensors:
      inputs = [self._read(x, ONCE, number) for x in op.inputs]
      value = self._shapes.value(op.inputs[0]) if inputs else None
      of_element = 0 if value is None or not value.ndim else len(value)
      if isinstance(how, Shard) and how.axis < of_element:
        read = Sizes(how.axis, how.partition)
        inputs[0] = self._read(op.inputs[0], read, number)
      with self.on(op, number):
        self._tensors[key] = self.definitions.copy(
          op,
          f"{self._name_of(number)}/{op.name}",
          inputs,
          self._waits(op, number),
        )
    return self._tensors[key]

  def _term(self, tensor: tf.Tensor, number: int) -> str:
    """Returns a slice's term of a sum: that of the first is all of it."""
    whole = self._whole_for(tensor, number)
    if not number:
      return whole
    name = f"{self._name_of(number)}/{tensor.op.name}/nothing"
    return self.definitions.add("ZerosLike", name, [whole], T=tensor.dtype)

  def _whole_for(self, tensor: tf.Tensor, number: int) -> str:
    """Returns a whole tensor as it is there for a slice."""
    if self._batch.layout(tensor) == MIRRORED:
      return self._part(tensor, number)
    return self._whole(tensor)

  def _slice(self, tensor: tf.Tensor, shard: Shard, number: int) -> str:
    """Returns a slice's part of a tensor that is whole."""
    if tensor.name in self._read_apart.pieces:
      return self._slice_of_piece(tensor, shard, number)
    whole = self._whole_for(tensor, number)
    key = "slice", whole, shard
    if key not in self._pieces:
      with self.definitions.on(self._place_of_cut(tensor, shard)):
        name = f"slice/{tensor.op.name}"
        self._pieces[key] = self._split(whole, tensor, shard, name)
    return self._pieces[key][number]

  def _slice_of_piece(
    self, tensor: tf.Tensor, shard: Shard, number: int
  ) -> str:
    """Returns a slice's part of what its replica has read itself."""
    replica = self._replica_of[number]
    own = self._replicas[replica]
    piece = self._read_apart.pieces[tensor.name][replica]
    key = "slice", piece.name, shard
    if key not in self._pieces:
      with self.definitions.on(piece.device):
        name = f"slice/{tensor.op.name}"
        self._pieces[key] = self._split(piece.name, tensor, shard, name, own)
    return self._pieces[key][number - own[0]]

  def _place_of_cut(self, tensor: tf.Tensor, shard: Shard) -> str:
    """Returns where a tensor is cut: where all slices read it, if they do.

    So it is sent once, and not slice by slice.
    """
    readers = {
      self._device_of(op, 0)
      for op in tensor.consumers()
      for x, read in zip(
        op.inputs, getattr(self._batch.parts.get(op), "reads", ()), strict=False
      )
      if x.name == tensor.name and read == shard
    }
    if len(readers) == 1 and len(self._replicas) == 1:
      return readers.pop()
    return self._device_of(tensor.op, 0)

  def _repeat(self, tensor: tf.Tensor, shard: Shard, number: int) -> str:
    """Returns a slice's part of a tensor after it has been repeated."""
    before = self._whole_for(tensor, number)
    key = "repeat", before, shard
    if key not in self._pieces:
      name = f"repeat/{tensor.op.name}"
      shape = self._shapes.shape(tensor)
      assert shape is not None
      sizes = list(shape)
      sizes[shard.axis] = shard.partition.whole
      vector = self._sizes(np.array(sizes, object), tf.int32)
      with self.on(tensor.op, 0):
        whole = self.definitions.add(
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
    numbers = self._slices if numbers is None else numbers
    count = len(numbers)
    if shard.partition.is_cyclic:
      return [self._turn(whole, tensor, part, count, name) for part in numbers]
    sizes = [
      self._size(_of_part(shard.partition, number), number)
      for number in numbers
    ]
    axis = self._constant(shard.axis, tf.int32)
    fields = {"num_split": count, "T": tensor.dtype}
    waits = self._checks_of(tensor)
    if all(isinstance(x, int) and x == sizes[0] for x in sizes):
      split = self.definitions.add(
        "Split", name, [axis, whole], waits, **fields
      )
    else:
      vector = self._pack(sizes, tf.int32)
      split = self.definitions.add(
        "SplitV", name, [whole, vector, axis], waits, Tlen=tf.int32, **fields
      )
    stem = split.rpartition(":")[0]
    return [f"{stem}:{place}" for place in range(count)]

  def _turn(
    self, whole: str, tensor: tf.Tensor, part: int, count: int, name: str
  ) -> str:
    """Returns the rows that a part has by turns."""
    begin, end, step = (
      self._constant((x,), tf.int32) for x in (part, 0, count)
    )
    return self.definitions.add(
      "StridedSlice",
      name,
      [whole, begin, end, step],
      T=tensor.dtype,
      Index=tf.int32,
      end_mask=1,
    )

  def _checks_of(self, tensor: tf.Tensor) -> list[str]:
    """Returns what checks the size of an input, if the graph says others'."""
    is_known = isinstance(self._shapes.num_examples, int)
    if self._num_examples is None or not is_known:
      return []
    is_inside = self._frames.made_in(tensor.op) is not None
    is_input = tensor.op in self._of_inputs and not is_inside
    return [self._num_examples.op.name] if is_input else []

  # Sizes as tensors.

  def _sizes(
    self, value: np.ndarray, dtype: tf.DType, number: int | None = None
  ) -> str:
    """Returns a tensor of sizes, of a slice or of the whole batch."""
    sizes = [self._size(size, number) for size in np.ravel(value)]
    if value.ndim == 1:
      return self._pack(sizes, dtype)
    assert value.ndim == 0, value
    (size,) = sizes
    return self._scalar(size, dtype)

  def _pack(self, sizes: Sequence[int | str], dtype: tf.DType) -> str:
    if all(isinstance(size, int) for size in sizes):
      return self._constant(tuple(sizes), dtype)
    key = "pack", tuple(sizes), dtype
    if key not in self._tensors:
      self._tensors[key] = self.definitions.add(
        "Pack",
        "sizes/shape",
        [self._scalar(size, dtype) for size in sizes],
        N=len(sizes),
        T=dtype,
        axis=0,
      )
    return self._tensors[key]

  def _scalar(self, size: int | str, dtype: tf.DType) -> str:
    if isinstance(size, int):
      return self._constant(size, dtype)
    if dtype == tf.int32:
      return size
    key = "cast", size, dtype
    if key not in self._tensors:
      self._tensors[key] = self.definitions.add(
        "Cast", "sizes/cast", [size], SrcT=tf.int32, DstT=dtype
      )
    return self._tensors[key]

  def _size(self, size: Size, number: int | None) -> int | str:
    """Returns a size: a number, or the name of a scalar of int32.

    Args:
      size: The size.
      number: The slice whose size it is, if it has the symbol of one.
    """
    if self._here is not None and not self._is_inside(size):
      with self._at(None), self.definitions.on(""):
        name = self._size(size, number)
      return name if isinstance(name, int) else self._bring(name, tf.int32)
    total: int | str = 0
    for term, count in sorted(polynomials.terms_of(size).items()):
      product: int | str = count
      for symbol in term:
        product = self._binary("Mul", self._symbol(symbol, number), product)
      total = self._binary("AddV2", product, total)
    return total

  def _is_inside(self, size: Size) -> bool:
    """Whether a size has its value inside of loops."""
    return isinstance(size, Polynomial) and any(
      self._shapes.frame_of(symbol) is not None for symbol in size.symbols
    )

  @contextlib.contextmanager
  def _at(self, here: tuple[Frame, int] | None) -> Iterator[None]:
    """A context in which ops are added in a loop of a slice."""
    before, self._here = self._here, here
    try:
      yield
    finally:
      self._here = before

  def _bring(self, name: str, dtype: tf.DType) -> str:
    """Returns a tensor from outside of loops as it is in the one here."""
    if self._here is None:
      return name
    frame, number = self._here
    loops = [frame]
    while loops[-1].parent is not None:
      loops.append(loops[-1].parent)
    for loop in reversed(loops):
      key = "enter", name, loop, number
      if key not in self._tensors:
        self._tensors[key] = self.definitions.add(
          "Enter",
          "sizes/enter",
          [name],
          T=dtype,
          frame_name=f"{loop.name}/{self._name_of(number)}",
          is_constant=True,
          parallel_iterations=loop.iterations,
        )
      name = self._tensors[key]
    return name

  def _binary(self, op_type: str, x: int | str, y: int | str) -> int | str:
    if isinstance(x, int) and isinstance(y, int):
      return x * y if op_type == "Mul" else x + y
    if y == (1 if op_type == "Mul" else 0):
      return x
    if x == (1 if op_type == "Mul" else 0):
      return y
    key = op_type, x, y
    if key not in self._tensors:
      read = [self._scalar(x, tf.int32), self._scalar(y, tf.int32)]
      self._tensors[key] = self.definitions.add(
        op_type, f"sizes/{op_type}", read, T=tf.int32
      )
    return self._tensors[key]

  def _symbol(self, symbol: str, number: int | None) -> int | str:
    """Returns what a symbol stands for."""
    if symbol == SLICE:
      assert number is not None
      return self._examples_of(number)
    if symbol == EXAMPLES and self._num_examples is not None:
      return str(self._num_examples.name)
    if symbol == EXAMPLES:
      assert self._examples is not None
      tensor, axis = self._examples
      return self._measured(tensor.name, tensor.dtype, axis)
    if self._here is not None:
      number = self._here[1]
    origin = self._shapes.origins[symbol]
    tensor = traversal.tensor_of_name(self._graph, origin.tensor)
    if origin.entry is not None:
      name = self._entry(tensor.name, tensor.dtype, origin.entry)
      return self._number(name, tensor.dtype)
    if origin.axis is None:
      name = self._whole_for(tensor, number or 0)
      return self._number(name, tensor.dtype)
    layout = self._batch.layout(tensor)
    name = self._whole_for(tensor, number or 0)
    if name != tensor.name and not (
      isinstance(layout, Shard) and layout.axis == origin.axis
    ):
      name = self._part(tensor, number or 0)
    return self._measured(name, tensor.dtype, origin.axis)

  def _examples_of(self, number: int) -> int | str:
    """Returns how many examples a slice has: the first ones one more."""
    total: int | str | tf.Tensor
    own: Sequence[int] = self._slices
    if self._read_apart.sizes:
      replica = self._replica_of[number]
      own, total = self._replicas[replica], self._read_apart.sizes[replica]
    elif isinstance(self._shapes.num_examples, int):
      total = self._shapes.num_examples
    else:
      total = self._symbol(EXAMPLES, None)
    count, place = len(own), number - own[0]
    if isinstance(total, int):
      return total // count + (place < total % count)
    key = "examples", number
    if key not in self._tensors:
      whole = str(getattr(total, "name", total))
      # (n + count - 1 - place) // count
      more = self._binary("AddV2", whole, count - 1 - place)
      self._tensors[key] = self.definitions.add(
        "FloorDiv",
        f"sizes/{self._name_of(number)}",
        [self._scalar(more, tf.int32), self._constant(count, tf.int32)],
        T=tf.int32,
      )
    return self._tensors[key]

  def _measured(self, name: str, dtype: tf.DType, axis: int) -> str:
    """Returns the size of a dimension of a tensor."""
    key = "shape", name
    if key not in self._tensors:
      self._tensors[key] = self.definitions.add(
        "Shape", "sizes/shape_of", [name], T=dtype, out_type=tf.int32
      )
    return self._entry(self._tensors[key], tf.int32, axis)

  def _entry(self, vector: str, dtype: tf.DType, index: int) -> str:
    """Returns an entry of a vector."""
    key = "entry", vector, index
    if key not in self._tensors:
      bounds = [self._constant((x,), tf.int32) for x in (index, index + 1, 1)]
      self._tensors[key] = self.definitions.add(
        "StridedSlice",
        "sizes/entry",
        [vector, *bounds],
        T=dtype,
        Index=tf.int32,
        shrink_axis_mask=1,
      )
    return self._tensors[key]

  def _number(self, name: str, dtype: tf.DType) -> str:
    """Returns the only entry of a tensor as a scalar of int32."""
    key = "number", name
    if key not in self._tensors:
      scalar = self.definitions.add(
        "Reshape",
        "sizes/number",
        [name, self._constant((), tf.int32)],
        T=dtype,
        Tshape=tf.int32,
      )
      if dtype != tf.int32:
        scalar = self.definitions.add(
          "Cast", "sizes/number", [scalar], SrcT=dtype, DstT=tf.int32
        )
      self._tensors[key] = scalar
    return self._tensors[key]

  def _constant(
    self, value: int | tuple[int | str, ...], dtype: tf.DType
  ) -> str:
    key = "constant", value, dtype
    if key not in self._tensors:
      self._tensors[key] = self.definitions.constant(
        "sizes/constant", np.array(value, dtype.as_numpy_dtype), dtype
      )
    return self._bring(self._tensors[key], dtype)

  # Ops.

  def _make(self, op: tf.Operation) -> None:
    """Makes the copy of an op for each slice."""
    how = self._batch.parts[op]
    inputs = list(op.inputs)
    if frames_lib.is_begin_of_round(op):
      inputs[1] = inputs[0]  # What comes back is not there yet.
    frame = self._frames.read_in(op)
    places = [
      None if frame is None else (frame, number) for number in self._slices
    ]
    reads: list[list[str]] = []
    for number, place in enumerate(places):
      # A loop is on one device, with all that it reads.
      of_loop = self.on(op, number) if place else contextlib.nullcontext()
      with of_loop, self._at(place):
        reads.append(
          [
            self._read(tensor, read, number)
            for tensor, read in zip(inputs, how.reads, strict=True)
          ]
        )
    if how.places is not None:
      index, partition = how.places
      for number, read in enumerate(reads):
        with self.on(op, number):
          read[index] = self._own_places(
            op, index, partition, read[index], number
          )
    if how.owned is not None:
      self._make_by_owner(op, how.owned, reads)
      return
    if how.exchanges:
      for number, read in enumerate(reads):
        read[0] = self._after(op, read[0], number)
      self._outputs[op] = exchanges.make(op, reads, self)
      self._copies[op] = [_op_name(x[0]) for x in self._outputs[op]]
      return
    names: list[str] = []
    for number, place in enumerate(places):
      if (op, number) in self._in_place:
        names.append(self._copies[self._in_place[op, number]][number])
        continue
      with self.on(op, number), self._at(place):
        names.append(_op_name(self._copy(op, reads[number], number)))
    count = len(op.outputs)
    self._copies[op] = names
    self._outputs[op] = [[f"{x}:{i}" for i in range(count)] for x in names]

  def _make_by_owner(
    self,
    op: tf.Operation,
    owned: tuple[int, Partition],
    reads: Sequence[Sequence[str]],
  ) -> None:
    """Makes an update of rows, or a sum of them: each part does its own."""
    index, partition = owned
    dtype = op.inputs[index].dtype
    rule = self._shapes.rule(op)
    assert rule is not None
    names: list[str] = []
    outputs: list[str] = []
    sizes = [x for x in partition.parts if isinstance(x, int)]
    for number, read in enumerate(reads):
      inputs = [*read]
      name = f"{self._name_of(number)}/{op.name}"
      owners = owned_rows.Owners(self.definitions, f"{name}/own")
      find = owners.own_by_turns if partition.is_cyclic else owners.own
      if op.outputs:
        with self.on(op, number):
          own = find(inputs[index], number, sizes, dtype)
          inputs[index] = owners.or_none(own, dtype)
          found = self._copy(op, inputs, number)
          outputs.append(found)
      else:
        with self.on(op, 0):  # Where all rows are: nothing else is sent.
          own = find(inputs[index], number, sizes, dtype)
          numbers = owners.numbers(own)
          inputs[index] = own.places
          for i, x in enumerate(op.inputs):
            if "Entries" in rule.labels(i):
              inputs[i] = owners.taken(numbers, inputs[i], x.dtype)
        with self.on(op, number):
          found = self._copy(op, inputs, number)
      names.append(_op_name(found))
    self._copies[op] = names
    self._outputs[op] = [[x] for x in outputs] or [[] for _ in names]

  def _own_places(
    self,
    op: tf.Operation,
    index: int,
    partition: Partition,
    places: str,
    number: int,
  ) -> str:
    """Returns places of a slice, counted from its own first one on.

    That they are of the slice is checked when a step runs.
    """
    dtype = op.inputs[index].dtype
    begin: int | str = 0
    for before in self._slices[:number]:
      size = self._size(_of_part(partition, before), before)
      begin = self._binary("AddV2", begin, size)
    end = self._size(_of_part(partition, number), number)
    name = f"{self._name_of(number)}/{op.name}/places"

    def make(op_type: str, *read: str, **fields: Any) -> str:
      return self.definitions.add(op_type, name, read, **fields)

    own = places
    if number:
      own = make("Sub", places, self._scalar(begin, dtype), T=dtype)
    zero, last = (self._scalar(x, dtype) for x in (0, end))
    is_own = make(
      "LogicalAnd",
      make("GreaterEqual", own, zero, T=dtype),
      make("Less", own, last, T=dtype),
    )
    rank = len(self.shape(op.inputs[index]))
    axes = self._constant(tuple(range(rank)), tf.int32)
    all_own = make("All", is_own, axes, keep_dims=False, Tidx=tf.int32)
    text = self.definitions.constant(
      f"{name}/text", np.array(_OTHER_ROWS.format(op.name)), tf.string
    )
    check = make("Assert", all_own, text, T=[tf.string])
    return self.definitions.add(
      "Identity", name, [own], [_op_name(check)], T=dtype
    )

  def _waits(self, op: tf.Operation, number: int) -> list[str]:
    """Returns what a slice's copy of an op waits for."""
    waits = [
      *self._late.waits.of(op),
      *self._awaited_by_constants(op),
      *self._awaited_by_sizes(op),
    ]
    return [self._awaited(x, number) for x in waits]

  def _awaited_by_constants(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the ops in parts that constants which an op reads wait for.

    Under `tf.control_dependencies`, only the first op that is made of others
    waits: often a constant. All slices read one, and are not to wait for each
    other, so what reads it waits in its place.
    """
    here = self._frames.read_in(op)
    found = dict.fromkeys(
      awaited
      for tensor in op.inputs
      if tensor.op.type == "Const" and tensor.op not in self._copies
      for awaited in self._late.waits.of(tensor.op)
      if awaited in self._copies and self._frames.made_in(awaited) == here
    )
    return [x for x in found if x not in self._late.waits.of(op)]

  def _after(self, op: tf.Operation, tensor: str, number: int) -> str:
    """Returns the first input of a slice, after what the op waits for."""
    waits = self._waits(op, number)
    if not waits:
      return tensor
    name, dtype = f"{self._name_of(number)}/{op.name}/input", op.inputs[0].dtype
    with self.on(op, number):
      return self.definitions.add("Identity", name, [tensor], waits, T=dtype)

  def _copy(self, op: tf.Operation, inputs: Sequence[str], number: int) -> str:
    """Returns the first output of a copy of an op for a slice."""
    how = self._batch.parts[op]
    name = f"{self._name_of(number)}/{op.name.lstrip('_')}"
    waits = self._waits(op, number)
    if op.type == "Mean" and isinstance(how.outputs[0], Partial):
      return self._share_of_mean(op, name, inputs, waits)
    rule = self._shapes.rule(op)
    attributes = dict(rule.attributes) if rule else {}
    if op.type == "AddN" and number:
      inputs = self._terms_of(op, inputs)
      attributes["N"] = len(inputs)
    for key in _NAMES_OF_STATES.intersection(op.node_def.attr):
      own = op.get_attr(key).decode() or op.name
      attributes[key] = f"{own}/{self._name_of(number)}"
    if number and draws.has_seed(op.node_def):
      attributes["seed2"] = draws.seed_of_part(op.node_def, number)
    if number and (index := op_types.SEED_INPUTS.get(op.type)) is not None:
      inputs = [*inputs]
      inputs[index] = self._mixed_seed(inputs[index], op, index, number)
    if rule and rule.shape_attribute:
      shape = tf.TensorShape(op.get_attr(rule.shape_attribute))
      (output,) = how.outputs
      if shape.rank is not None and isinstance(output, Shard):
        size = self._size(_of_part(output.partition, number), number)
        sizes = shape.as_list()
        sizes[output.axis] = size if isinstance(size, int) else None
        shape = tf.TensorShape(sizes)
      attributes[rule.shape_attribute] = tf.compat.v1.AttrValue(
        shape=shape.as_proto()
      )
    return self.definitions.copy(op, name, inputs, waits, attributes)

  def _terms_of(self, op: tf.Operation, inputs: Sequence[str]) -> Sequence[str]:
    """Returns what a slice but the first adds: no term that the first has."""
    layouts = [self._batch.layout(tensor) for tensor in op.inputs]
    reads = self._batch.parts[op].reads
    return [
      x
      for x, layout, read in zip(inputs, layouts, reads, strict=True)
      if not (is_whole(layout) and read == Partial())
    ]

  def _mixed_seed(
    self, seed: str, op: tf.Operation, index: int, number: int
  ) -> str:
    """Returns the seed of a slice, by which it draws numbers of its own."""
    dtype = op.inputs[index].dtype
    mask = self._constant(draws.mask(number), dtype)
    return self.definitions.add(
      "BitwiseXor", f"sizes/seed/{op.name}", [seed, mask], T=dtype
    )

  def _share_of_mean(
    self,
    op: tf.Operation,
    name: str,
    inputs: Sequence[str],
    waits: Iterable[str],
  ) -> str:
    """Returns a part's sum over the number of entries of all parts."""
    shape = self._shapes.shape(op.inputs[0])
    assert shape is not None
    over = self._shapes.axes(op.inputs[1], len(shape))
    assert over is not None
    dtype = op.outputs[0].dtype
    total = self.definitions.add(
      "Sum",
      f"{name}/sum",
      inputs,
      waits,
      T=dtype,
      Tidx=op.inputs[1].dtype,
      keep_dims=op.get_attr("keep_dims"),
    )
    divisor = self.number_of(
      polynomials.product(shape[axis] for axis in sorted(over.sure)), dtype
    )
    return self.definitions.add("RealDiv", name, [total, divisor], T=dtype)

  def _rewire(self, op: tf.Operation) -> None:
    """Says what an op that is executed once reads, and waits for."""
    for index, tensor in enumerate(op.inputs):
      if self._is_aggregated(op, tensor):
        self._reads_aggregated.append((op, index))
        continue
      name = self.read(tensor)
      if name != tensor.name:
        self.rewired[op, index] = name
    awaited = self._late.waits.of(op)
    if op.type == "Const":
      awaited = [x for x in awaited if x not in self._copies]
    waits = [name for x in awaited for name in self.ops_for(x)]
    for x in self._awaited_by_constants(op):
      # All slices take the same branch: whether the first does is enough.
      first = x in self._in_branches
      waits += [self._awaited(x, 0)] if first else self.ops_for(x)
    waits += [self._awaited(x, 0) for x in self._awaited_by_sizes(op)]
    if waits != [x.name for x in op.control_inputs]:
      self.waits[op] = waits


def _of_part(partition: Partition, number: int) -> Size:
  """Returns the size of a part; all slices are one, with a symbol."""
  parts = partition.parts
  return parts[number] if len(parts) > 1 else parts[0]


def _op_name(tensor: str) -> str:
  return tensor.rpartition(":")[0]
