"""Instantiation: the ops of a plan of slices, as definitions.

Ops in parts are copied for each slice of the batch; between these and ops that
are executed once are reshards (`resharding`), and sizes that parts have
(`size_tensors`).

In a loop each slice goes around by itself: its copies of the loop's ops are in
a frame of their own, which sizes enter as constants.

Parts are made on demand, from the fetches of a step, so ops that no step
reaches are not made. The plain ops stay: a step does not run one that is
executed in parts, unless somebody fetches it by its name.
"""

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

from compat.private import graph_edits
from estimator_mp.analysis.symbolic_shapes import MEASURES
from estimator_mp.graph import control_flow, op_types, random_ops, snippets
from estimator_mp.graph import frames as frames_lib
from estimator_mp.graph.definitions import Definitions, op_name
from estimator_mp.lower import exchanges, owned_rows
from estimator_mp.lower.axis import Axis
from estimator_mp.lower.resharding import Resharding
from estimator_mp.lower.source import Source
from estimator_mp.planning import deferred_edges
from estimator_mp.planning.deferred_edges import DeferredEdges
from estimator_mp.planning.step_graph import Fetch
from estimator_mp.propagate.layouts import (
  Partial,
  Partition,
  Shard,
  Sizes,
  is_whole,
)
from estimator_mp.sizes import polynomials, values
from estimator_mp.sizes.polynomials import Size

import tensorflow as tf

# Attributes by which ops have a loop, or a state, of their own.
_NAMES_OF_STATES = frozenset(["frame_name", "stack_name", "tensor_array_name"])


class Instantiation:
  """The ops of slices, and the reads of them by the rest of the graph.

  Attributes:
    definitions: The ops.
    accumulated: The ops that add up parts of sums; see `Resharding`.
    rewired: From an op of the graph, and the number of an input, to the name
      of the tensor that it is to read.
    waits: From an op of the graph to the names of the ops that it is to wait
      for, where these are others.
    of_replicas: The tensors of each replica that are to be aggregated, by the
      name of the plain tensor; after `apply`.
  """

  def __init__(
    self,
    source: Source,
    slices: Sequence[Sequence[int]],
    device_of: Callable[[tf.Operation, int], str],
    is_aggregated: Callable[[tf.Operation, tf.Tensor], bool] = lambda op, x: (
      False
    ),
    late: DeferredEdges = deferred_edges.OF_THE_GRAPH,
    in_place: Mapping[tuple[tf.Operation, int], tf.Operation] = (
      MappingProxyType({})
    ),
    scope: str = "slice",
  ):
    """Starts with nothing.

    Args:
      source: The graph.
      slices: For each replica the numbers of its slices, in order from 0.
      device_of: Returns the device of an op's instance on a replica, "" if it
        has none. Reshards are where the first replica has the op.
      is_aggregated: Returns whether an op is to read the aggregate of a tensor
        over replicas, which then is joined in each replica only.
      late: The control dependencies of ops, and the waits that slices leave
        out.
      in_place: For an op and the number of a slice another op, whose copy the
        slice has in its place.
      scope: The word for one of them, in names of ops.
    """
    self._graph = source.graph
    self.rewired: dict[tuple[tf.Operation, int], str] = {}
    self.waits: dict[tf.Operation, list[str]] = {}
    self._reads_aggregated: list[tuple[tf.Operation, int]] = []
    self.of_replicas: dict[str, list[tf.Tensor]] = {}
    self._shapes = source.shapes
    self._layouts = source.layouts
    self._of_inputs = source.of_inputs
    self.definitions = Definitions(source.graph)
    self._axis = Axis(self.definitions, slices, device_of, scope)
    self._frames = source.frames
    self._late = late
    self._in_place = in_place
    self._is_aggregated = is_aggregated
    every = source.graph.get_operations()
    self._in_branches = control_flow.ops_in_branches(every)
    self._reshards = Resharding(source, self._axis, self._waits)
    self.accumulated = self._reshards.accumulated
    self._sizes = self._reshards.sizes
    self._copies = self._reshards.copies
    self._outputs = self._reshards.outputs
    self._there: dict[str, str] = {}  # Ops that are done where tensors are.
    # Of the plain op, the ops and tensors that all of its copies wait for.
    self._waited_for: dict[tf.Operation, list[tf.Operation | tf.Tensor]] = {}
    self._imported: dict[str, tf.Operation] = {}
    self._added: set[tf.Operation] = set()

  def on(self, op: tf.Operation, number: int) -> AbstractContextManager[None]:
    """A context in which ops are added on the device of a slice; see `Axis`."""
    return self._axis.on(op, number)

  def number_of(self, size: Size, dtype: tf.DType) -> str:
    """Returns a size of the whole batch as a scalar; see `SizeTensors`."""
    return self._sizes.number_of(size, dtype)

  def add(self, ops: Iterable[tf.Operation]) -> None:
    """Makes the instances of ops.

    Args:
      ops: Those that a step runs, each after those that it reads.
    """
    begins: list[tf.Operation] = []
    for op in ops:
      self._added.add(op)
      if op in self._layouts.parts:
        self._make(op)
        if frames_lib.is_begin_of_round(op):
          begins.append(op)
      if op not in self._layouts.parts or op in self._of_inputs:
        self._rewire(op)
    for op in begins:
      for number, (first, *_) in enumerate(self._outputs[op]):
        back = self._reshards.part(op.inputs[1], number)
        self.definitions.loop_back(first, 1, back)

  def stand_for(self, op: tf.Operation, names: Sequence[str]) -> None:
    """Enters the ops that parts have in place of one of the graph.

    Args:
      op: The op, with one output.
      names: An op for each part.
    """
    self._copies[op] = [*names]
    self._outputs[op] = [[f"{name}:0"] for name in names]

  def redirect(
    self, ops: Iterable[tf.Operation], starts: Iterable[tf.Operation] = ()
  ) -> None:
    """Lets other ops read the results of slices.

    Args:
      ops: Ops of the graph; those that were added are left out, and so are
        those that read lists, which no more than parts of a step have.
      starts: Ops that others wait for though no step runs them.
    """
    awaited = frozenset(starts).intersection(self._copies)
    for op in ops:
      if op in self._added or any(map(self._shapes.is_container, op.inputs)):
        continue
      if any(
        map(self._reshards.is_replaced, op.inputs)
      ) or not awaited.isdisjoint(op.control_inputs):
        self._rewire(op)

  def keep_state(self, ops: Iterable[tf.Operation]) -> None:
    """Lets plain ops that no step runs see the state that slices have seen.

    Somebody may fetch ops that depend on these. They would look up rows that
    have been updated, so they may not be fetched, or draw other numbers.

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
        if not isinstance(self._layouts.layout(tensor), Shard):
          continue
        for reader in tensor.consumers():
          for index, read in enumerate(reader.inputs):
            if read.name == tensor.name and reader in self._copies:
              self.rewired[reader, index] = self._reshards.whole(tensor)

  def copies(self, op: tf.Operation) -> Sequence[tf.Operation | None]:
    """Returns the op of each slice, if it was needed, after `apply`.

    Args:
      op: An op that is executed in parts.
    """
    return [self._imported.get(name) for name in self._copies[op]]

  def instances(self) -> dict[tf.Operation, tuple[tf.Operation, int]]:
    """Returns the ops that were made, after `apply`.

    Returns:
      For each op the plain one for which it was made, and the replica, as far
      as it is on the devices of that.
    """
    made_for = self.definitions.made_for
    return {
      op: made_for[x] for x, op in self._imported.items() if x in made_for
    }

  def op_named(self, name: str) -> tf.Operation | None:
    """Returns an op that was made, if it was needed, after `apply`.

    Args:
      name: Its name.
    """
    return self._imported.get(name)

  def apply(
    self, fetches: Sequence[Fetch], others: Iterable[tf.Operation] = ()
  ) -> list[Fetch]:
    """Adds the ops to the graph, and lets the rest of it read them.

    Args:
      fetches: The tensors and ops that a step fetches.
      others: Ops in parts that are to be there, too.

    Returns:
      Their stand-ins.
    """
    stand_ins = [
      [self._fetched(x)] if isinstance(x, tf.Tensor) else self.ops_for(x)
      for x in fetches
    ]
    of_replicas = {
      tensor.name: self._reshards.of_replicas(tensor)
      for tensor in dict.fromkeys(
        op.inputs[index] for op, index in self._reads_aggregated
      )
    }
    needed = [*self.rewired.values()]
    needed += [name for op in others for name in self.ops_for(op)]
    for names in (*self.waits.values(), *stand_ins, *of_replicas.values()):
      needed += names
    self.definitions.prune(needed)
    self._imported = imported = self.definitions.import_into_graph()
    graph = self._graph

    def op_of(name: str) -> tf.Operation:
      return imported.get(name) or graph.get_operation_by_name(name)

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
    results: list[Fetch] = []
    for fetch, names in zip(fetches, stand_ins, strict=True):
      if isinstance(fetch, tf.Tensor):
        results.append(tensor_of(names[0]))
      elif len(names) == 1:
        results.append(op_of(names[0]))
      else:
        with graph.as_default(), tf.control_dependencies(None):
          results.append(tf.group(*map(op_of, names), name="slices"))
    return results

  def _fetched(self, tensor: tf.Tensor) -> str:
    """Returns the stand-in for a tensor that a step fetches.

    It comes after all that its slices have not waited for.
    """
    name = self._reshards.read(tensor)
    awaited = self._late.late.get(tensor.op, ())
    waits = [x for op in awaited for x in self.ops_for(op)]
    if not waits or name == tensor.name:
      return name
    return self.definitions.add(
      "Identity", f"fetch/{tensor.op.name}", [name], waits, T=tensor.dtype
    )

  def read_aggregated(self, totals: Mapping[str, tf.Tensor]) -> None:
    """Lets ops that are executed once read aggregates.

    Args:
      totals: The aggregates of `of_replicas`, for the first replica.
    """
    for op, index in self._reads_aggregated:
      graph_edits.replace_input(op, index, totals[op.inputs[index].name])

  def ops_for(self, op: tf.Operation) -> list[str]:
    """Returns the stand-ins for an op that somebody waits for.

    Args:
      op: An op of the plain graph.
    """
    if op in self._copies and op not in self._of_inputs:
      return self._copies[op]
    return [op.name]

  def sizes_of_parts(self, op: tf.Operation) -> Sequence[int]:
    """Returns the sizes of parts, along the dimension that is split.

    Args:
      op: An op whose first input is in parts of known sizes.
    """
    read = self._layouts.parts[op].reads[0]
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

  def _awaited_by_sizes(
    self, op: tf.Operation
  ) -> list[tf.Operation | tf.Tensor]:
    """Returns the waits, and the measured tensors, of sizes that an op reads.

    Sizes are made anew, and wait for nothing. In a branch that is not taken a
    measured tensor is not there, and so its sizes are not.
    """
    parts = self._layouts.parts.get(op)
    in_branch = op in self._in_branches
    awaited: dict[tf.Operation | tf.Tensor, None] = {}
    seen: set[tf.Operation] = set()
    todo = [
      tensor.op
      for i, tensor in enumerate(op.inputs)
      if self._reshards.measures(tensor)
      or (parts is not None and isinstance(parts.reads[i], Sizes))
    ]
    while todo:
      read = todo.pop()
      if read in seen:
        continue
      seen.add(read)
      awaited.update(
        dict.fromkeys(
          x for x in self._late.waits.of(read) if x not in self._copies
        )
      )
      if in_branch and read in self._copies:
        awaited[read] = None
      elif in_branch and read.type in MEASURES:
        awaited.update(dict.fromkeys(x for x in read.inputs))
      todo += [x.op for x in read.inputs if values.is_evaluated(x.op)]
      todo += [x.op for x in read.inputs if x.op.type in MEASURES]
    # No op of a loop waits for anything outside of it.
    here = self._frames.input_frame(op)
    return [
      x
      for x in awaited
      if self._frames.output_frame(getattr(x, "op", x)) == here
    ]

  def _awaited(self, waits: tf.Operation | tf.Tensor, number: int) -> str:
    """Returns the op that a slice waits for in place of an op, or a tensor."""
    if isinstance(waits, tf.Operation):
      copies = self._copies.get(waits)
      return waits.name if copies is None else copies[number]
    # A switch is done even where its output is dead.
    name = waits.name
    if self._reshards.is_in_parts(waits):
      name = self._reshards.part(waits, number)
    if name not in self._there:
      self._there[name] = op_name(
        self.definitions.add("Identity", "sizes/of", [name], T=waits.dtype)
      )
    return self._there[name]

  def _make(self, op: tf.Operation) -> None:
    """Makes the copy of an op for each slice."""
    parts = self._layouts.parts[op]
    inputs = list(op.inputs)
    if frames_lib.is_begin_of_round(op):
      inputs[1] = inputs[0]  # The tensor that comes back is not there yet.
    frame = self._frames.input_frame(op)
    places = [
      None if frame is None else (frame, number)
      for number in self._axis.numbers
    ]
    reads: list[list[str]] = []
    for number, place in enumerate(places):
      # A loop is on one device, with all that it reads.
      of_loop = self._axis.on(op, number) if place else contextlib.nullcontext()
      with of_loop, self._sizes.at(place):
        reads.append(
          [
            self._reshards.read_as(tensor, read, number)
            for tensor, read in zip(inputs, parts.reads, strict=True)
          ]
        )
    if parts.places is not None:
      index, partition = parts.places
      for number, read in enumerate(reads):
        with self._axis.on(op, number):
          read[index] = self._local_places(
            op, index, partition, read[index], number
          )
    if parts.owned is not None:
      self._make_by_owner(op, parts.owned, reads)
      return
    if parts.exchanges:
      for number, read in enumerate(reads):
        read[0] = self._after(op, read[0], number)
      self._outputs[op] = exchanges.make(op, reads, self)
      self._copies[op] = [op_name(x[0]) for x in self._outputs[op]]
      return
    names: list[str] = []
    for number, place in enumerate(places):
      if (op, number) in self._in_place:
        names.append(self._copies[self._in_place[op, number]][number])
        continue
      with self._axis.on(op, number), self._sizes.at(place):
        names.append(op_name(self._copy(op, reads[number], number)))
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
    rule = self._shapes.rule(op)
    assert rule is not None
    of_rows = [index]
    if not op.outputs:
      of_rows += [
        i
        for i, _ in enumerate(op.inputs)
        if i != index and "Entries" in rule.labels(i)
      ]
    names: list[str] = []
    outputs: list[str] = []
    for number, read in enumerate(reads):
      inputs = [*read]
      results = self._add_snippet(
        owned_rows.or_none if op.outputs else owned_rows.taken,
        (number, partition),
        [(inputs[i], op.inputs[i].dtype) for i in of_rows],
        # An update is cut where all rows are: nothing else is sent.
        (op, number if op.outputs else 0),
        f"{self._axis.name_of(number)}/{op.name}/own",
      )
      for i, x in zip(of_rows, tf.nest.flatten(results), strict=True):
        inputs[i] = x
      with self._axis.on(op, number):
        copy = self._copy(op, inputs, number)
      names.append(op_name(copy))
      outputs += [copy] if op.outputs else []
    self._copies[op] = names
    self._outputs[op] = [[x] for x in outputs] or [[] for _ in names]

  def _local_places(
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
    for before in self._axis.numbers[:number]:
      size = self._sizes.size(partition.size_of(before), before)
      begin = self._sizes.binary("AddV2", begin, size)
    count = self._sizes.size(partition.size_of(number), number)
    sizes = [self._sizes.scalar(x, dtype) for x in (begin, count)]
    result: str = self._add_snippet(
      _local_places,
      (op.name,),
      [(x, dtype) for x in (places, *sizes)],
      (op, number),
      f"{self._axis.name_of(number)}/{op.name}/places",
    )
    return result

  def _add_snippet(
    self,
    function: Callable[..., Any],
    arguments: Sequence[Hashable],
    inputs: Sequence[tuple[str, tf.DType]],
    place: tuple[tf.Operation, int],
    scope: str,
  ) -> Any:
    """Returns the results of a function in TensorFlow, made for a slice."""
    names, dtypes = zip(*inputs, strict=True)
    called = functools.partial(function, *arguments)
    snippet = snippets.trace(called, dtypes, (function, *arguments))
    return self.definitions.add_snippet(
      snippet, scope, names, lambda _: self._axis.on(*place)
    )

  def _waits(self, op: tf.Operation, number: int) -> list[str]:
    """Returns the control inputs of a slice's copy of an op."""
    if op not in self._waited_for:
      self._waited_for[op] = [
        *self._late.waits.of(op),
        *self._awaited_by_constants(op),
        *self._awaited_by_sizes(op),
      ]
    return [self._awaited(x, number) for x in self._waited_for[op]]

  def _awaited_by_constants(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the ops in parts that constants which an op reads wait for.

    Under `tf.control_dependencies`, only the first op that is made of others
    waits: often a constant. All slices read one, and are not to wait for each
    other, so its readers wait in its place.
    """
    here = self._frames.input_frame(op)
    ops = dict.fromkeys(
      awaited
      for tensor in op.inputs
      if tensor.op.type == "Const" and tensor.op not in self._copies
      for awaited in self._late.waits.of(tensor.op)
      if awaited in self._copies and self._frames.output_frame(awaited) == here
    )
    return [x for x in ops if x not in self._late.waits.of(op)]

  def _after(self, op: tf.Operation, tensor: str, number: int) -> str:
    """Returns the first input of a slice, after the waits of the op."""
    waits = self._waits(op, number)
    if not waits:
      return tensor
    name, dtype = (
      f"{self._axis.name_of(number)}/{op.name}/input",
      op.inputs[0].dtype,
    )
    with self._axis.on(op, number):
      return self.definitions.add("Identity", name, [tensor], waits, T=dtype)

  def _copy(self, op: tf.Operation, inputs: Sequence[str], number: int) -> str:
    """Returns the first output of a copy of an op for a slice."""
    parts = self._layouts.parts[op]
    name = f"{self._axis.name_of(number)}/{op.name.lstrip('_')}"
    waits = self._waits(op, number)
    if op.type == "Mean" and isinstance(parts.outputs[0], Partial):
      return self._share_of_mean(op, name, inputs, waits)
    rule = self._shapes.rule(op)
    attributes = dict(rule.attributes) if rule else {}
    if op.type == "AddN" and number:
      inputs = self._terms_of(op, inputs)
      attributes["N"] = len(inputs)
    node = self.definitions.original(op)
    for key in _NAMES_OF_STATES.intersection(node.attr):
      plain_name = op.get_attr(key).decode() or op.name
      attributes[key] = f"{plain_name}/{self._axis.name_of(number)}"
    if number and random_ops.has_seed(node):
      attributes["seed2"] = random_ops.seed_of_part(node, number)
    if number and (index := op_types.SEED_INPUTS.get(op.type)) is not None:
      inputs = [*inputs]
      inputs[index] = self._mixed_seed(inputs[index], op, index, number)
    if rule and rule.shape_attribute:
      shape = tf.TensorShape(op.get_attr(rule.shape_attribute))
      (output,) = parts.outputs
      if shape.rank is not None and isinstance(output, Shard):
        size = self._sizes.size(output.partition.size_of(number), number)
        sizes = shape.as_list()
        sizes[output.dim] = size if isinstance(size, int) else None
        shape = tf.TensorShape(sizes)
      attributes[rule.shape_attribute] = tf.compat.v1.AttrValue(
        shape=shape.as_proto()
      )
    return self.definitions.copy(op, name, inputs, waits, attributes)

  def _terms_of(self, op: tf.Operation, inputs: Sequence[str]) -> Sequence[str]:
    """Returns the terms of a slice but the first: none that the first has."""
    layouts = [self._layouts.layout(tensor) for tensor in op.inputs]
    reads = self._layouts.parts[op].reads
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
    mask = self._sizes.constant(random_ops.mask(number), dtype)
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
    divisor = self._sizes.number_of(
      polynomials.product(shape[dim] for dim in sorted(over.sure)), dtype
    )
    return self.definitions.add("RealDiv", name, [total, divisor], T=dtype)

  def _rewire(self, op: tf.Operation) -> None:
    """Decides the inputs of an op that is executed once, data and control."""
    for index, tensor in enumerate(op.inputs):
      if self._is_aggregated(op, tensor):
        self._reads_aggregated.append((op, index))
        continue
      name = self._reshards.read(tensor)
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


def _local_places(
  name: str, places: tf.Tensor, begin: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
  """Returns places that are counted from those of a slice, if they are its."""
  local = places - begin
  is_local = (local >= 0) & (local < count)
  check = tf.raw_ops.Assert(
    condition=tf.reduce_all(tf.reshape(is_local, [-1]), [0]),
    data=[
      f"{name} gathers rows of other examples than its own, which slices of the"
      " batch do not have; leave num_micro_batches and the data axis out"
    ],
  )
  with tf.control_dependencies([check]):
    return tf.identity(local)
