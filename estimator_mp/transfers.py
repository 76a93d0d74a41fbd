"""Transfers: what a placed graph sends between devices, and sending less.

Whatever an op reads from another device is sent in every step. Three kinds of
sends are needless:

- A variable that is read several times, such as Adam's beta1_power by each
  update, can be read and sent once.
- A small constant can be had on each device that reads it.
- A norm over all weights stacks one scalar per weight. The scalars of a device
  can be stacked there, and sent at once; the order of the numbers, and so the
  rounding of their sum, stays what it was.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from compat import private_graph
from estimator_mp import costs, devices, graph_slice, tensor_size

import tensorflow as tf

_SMALL_CONSTANT_BYTES = 1024
_SEND_OPS = frozenset(["_Send", "_HostSend"])


@dataclasses.dataclass(frozen=True)
class Transfer:
  """A tensor that one device sends to another in every step.

  Attributes:
    tensor: Its name.
    source: The device that makes it.
    destination: The device that reads it.
    num_bytes: Its bytes, for a nominal batch where the batch is unknown.
  """

  tensor: str
  source: str
  destination: str
  num_bytes: int


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
  reached = graph_slice.ops_run_with(last)
  return [
    op.name
    for op in last.graph.get_operations()
    if graph_slice.is_write(op) and op not in reached
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
      if node.op not in _SEND_OPS or node.attr["client_terminated"].b:
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
      private_graph.replace_input(consumer, index, new)


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
      private_graph.replace_input(op, index, scalar)
