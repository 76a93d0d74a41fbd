"""Transfers: what a placed graph sends between devices, and sending less.

Whatever an op reads from another device is sent in every step, and so is a
signal from each op of another device that it waits for. Four kinds of sends are
needless:

- A variable that is read several times, such as Adam's beta1_power by each
  update, can be read and sent once.
- A small constant can be had on each device that reads it.
- A norm over all weights stacks one scalar per weight. The scalars of a device
  can be stacked there, and sent at once; the order of the numbers, and so the
  rounding of their sum, stays what it was.
- What waits for several ops of another device, such as a training step for the
  update of each variable, can wait for one no-op there that waits for them.
"""

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from compat.private import graph_edits
from estimator_mp import devices
from estimator_mp.graph import control_flow, op_types, tensor_size, traversal
from estimator_mp.placement import costs
from estimator_mp.placement.placement import Transfer

import tensorflow as tf

_SMALL_CONSTANT_BYTES = 1024

_Awaited = frozenset[tf.Operation]


@dataclasses.dataclass(frozen=True)
class JoinedWait:
  """Ops of one device that ops of other devices wait for.

  Attributes:
    stands_for: The ops; a join that is there may wait for others besides.
    device: Their device, where the join is.
    waiting: The ops that wait for all of them.
    join: A no-op of the graph that waits for just these; None if there is none.
  """

  stands_for: _Awaited
  device: str
  waiting: tuple[tf.Operation, ...]
  join: tf.Operation | None


@dataclasses.dataclass(frozen=True)
class MeasuredTransfer:
  """What one device really sent to another in a step.

  Attributes:
    op: The name of the op that made it, in the graph that was executed.
    output: Which of the op's outputs it is.
    source: The device that sent it.
    destination: The device that received it.
    is_signal: Whether it is no tensor of the model: a control dependency
      between devices travels as an empty tensor.
  """

  op: str
  output: int
  source: str
  destination: str
  is_signal: bool


def planned_transfers(ops: Sequence[tf.Operation]) -> list[Transfer]:
  """Returns what the ops of a placed graph send, each tensor once per device.

  Args:
    ops: Ops of one graph; those without a device are left out, as
      TensorFlow may put them beside either side.
  """
  found: dict[tuple[str, str], tuple[tf.Tensor, str]] = {}
  for op in ops:
    for tensor in op.inputs:
      source = tensor.op.device
      crosses = source and op.device and source != op.device
      if crosses and tensor.dtype != tf.resource:
        found[tensor.name, op.device] = (tensor, op.device)
  sizes: dict[str, int] = {}
  if any(not tensor.shape.is_fully_defined() for tensor, _ in found.values()):
    sizes = costs.nominal_bytes(ops)
  return [
    Transfer(
      tensor.name,
      tensor.op.device,
      destination,
      sizes.get(tensor.name) or tensor_size.tensor_bytes(tensor),
    )
    for tensor, destination in found.values()
  ]


def idle_writes(train_op: tf.Operation | tf.Tensor) -> list[str]:
  """Returns the names of ops that change variables, but not in a step.

  So do initializers, and what sets mirrors when a session begins.

  Args:
    train_op: What a training step runs.
  """
  last = getattr(train_op, "op", train_op)
  reached = traversal.ops_run_with(last)
  return [
    op.name
    for op in last.graph.get_operations()
    if op_types.is_write(op) and op not in reached
  ]


def measured_transfers(
  partition_graphs: Iterable[tf.compat.v1.GraphDef],
) -> list[MeasuredTransfer]:
  """Returns what a step really sent between devices.

  TensorFlow cuts a graph into one partition per device, and puts a pair of a
  send and a receive op into each edge that it cuts. Its optimizer works before
  that, so an op may have another name than in the graph that was built.

  Args:
    partition_graphs: `RunMetadata.partition_graphs` of a step.
  """
  found = []
  for partition in partition_graphs:
    nodes = {node.name: node for node in partition.node}
    for node in partition.node:
      if node.op not in op_types.SENDS or node.attr["client_terminated"].b:
        continue
      source, destination = (
        devices.canonical_device(node.attr[name].s.decode())
        for name in ("send_device", "recv_device")
      )
      if source != destination:
        name, _, output = node.input[0].partition(":")
        is_signal = _is_empty_constant(nodes[name])
        op = name.rpartition("/ctrl/")[0] if is_signal else name
        found.append(
          MeasuredTransfer(op, int(output or 0), source, destination, is_signal)
        )
  return found


def _is_empty_constant(node: tf.compat.v1.NodeDef) -> bool:
  """Whether a node is what TensorFlow sends for a control dependency."""
  if node.op != "Const" or "/ctrl/" not in node.name:
    return False
  shape = tf.TensorShape(node.attr["value"].tensor.tensor_shape)
  return shape.num_elements() == 0


def reduce_transfers(ops: Sequence[tf.Operation]) -> None:
  """Changes a placed graph so that it sends less and computes the same.

  Args:
    ops: The ops of the default graph, which no session has run yet.
  """
  with (
    tf.compat.v1.name_scope(None),
    tf.control_dependencies(None),
    tf.compat.v1.name_scope("estimator_mp/"),
  ):
    _merge_reads(ops)
    for op in ops:
      if op.type == "Const":
        _copy_constant(op)
      elif op.type == "Pack":
        _stack_where_made(op)
    for joined in joined_waits(ops):
      _wait_once(joined)


def _merge_reads(ops: Sequence[tf.Operation]) -> None:
  """Sends each variable once to a device, however often it is read.

  Two reads that wait for the same ops may see the same value, so one of them
  serves for both.
  """
  first: dict[Any, tf.Tensor] = {}
  for op in ops:
    if op.type != "ReadVariableOp" or not op.device:
      continue
    value = op.outputs[0]
    waits_for = frozenset(op.control_inputs)
    for consumer in value.consumers():
      if consumer.device not in ("", op.device):
        key = (op.inputs[0].op, waits_for, value.dtype, consumer.device)
        _redirect(consumer, value, first.setdefault(key, value))


def _redirect(consumer: tf.Operation, old: tf.Tensor, new: tf.Tensor) -> None:
  """Makes an op read another tensor wherever it reads the old one."""
  for index, tensor in enumerate(consumer.inputs):
    if tensor is old and new is not old:
      graph_edits.replace_input(consumer, index, new)


def _copy_constant(op: tf.Operation) -> None:
  """Gives each device that reads a small constant a copy of its own."""
  constant = op.outputs[0]
  is_small = tensor_size.tensor_bytes(constant) <= _SMALL_CONSTANT_BYTES
  if not is_small or op.control_inputs or not op.device:
    return
  copies: dict[str, tf.Tensor] = {}
  for consumer in constant.consumers():
    if consumer.device in ("", op.device):
      continue
    if consumer.device not in copies:
      with tf.compat.v1.device(consumer.device):
        copy = op.graph.create_op(
          "Const",
          [],
          [constant.dtype],
          attrs={name: op.node_def.attr[name] for name in ("value", "dtype")},
          name=op.name,
        )
      copies[consumer.device] = copy.outputs[0]
    _redirect(consumer, constant, copies[consumer.device])


def _stack_where_made(op: tf.Operation) -> None:
  """Stacks scalars of another device there, before they are sent."""
  groups: dict[str, list[int]] = {}
  for index, tensor in enumerate(op.inputs):
    device = tensor.op.device
    if device and op.device and device != op.device and tensor.shape.rank == 0:
      groups.setdefault(device, []).append(index)
  for device, indices in groups.items():
    if len(indices) < 2:
      continue
    with tf.compat.v1.device(device):
      together = tf.stack([op.inputs[index] for index in indices])
    with tf.compat.v1.device(op.device):
      apart = tf.unstack(together)
    for index, scalar in zip(indices, apart, strict=True):
      graph_edits.replace_input(op, index, scalar)


def joined_waits(ops: Sequence[tf.Operation]) -> list[JoinedWait]:
  """Returns for which ops of another device one no-op can stand.

  Whatever waited for an op still does, and for no op besides: so no circle is
  closed. Inside of v1 conds and loops, where an op may run never or often,
  everything stays.

  Args:
    ops: The ops of a placed graph, in the order in which they were made.
  """
  waiting = {op: _awaited_elsewhere(op) for op in ops if op.control_inputs}
  waiting = {op: awaited for op, awaited in waiting.items() if awaited}
  if not waiting:
    return []
  conditional = control_flow.ops_in_branches(ops) | control_flow.ops_in_loops(
    ops
  )
  joins = _joins(ops, conditional)
  groups: dict[tuple[_Awaited, str, tf.Operation | None], list] = {}
  for op, awaited in waiting.items():
    left = set(op.control_inputs)
    if op in conditional or not conditional.isdisjoint(left):
      continue
    for device, of_device in awaited.items():
      for join, stands_for in joins.get((device, of_device), ()):
        if _may_stand(join, stands_for, op):
          groups.setdefault((stands_for, device, join), []).append(op)
          left -= stands_for
          break
    for device, of_device in awaited.items():
      if len(of_device & left) > 1:
        key = (of_device & left, device, None)
        groups.setdefault(key, []).append(op)
  return [
    JoinedWait(stands_for, device, tuple(ops_of_group), join)
    for (stands_for, device, join), ops_of_group in groups.items()
  ]


def _awaited_elsewhere(op: tf.Operation) -> dict[str, _Awaited]:
  """Returns what an op waits for, by device, where that is several ops."""
  by_device: dict[str, set[tf.Operation]] = {}
  for before in op.control_inputs:
    if before.device not in ("", op.device):
      by_device.setdefault(before.device, set()).add(before)
  return {
    device: frozenset(before)
    for device, before in by_device.items()
    if len(before) > 1
  }


def _joins(
  ops: Sequence[tf.Operation], conditional: Collection[tf.Operation]
) -> dict[tuple[str, _Awaited], list[tuple[tf.Operation, _Awaited]]]:
  """Returns no-ops, and all that they wait for, by that of their own device."""
  found: dict[tuple[str, _Awaited], list[tuple[tf.Operation, _Awaited]]] = {}
  for op in ops:
    if op.type == "NoOp" and op.device and op not in conditional:
      awaited = frozenset(op.control_inputs)
      local = frozenset(x for x in awaited if x.device == op.device)
      found.setdefault((op.device, local), []).append((op, awaited))
  return found


def _may_stand(
  join: tf.Operation, stands_for: _Awaited, op: tf.Operation
) -> bool:
  """Whether an op may wait for a join instead of what the join waits for."""
  awaited = set(op.control_inputs)
  # Two that wait for the same, here and elsewhere, would wait for each other.
  return stands_for < awaited or (
    stands_for == awaited and all(x.device == join.device for x in awaited)
  )


def _wait_once(joined: JoinedWait) -> None:
  """Lets ops wait for a no-op that waits for what they waited for."""
  join = joined.join
  if join is None:
    with (
      tf.compat.v1.device(joined.device),
      tf.control_dependencies(joined.stands_for),
    ):
      join = tf.no_op("all_done")
  for op in joined.waiting:
    others = [x for x in op.control_inputs if x not in joined.stands_for]
    graph_edits.set_control_inputs(op, [*others, join])
