"""Part ops: makes what decisions say, beside what is there."""

from collections.abc import Sequence

from compat.private import graph_edits
from estimator_mp.graph import op_types, traversal
from estimator_mp.lower.splitting import copies, part_maker
from estimator_mp.lower.splitting import operands as operands_lib
from estimator_mp.model_axis import lookups as lookups_lib
from estimator_mp.model_axis.decisions import (
  Composite,
  LookUp,
  OnCopies,
  OwnShard,
  Partial,
  PerPart,
  Reduction,
  Replicate,
  Shard,
)
from estimator_mp.model_axis.inference import Inferred
from estimator_mp.propagate.splits import Unsplittable

import tensorflow as tf

_Parts = list[tf.Tensor]

# The type of the op that joins a tensor whose first dimension is of the parts.
_REDUCTIONS = {
  Reduction.PRODUCT: "Prod",
  Reduction.MAXIMUM: "Max",
  Reduction.MINIMUM: "Min",
  Reduction.ALL: "All",
  Reduction.ANY: "Any",
}


class PartOps:
  """Makes the ops of parts, and lets other ops read their outputs.

  Attributes:
    tensors: The split tensors, and the tensors that stand for them.
    writes: The writes of all shards, by that of the variable.
    tables: The lookups and sparse updates of variables split by rows.
  """

  def __init__(self, tensors: operands_lib.Operands):
    """Starts with nothing made.

    Args:
      tensors: The tensors that are split so far, and their parts.
    """
    self.tensors = tensors
    self.writes: dict[tf.Operation, list[tf.Operation]] = {}
    self.tables = tensors.tables
    self._maker = tensors.maker
    self._of_handles: set[str] = set()  # Tensors read of phantoms, by name.

  def is_replaced(self, op: tf.Operation) -> bool:
    """Whether parts are there in place of an op.

    Args:
      op: An op of the model.
    """
    return op in self._maker.instead

  def to_run(self, op: tf.Operation) -> tf.Operation:
    """Returns what is to run for an op: itself, or all that stands for it.

    Args:
      op: An op of the model.
    """
    instead = self._maker.instead.get(op, [op])
    return instead[0] if len(instead) == 1 else tf.group(*instead)

  def apply(self, ops: Sequence[tf.Operation], inferred: Inferred) -> None:
    """Makes parts, and lets ops executed once read sums and gathers.

    Args:
      ops: The ops that were looked at, in the order of the graph.
      inferred: The splits, decisions and gathers that were inferred for them.
    """
    ops = traversal.in_order(ops)
    lookups = lookups_lib.together(
      ops, inferred.decisions, lambda op: self._maker.devices_of(op)[0]
    )
    for op in ops:
      decision = inferred.decisions.get(op)
      if decision is None:
        self._read_wholes(op)
        self._sort_by_owner(op)
        continue
      with self._maker.making(op):
        if isinstance(decision, LookUp):
          self._look_up(op, decision, lookups[op])
        elif isinstance(decision, OnCopies):
          self._work_on_copies(op, decision)
        else:
          self._replace(op, decision)
      if OwnShard() not in decision.operands:
        self._keep_alive(op)

  def read_wholes(self, ops: Sequence[tf.Operation]) -> bool:
    """Lets ops that are made of whole tensors read what stands for split ones.

    A gradient of the program's own, such as that of a recomputation, reads
    variables once more, and what it has kept of the forward pass.

    Args:
      ops: Ops that have not been visited, in their order.

    Returns:
      Whether any op was made.

    Raises:
      Unsplittable: If one works on a variable that is split in
        another way than to read it.
    """
    count = len(self.tensors.wholes) + len(self.tensors.parts)
    for op in ops:
      phantoms = [x for x in op.inputs if x.name in self.tensors.parts]
      handles = [x for x in phantoms if op_types.is_handle(x)]
      if not handles:
        self._read_wholes(op)
      elif op.type != "ReadVariableOp":
        raise Unsplittable(handles[0].op.name, op)
      else:
        with self._maker.making(op):
          split = self.tensors.splits[handles[0].name]
          self._replace(op, PerPart((OwnShard(),), (split,)))
    return len(self.tensors.wholes) + len(self.tensors.parts) > count

  def let_be_fetched(self, op: tf.Operation) -> None:
    """Lets what is known of a variable that is split be fetched by its name.

    A session that is asked for the variable's object, for what was assigned to
    it, or for whether it is initialized, fetches such an op. The whole value is
    copied for it then, to a variable of its own; a step that does not fetch it
    copies nothing.

    Args:
      op: An op that nothing depends on.
    """
    if (
      op.type == "VarIsInitializedOp"
      and op.inputs[0].name in self.tensors.parts
    ):
      shard = self.tensors.parts[op.inputs[0].name][0]
      graph_edits.replace_input(op, 0, shard)
      graph_edits.set_colocation(op, [])
      graph_edits.set_device(op, shard.device)  # ZeRO may have moved it.
    if (
      op.type != "ReadVariableOp"
      or op.outputs[0].name not in self.tensors.parts
    ):
      return
    (value,) = op.outputs
    with self._maker.making(op), part_maker.on(self._maker.devices_of(op)[0]):
      copy = tf.raw_ops.VarHandleOp(
        dtype=value.dtype, shape=value.shape, shared_name=f"{op.name}/copy"
      )
      write = tf.raw_ops.AssignVariableOp(
        resource=copy, value=self.tensors.whole(value)
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
    handles = self.tensors.parts[op.inputs[0].name]
    with tf.control_dependencies(self._maker.waits(op)):
      rows = self.tables.look_up(
        ops, decision, handles, self._maker.devices_of(op)[0]
      )
    for lookup, whole in zip(ops, rows, strict=True):
      self._of_handles.add(lookup.outputs[0].name)
      self.tensors.wholes[lookup.outputs[0].name] = whole
      self._maker.instead[lookup] = [whole.op]

  def _work_on_copies(self, op: tf.Operation, decision: OnCopies) -> None:
    """Makes what stands for an op that has no rule, and no gradient."""
    device = self._maker.devices_of(op)[0]
    outputs, written = copies.work_on_copies(op, decision, self.tensors, device)
    for tensor, output in zip(op.outputs, outputs, strict=True):
      self.tensors.wholes[tensor.name] = output
    self._maker.instead[op] = [written]

  def _sort_by_owner(self, op: tf.Operation) -> None:
    """Lets optimizers update rows in the order of their shards."""
    if self.tables.finds_distinct_ids(op):
      with self._maker.making(op):
        found = self.tables.sorted_by_owner(op, self._maker.devices_of(op)[0])
      for tensor, whole in zip(op.outputs, found, strict=True):
        self.tensors.wholes[tensor.name] = whole

  def _replace(self, op: tf.Operation, decision: PerPart | Composite) -> None:
    """Makes the parts of an op."""
    devices = self._maker.devices_of(op)
    if OwnShard() in decision.operands:
      self._of_handles.update(tensor.name for tensor in op.outputs)
    inputs = self.tensors.inputs(op, decision.operands, devices)
    by_part = [list(part) for part in zip(*inputs, strict=True)]
    if not by_part:
      by_part = [[] for _ in devices]
    if isinstance(decision, Composite):
      with tf.control_dependencies(self._maker.waits(op)):
        outputs = decision.build(
          op, by_part, lambda i: part_maker.on(devices[i])
        )
      self._keep(op, decision, outputs, devices)
      return
    if not decision.outputs:
      self._write(op, by_part, devices)
      return
    copies = self._maker.copies(op, by_part, devices, decision)
    self._keep(
      op,
      decision,
      [list(x) for x in zip(*(copy.outputs for copy in copies), strict=True)],
      devices,
    )
    self._maker.instead[op] = copies

  def _keep_alive(self, op: tf.Operation) -> None:
    """Lets what parts stand for still be fetched by its name, gathered."""
    for index, tensor in enumerate(op.inputs):
      if tensor.name in self._of_handles:
        graph_edits.replace_input(op, index, self.tensors.whole(tensor))

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
      if isinstance(output, Shard):
        assert isinstance(made, list)
        self.tensors.add(tensor, output, made)
        instead += [part.op for part in made]
      elif isinstance(made, list):
        self.tensors.wholes[tensor.name] = self._joined(
          tensor, output, made, devices
        )
      else:
        self.tensors.wholes[tensor.name] = made
        instead.append(made.op)
    self._maker.instead[op] = instead

  def _joined(
    self,
    tensor: tf.Tensor,
    output: Partial | Replicate,
    parts: _Parts,
    devices: Sequence[str],
  ) -> tf.Tensor:
    """Returns what parts join to, on the first device."""
    if isinstance(output, Replicate):
      return parts[0]
    if output.reduction is Reduction.SUM:
      whole = self._maker.add(parts, devices[0])
    else:
      whole = self._maker.reduce(
        _REDUCTIONS[output.reduction], parts, devices[0]
      )
    whole.set_shape(tensor.shape)
    return whole

  def _write(
    self,
    op: tf.Operation,
    inputs: Sequence[_Parts],
    devices: Sequence[str],
  ) -> None:
    """Makes a write of a variable one of its first shard; others join it.

    An op that runs it, or waits for it, has all shards written.
    """
    places = [
      read[0].device or device
      for read, device in zip(inputs, devices, strict=True)
    ]
    others = self._maker.copies(op, inputs[1:], places[1:], first=1)
    for index, tensor in enumerate(inputs[0]):
      if not tensor.shape.is_compatible_with(op.inputs[index].shape):
        # TensorFlow compares what an op reads with what it has read before.
        tensor = self._maker.of_any_shape(tensor)
      graph_edits.replace_input(op, index, tensor)
    if op.type == "AssignVariableOp":
      # Who loads a whole variable, by feeding this op, is not to write a shard.
      graph_edits.set_check_of_shapes(op)
    self._maker.colocate([op], op)
    waits = self._maker.waits(op)
    graph_edits.set_control_inputs(op, [*waits, *others])
    self.writes[op] = [op, *others]

  def _read_wholes(self, op: tf.Operation) -> None:
    """Lets an op that is whole read, and wait for, what stands for others."""
    for index, tensor in enumerate(op.inputs):
      whole = self.tensors.whole(tensor)
      if whole is not tensor:
        graph_edits.replace_input(op, index, whole)
    if not self._maker.instead.keys().isdisjoint(op.control_inputs):
      graph_edits.set_control_inputs(op, self._maker.waits(op))
