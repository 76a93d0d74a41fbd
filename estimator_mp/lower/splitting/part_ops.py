"""Part ops: makes what a decision says, beside what is there."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import (
  colocation,
  device_assignment,
  op_types,
  traversal,
)
from estimator_mp.lower.splitting import tables as tables_lib
from estimator_mp.model_axis import inference
from estimator_mp.model_axis import lookups as lookups_lib
from estimator_mp.model_axis.decisions import (
  ByTurns,
  Composite,
  Constants,
  Join,
  Joined,
  LookUp,
  Operand,
  Owned,
  PerPart,
  Resized,
  Shard,
  Shifted,
  Split,
  Table,
  Turned,
  Whole,
)
from estimator_mp.model_axis.inference import Inferred

import tensorflow as tf

_Parts = list[tf.Tensor]

# All entries of what these make are the same.
_UNIFORM = frozenset(["Fill", "OnesLike", "ZerosLike"])

_JOINS: dict[Join, Callable[[_Parts], tf.Tensor]] = {
  Join.SUM: tf.add_n,
  Join.PRODUCT: lambda parts: tf.reduce_prod(tf.stack(parts), 0),
  Join.MAXIMUM: lambda parts: tf.reduce_max(tf.stack(parts), 0),
  Join.MINIMUM: lambda parts: tf.reduce_min(tf.stack(parts), 0),
  Join.ALL: lambda parts: tf.reduce_all(tf.stack(parts), 0),
  Join.ANY: lambda parts: tf.reduce_any(tf.stack(parts), 0),
}


class PartOps:
  """The parts of one graph's split tensors, and the ops that make them.

  Attributes:
    parts: The parts of each split tensor, by its name.
    splits: How these are split.
    wholes: What is to be read instead of a tensor, by its name: a sum over
      devices, or a gather.
    tables: What is looked up in variables that are split by rows.
  """

  def __init__(
    self,
    table: Table,
    devices_of: Callable[[tf.Operation], Sequence[str]],
    made: Callable[[tf.Operation, tf.Operation], None],
  ):
    """Starts without a part.

    Args:
      table: The rules, for what parts make themselves.
      devices_of: Returns the devices of the parts of an op of the model.
      made: Hears of each op that is made, and for which op of the model.
    """
    self.parts: dict[str, _Parts] = {}
    self.splits: dict[str, Split] = {}
    self.wholes: dict[str, tf.Tensor] = {}
    self.writes: dict[tf.Operation, list[tf.Operation]] = {}
    self.tables = tables_lib.Tables(self.whole)
    self._table = table
    self._devices_of = devices_of
    self._made = made
    # What stands for an op that is not to run, for those that wait for it.
    self._instead: dict[tf.Operation, list[tf.Operation]] = {}
    self._slices: dict[tuple[str, Split], _Parts] = {}
    # By tensor and devices, for what each of them has.
    self._constants: dict[tuple[str, tuple[str, ...]], _Parts] = {}
    self._gathers: dict[tuple[str, tuple[str, ...]], _Parts] = {}
    self._of_handles: set[str] = set()  # What is read of phantoms.

  def add(
    self, tensor: tf.Tensor, split: Split, parts: Sequence[tf.Tensor]
  ) -> None:
    """Hears of the parts of a tensor.

    Args:
      tensor: The whole tensor, which need not be computed.
      split: How it is split.
      parts: One on each device.
    """
    self.parts[tensor.name] = list(parts)
    self.splits[tensor.name] = split

  def apply(self, ops: Sequence[tf.Operation], inferred: Inferred) -> None:
    """Makes parts, and lets what is whole read sums and gathers.

    Args:
      ops: The ops that were looked at, in the order of the graph.
      inferred: What becomes of them.
    """
    ops = traversal.in_order(ops)
    lookups = lookups_lib.together(
      ops, inferred.decisions, lambda op: self._devices_of(op)[0]
    )
    for op in ops:
      decision = inferred.decisions.get(op)
      if decision is None:
        self._read_wholes(op)
        self._sort_by_owner(op)
        continue
      with self.making(op):
        if isinstance(decision, LookUp):
          self._look_up(op, decision, lookups[op])
        else:
          self._replace(op, decision)
      if Shard() not in decision.operands:
        self._keep_alive(op)

  def read_wholes(self, ops: Sequence[tf.Operation]) -> bool:
    """Lets ops that are made of whole tensors read what stands for split ones.

    A gradient of the program's own, such as that of a recomputation, reads
    variables once more, and what it has kept of the forward pass.

    Args:
      ops: Ops that nobody has looked at, in their order.

    Returns:
      Whether any op was made.

    Raises:
      inference.Unsplittable: If one works on a variable that is split in
        another way than to read it.
    """
    count = len(self.wholes) + len(self.parts)
    for op in ops:
      phantoms = [x for x in op.inputs if x.name in self.parts]
      handles = [x for x in phantoms if op_types.is_handle(x)]
      if not handles:
        self._read_wholes(op)
      elif op.type != "ReadVariableOp":
        raise inference.Unsplittable(handles[0].op.name, op)
      else:
        with self.making(op):
          split = self.splits[handles[0].name]
          self._replace(op, PerPart((Shard(),), (split,)))
    return len(self.wholes) + len(self.parts) > count

  def let_be_fetched(self, op: tf.Operation) -> None:
    """Lets what is known of a variable that is split be fetched by its name.

    A session that is asked for the variable's object, for what was assigned to
    it, or for whether it is initialized, fetches such an op. The whole value is
    copied for it then, to a variable of its own; a step that does not fetch it
    copies nothing.

    Args:
      op: An op that nothing depends on.
    """
    if op.type == "VarIsInitializedOp" and op.inputs[0].name in self.parts:
      graph_edits.replace_input(op, 0, self.parts[op.inputs[0].name][0])
    if op.type != "ReadVariableOp" or op.outputs[0].name not in self.parts:
      return
    (value,) = op.outputs
    with self.making(op), _on(self._devices_of(op)[0]):
      copy = tf.raw_ops.VarHandleOp(
        dtype=value.dtype, shape=value.shape, shared_name=f"{op.name}/copy"
      )
      write = tf.raw_ops.AssignVariableOp(
        resource=copy, value=self.whole(value)
      )
      with tf.control_dependencies([write]):
        copy = tf.raw_ops.Identity(input=copy)
    graph_edits.replace_input(op, 0, copy)
    graph_edits.set_colocation(op, [])
    graph_edits.set_device(op, copy.device)

  def _look_up(
    self, op: tf.Operation, decision: LookUp, ops: Sequence[tf.Operation]
  ) -> None:
    """Makes what stands for lookups, when the first of them comes."""
    if op is not ops[0]:
      return
    handles = self.parts[op.inputs[0].name]
    with tf.control_dependencies(self._waits(op)):
      rows = self.tables.look_up(
        ops, decision, handles, self._devices_of(op)[0]
      )
    for lookup, whole in zip(ops, rows, strict=True):
      self._of_handles.add(lookup.outputs[0].name)
      self.wholes[lookup.outputs[0].name] = whole
      self._instead[lookup] = [whole.op]

  def _sort_by_owner(self, op: tf.Operation) -> None:
    """Lets optimizers update rows in the order of their shards."""
    if self.tables.finds_distinct_ids(op):
      with self.making(op):
        found = self.tables.sorted_by_owner(op, self._devices_of(op)[0])
      for tensor, whole in zip(op.outputs, found, strict=True):
        self.wholes[tensor.name] = whole

  def _replace(self, op: tf.Operation, decision: PerPart | Composite) -> None:
    """Makes the parts of an op."""
    devices = self._devices_of(op)
    if Shard() in decision.operands:
      self._of_handles.update(tensor.name for tensor in op.outputs)
    inputs = self._inputs(op, decision.operands, devices)
    by_part = [list(part) for part in zip(*inputs, strict=True)]
    if not by_part:
      by_part = [[] for _ in devices]
    if isinstance(decision, Composite):
      with tf.control_dependencies(self._waits(op)):
        outputs = decision.build(op, by_part, lambda i: _on(devices[i]))
      self._keep(op, decision, outputs, devices)
      return
    if not decision.outputs:
      self._write(op, by_part, devices)
      return
    copies = [
      self._copy(op, i, by_part[i], devices[i], decision)
      for i in range(len(devices))
    ]
    self._keep(
      op,
      decision,
      [list(x) for x in zip(*(copy.outputs for copy in copies), strict=True)],
      devices,
    )
    self._instead[op] = copies

  def _inputs(
    self,
    op: tf.Operation,
    operands: Sequence[Operand],
    devices: Sequence[str],
  ) -> list[_Parts]:
    """Returns what each part reads in place of each input of an op."""
    return [
      self.tables.owned(op, index, operand, devices)
      if isinstance(operand, Owned)
      else self._operand(op.inputs[index], operand, devices)
      for index, operand in enumerate(operands)
    ]

  def _keep_alive(self, op: tf.Operation) -> None:
    """Lets what parts stand for still be fetched by its name, gathered."""
    for index, tensor in enumerate(op.inputs):
      if tensor.name in self._of_handles:
        graph_edits.replace_input(op, index, self.whole(tensor))

  def _keep(
    self,
    op: tf.Operation,
    decision: PerPart | Composite,
    outputs: Sequence[tf.Tensor | _Parts],
    devices: Sequence[str],
  ) -> None:
    """Keeps what stands for an op's outputs."""
    instead: list[tf.Operation] = []
    for tensor, output, made in zip(
      op.outputs, decision.outputs, outputs, strict=True
    ):
      if isinstance(output, Split):
        assert isinstance(made, list)
        self.add(tensor, output, made)
        instead += [part.op for part in made]
      elif isinstance(made, list):
        self.wholes[tensor.name] = self._joined(tensor, output, made, devices)
      else:
        self.wholes[tensor.name] = made
        instead.append(made.op)
    self._instead[op] = instead

  def _joined(
    self,
    tensor: tf.Tensor,
    output: Joined,
    parts: _Parts,
    devices: Sequence[str],
  ) -> tf.Tensor:
    """Returns what parts join to, on the first device."""
    if output.join is Join.FIRST:
      return parts[0]
    with _on(devices[0]):
      whole = _JOINS[output.join](parts)
    whole.set_shape(tensor.shape)
    return whole

  def _write(
    self,
    op: tf.Operation,
    inputs: Sequence[_Parts],
    devices: Sequence[str],
  ) -> None:
    """Makes a write of a variable one of its first shard; others join it.

    Whoever runs it, or waits for it, has all shards written.
    """
    others = [
      self._copy(op, i, inputs[i], inputs[i][0].device or devices[i])
      for i in range(1, len(devices))
    ]
    for index, tensor in enumerate(inputs[0]):
      if not tensor.shape.is_compatible_with(op.inputs[index].shape):
        # TensorFlow compares what an op reads with what it has read before.
        with _on(tensor.device):
          tensor = tf.raw_ops.PlaceholderWithDefault(
            input=tensor, shape=tf.TensorShape(None)
          )
      graph_edits.replace_input(op, index, tensor)
    if op.type == "AssignVariableOp":
      # Who loads a whole variable, by feeding this op, is not to write a shard.
      graph_edits.set_check_of_shapes(op)
    self.colocate(op, op, 0)
    waits = self._waits(op)
    graph_edits.set_control_inputs(op, [*waits, *others])
    self.writes[op] = [op, *others]

  def _copy(
    self,
    op: tf.Operation,
    part: int,
    inputs: Sequence[tf.Tensor],
    device: str,
    decision: PerPart | None = None,
  ) -> tf.Operation:
    """Returns an op of the same type for one part."""
    attributes = {
      name: value
      for name, value in op.node_def.attr.items()
      if not name.startswith("_")
    }
    if decision is not None and decision.attributes:
      attributes.update(decision.attributes[part])
    with _on(device), tf.control_dependencies(self._waits(op)):
      copy = op.graph.create_op(
        op.type,
        list(inputs),
        [tensor.dtype for tensor in op.outputs],
        [tensor.dtype for tensor in inputs],
        f"part_{part}",
        attributes,
      )
    if op.type in op_types.SWITCHES:
      graph_edits.set_branch(copy, op)
    self.colocate(copy, op, part)
    return copy

  def colocate(self, copy: tf.Operation, op: tf.Operation, part: int) -> None:
    """Puts an op of a part beside the shards that its op is beside of.

    Args:
      copy: The op.
      op: The op of the model that it stands for.
      part: The number of the part.
    """
    names = colocation.colocated_with(op)
    shards = [self.parts.get(f"{name}:0") for name in names]
    beside = [
      of_parts[part].op
      for of_parts in shards
      if of_parts and op_types.is_variable(of_parts[part].op)
    ]
    if beside:  # A shard may have moved to another replica.
      graph_edits.set_device(copy, beside[0].device)
    if beside or (names and copy is op):
      graph_edits.set_colocation(copy, [shard.name for shard in beside])

  def _waits(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns what an op has to wait for besides its inputs."""
    return [
      other
      for before in op.control_inputs
      for other in self._instead.get(before, [before])
    ]

  def _operand(
    self, tensor: tf.Tensor, operand: Operand, devices: Sequence[str]
  ) -> _Parts:
    """Returns what each part reads in place of an input."""
    if isinstance(operand, Shard):
      return self.parts[tensor.name]
    if isinstance(operand, Split):
      return self._split(tensor, operand, devices)
    if isinstance(operand, Turned):
      return self._turned(tensor, operand.split, devices)
    if isinstance(operand, Constants):
      return [
        _constant(value, tensor.dtype, device)
        for value, device in zip(operand.values, devices, strict=True)
      ]
    if isinstance(operand, Whole) and inference.is_small_constant(tensor):
      return self._on_each(tensor, devices)
    if isinstance(operand, Resized):
      return self._resized(self.whole(tensor), operand, devices)
    wholes = self._gathered(tensor, devices)
    if isinstance(operand, Whole):
      return wholes
    assert isinstance(operand, Shifted)
    return [
      _shifted(whole, offset, device)
      for whole, offset, device in zip(
        wholes, operand.offsets, devices, strict=True
      )
    ]

  def _gathered(self, tensor: tf.Tensor, devices: Sequence[str]) -> _Parts:
    """Returns the whole tensor for each part, which gathers it itself.

    So no part is sent to the first device and then, with all others, from there
    to the rest.
    """
    parts = self.parts.get(tensor.name)
    if parts is None:
      return [self.whole(tensor)] * len(devices)
    key = (tensor.name, tuple(devices))
    if key not in self._gathers:
      self._gathers[key] = [self.whole(tensor)]
      axis = self.splits[tensor.name].axis
      for device in devices[1:]:
        with _on(device):
          whole = tf.concat(parts, axis, name="gathered")
        whole.set_shape(tensor.shape)
        self._gathers[key].append(whole)
    return self._gathers[key]

  def _on_each(self, constant: tf.Tensor, devices: Sequence[str]) -> _Parts:
    """Returns a constant of each device's own, so that none is sent."""
    key = (constant.name, tuple(devices))
    if key not in self._constants:
      self._constants[key] = [
        constant,
        *(
          self._copy(constant.op, i, [], devices[i]).outputs[0]
          for i in range(1, len(devices))
        ),
      ]
    return self._constants[key]

  def _resized(
    self, shape: tf.Tensor, operand: Resized, devices: Sequence[str]
  ) -> _Parts:
    """Returns a vector with another element for each part."""
    known = tf.get_static_value(shape, partial=True)
    if known is None:
      known = [None] * int(shape.shape[0])
    parts = []
    for size, device in zip(operand.sizes, devices, strict=True):
      with _on(device):
        elements = [
          shape[i] if value is None else tf.constant(int(value), shape.dtype)
          for i, value in enumerate(known)
        ]
        elements[operand.index] = tf.constant(size, shape.dtype)
        parts.append(tf.stack(elements))
    return parts

  def _split(
    self, tensor: tf.Tensor, split: Split, devices: Sequence[str]
  ) -> _Parts:
    """Returns the parts of a tensor, which are made if it is whole."""
    parts = self.parts.get(tensor.name)
    if parts is not None and self.splits[tensor.name] == split:
      return parts
    key = (tensor.name, split)
    if key not in self._slices:
      made = self._made_by_source(tensor, split, devices)
      if made is None:
        made = self._sliced(tensor, split, devices)
      self._slices[key] = made
    return self._slices[key]

  def _turned(
    self, tensor: tf.Tensor, split: ByTurns, devices: Sequence[str]
  ) -> _Parts:
    """Returns every Nth row of a tensor for each part."""
    if tensor.op.type in _UNIFORM:  # So any rows will do.
      return self._split(tensor, Split(0, split.sizes), devices)
    whole = self.whole(tensor)
    with _on(tensor.op.device or devices[0]):
      return [whole[i :: len(devices)] for i in range(len(devices))]

  def _made_by_source(
    self, tensor: tf.Tensor, split: Split, devices: Sequence[str]
  ) -> _Parts | None:
    """Returns parts that each device makes itself of nothing, such as zeros."""
    op = tensor.op
    if tensor.name in self.parts or tensor.name in self.wholes:
      return None
    decision = inference.source(self._table, op, split)
    if decision is None or not inference.is_repeatable(
      self._table, tensor, split
    ):
      return None
    inputs = self._inputs(op, decision.operands, devices)
    return [
      self._copy(op, i, [x[i] for x in inputs], devices[i], decision).outputs[0]
      for i in range(len(devices))
    ]

  def _sliced(
    self, tensor: tf.Tensor, split: Split, devices: Sequence[str]
  ) -> _Parts:
    """Returns slices of a whole tensor, made where it is."""
    whole = self.whole(tensor)
    with _on(tensor.op.device or devices[0]):
      parts: _Parts = tf.split(whole, split.sizes, split.axis)
    return parts

  def whole(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what holds the whole tensor: itself, a sum or a gather.

    Args:
      tensor: A tensor of the model.
    """
    if tensor.name in self.parts and tensor.name not in self.wholes:
      parts = self.parts[tensor.name]
      with self.making(tensor.op), _on(self._devices_of(tensor.op)[0]):
        gathered = tf.concat(
          parts, self.splits[tensor.name].axis, name="gathered"
        )
      gathered.set_shape(tensor.shape)
      self.wholes[tensor.name] = gathered
    return self.wholes.get(tensor.name, tensor)

  def _read_wholes(self, op: tf.Operation) -> None:
    """Lets an op that is whole read, and wait for, what stands for others."""
    for index, tensor in enumerate(op.inputs):
      whole = self.whole(tensor)
      if whole is not tensor:
        graph_edits.replace_input(op, index, whole)
    if not self._instead.keys().isdisjoint(op.control_inputs):
      graph_edits.set_control_inputs(op, self._waits(op))

  @contextlib.contextmanager
  def making(self, op: tf.Operation) -> Iterator[None]:
    """Names what is made for an op after it, and tells of it.

    Args:
      op: An op of the model.

    Yields:
      None.
    """
    graph = op.graph
    count = len(graph.get_operations())
    with (
      tf.compat.v1.name_scope(None),
      tf.control_dependencies(None),
      graph.colocate_with(None, ignore_existing=True),
      tf.compat.v1.device(None),
      tf.compat.v1.name_scope("estimator_mp/split/"),
      tf.compat.v1.name_scope(op.name),
    ):
      yield
    for new in graph.get_operations()[count:]:
      self._made(new, op)


def _on(device: str) -> AbstractContextManager[None]:
  """Returns a context whose ops are on a device, or its host."""
  place = device_assignment.device_function(device)
  context: AbstractContextManager[None] = tf.compat.v1.device(place)
  return context


def _constant(value: Any, dtype: tf.DType, device: str) -> tf.Tensor:
  """Returns a constant on a device."""
  with _on(device):
    return tf.constant(value, dtype)


def _shifted(tensor: tf.Tensor, offset: int, device: str) -> tf.Tensor:
  """Returns a tensor less a number, on a device."""
  if not offset:
    return tensor
  with _on(device):
    return tensor - tf.constant(offset, tensor.dtype)
