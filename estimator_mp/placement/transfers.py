"""Transfers of a placed graph between devices, and sending less.

An op's inputs from other devices are sent in every step, and so is a signal
from each op of another device that it waits for. Five kinds of sends are
needless:

- A variable that is read several times, such as Adam's beta1_power by each
  update, can be read and sent once.
- A value that is computed several times, such as the term that each layer of
  BERT adds to its scores, of the same mask, can be sent once.
- A small constant that the program has not named can be copied to each device
  that reads it.
- A norm over all weights stacks one scalar per weight. The scalars of a device
  can be stacked there, and sent at once; the order of the numbers, and so the
  rounding of their sum, stays what it was.
- An op that waits for several ops of another device, such as a train_op for the
  update of each variable, can wait for one no-op there that waits for them.
"""

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Sequence

from estimator_mp.config.placement import Transfer
from estimator_mp.graph import (
  control_flow,
  feeds,
  same_ops,
  shapes,
  traversal,
)
from estimator_mp.placement import costs

import tensorflow as tf

_SMALL_CONSTANT_BYTES = 1024

_Awaited = frozenset[tf.Operation]


@dataclasses.dataclass(frozen=True)
class Reader:
  """An input of an op, by its index."""

  op: tf.Operation
  index: int


@dataclasses.dataclass(frozen=True)
class SharedValue:
  """A tensor that stands for others of its device that have the same value.

  Attributes:
    value: The tensor.
    readers: The inputs of ops on another device that are to read it, instead of
      the others.
  """

  value: tf.Tensor
  readers: tuple[Reader, ...]


@dataclasses.dataclass(frozen=True)
class CopiedConstant:
  """A constant that another device gets a copy of.

  Attributes:
    constant: The constant.
    device: The other device.
    readers: The inputs of ops that are to read the copy.
  """

  constant: tf.Operation
  device: str
  readers: tuple[Reader, ...]


@dataclasses.dataclass(frozen=True)
class StackedScalars:
  """Scalars of another device that an op stacks.

  Attributes:
    op: The op.
    device: The device that makes them.
    indices: Which of its inputs they are.
  """

  op: tf.Operation
  device: str
  indices: tuple[int, ...]


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
class Savings:
  """Changes of a graph that sends less and computes the same.

  Attributes:
    shared_values: Tensors that are sent in place of others of the same value.
    copied_constants: Constants that other devices get copies of.
    stacked_scalars: Scalars that are sent at once.
    joined_waits: Ops that one no-op stands for.
  """

  shared_values: Sequence[SharedValue]
  copied_constants: Sequence[CopiedConstant]
  stacked_scalars: Sequence[StackedScalars]
  joined_waits: Sequence[JoinedWait]


def planned_transfers(ops: Sequence[tf.Operation]) -> list[Transfer]:
  """Returns the transfers of a placed graph, each tensor once per device.

  Args:
    ops: Ops of one graph; those without a device are left out, as
      TensorFlow may put them beside either side.
  """
  sends: dict[tuple[str, str], tuple[tf.Tensor, str]] = {}
  for op in ops:
    for tensor in op.inputs:
      source = tensor.op.device
      crosses = source and op.device and source != op.device
      if crosses and tensor.dtype != tf.resource:
        sends[tensor.name, op.device] = (tensor, op.device)
  sizes: dict[str, int] = {}
  if any(not tensor.shape.is_fully_defined() for tensor, _ in sends.values()):
    sizes = costs.nominal_bytes(ops)
  return [
    Transfer(
      tensor.name,
      tensor.op.device,
      destination,
      sizes.get(tensor.name) or shapes.tensor_bytes(tensor),
    )
    for tensor, destination in sends.values()
  ]


def ops_of_step(train_op: tf.Operation | tf.Tensor) -> list[tf.Operation]:
  """Returns the ops that a training step runs, in the order of the graph.

  If the model is split, nothing runs the ops that parts stand for.

  Args:
    train_op: The op of a training step.
  """
  reached = traversal.ops_run_with(train_op)
  return [op for op in train_op.graph.get_operations() if op in reached]


def find_savings(ops: Sequence[tf.Operation]) -> Savings:
  """Returns the changes by which a placed graph sends less.

  Args:
    ops: The ops of the graph, in the order in which they were made.
  """
  sent = _tensors_sent(ops)
  copied_constants = _copied_constants(sent)
  local = {reader for copied in copied_constants for reader in copied.readers}
  scalars = [
    stacked
    for op in ops
    if op.type == "Pack"
    for stacked in _stacked_scalars(op, local)
  ]
  return Savings(
    _shared_values(sent),
    copied_constants,
    scalars,
    joined_waits(ops),
  )


@dataclasses.dataclass(frozen=True)
class _Sent:
  """A tensor that other devices read.

  Attributes:
    tensor: The tensor.
    readers: The inputs of ops that read it, by device.
  """

  tensor: tf.Tensor
  readers: dict[str, list[Reader]]


def _tensors_sent(ops: Sequence[tf.Operation]) -> list[_Sent]:
  """Returns the tensors that are read elsewhere, in the order of the graph."""
  places = {op: (number, op.device) for number, op in enumerate(ops)}
  sends: dict[tuple[int, int], _Sent] = {}
  for op, (_, device) in places.items():
    for index, tensor in enumerate(op.inputs if device else ()):
      number, source = places.get(tensor.op, (-1, ""))
      if source not in ("", device):
        sent = sends.setdefault((number, tensor.value_index), _Sent(tensor, {}))
        sent.readers.setdefault(device, []).append(Reader(op, index))
  return [sends[key] for key in sorted(sends)]


def _shared_values(sent: Iterable[_Sent]) -> list[SharedValue]:
  """Returns the values that are read or computed several times, sent once.

  Two reads of a variable that wait for the same ops may see the same value, so
  one of them serves for both.
  """
  same = same_ops.SameOps()
  first: dict[Hashable, tf.Tensor] = {}
  others: dict[Hashable, list[Reader]] = {}
  for each in sent:
    op = each.tensor.op
    if not op.inputs:
      continue
    value: Hashable = same.first(op), each.tensor.value_index
    if op.type == "ReadVariableOp":
      waits = frozenset(op.control_inputs)
      value = op.inputs[0].name, waits, each.tensor.dtype
    for device, readers in each.readers.items():
      key = value, device
      if first.setdefault(key, each.tensor) is not each.tensor:
        others.setdefault(key, []).extend(readers)
  return [SharedValue(first[key], tuple(others[key])) for key in others]


def _copied_constants(sent: Iterable[_Sent]) -> list[CopiedConstant]:
  """Returns the devices that are to have a copy of a small constant."""
  return [
    CopiedConstant(each.tensor.op, device, tuple(readers))
    for each in sent
    if feeds.can_be_copied(each.tensor.op)
    and shapes.tensor_bytes(each.tensor) <= _SMALL_CONSTANT_BYTES
    for device, readers in each.readers.items()
  ]


def _stacked_scalars(
  op: tf.Operation, local: Collection[Reader]
) -> list[StackedScalars]:
  """Returns the scalars of a stack that are stacked on their own device."""
  by_device: dict[str, list[int]] = {}
  place = op.device
  for index, tensor in enumerate(op.inputs if place else ()):
    device = tensor.op.device
    crosses = device and device != place
    if crosses and tensor.shape.rank == 0 and Reader(op, index) not in local:
      by_device.setdefault(device, []).append(index)
  return [
    StackedScalars(op, device, tuple(indices))
    for device, indices in by_device.items()
    if len(indices) > 1
  ]


def joined_waits(ops: Sequence[tf.Operation]) -> list[JoinedWait]:
  """Returns the ops of other devices that one no-op can stand for.

  Each op waits for the same ops as before, so that there is no cycle. Ops in v1
  conds and loops, which may run never or often, stay unchanged.

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
  groups: dict[
    tuple[_Awaited, str, tf.Operation | None], list[tf.Operation]
  ] = {}
  for op, awaited in waiting.items():
    waits = set(op.control_inputs)
    if op in conditional or not conditional.isdisjoint(waits):
      continue
    for device, of_device in awaited.items():
      for join, stands_for in joins.get((device, of_device), ()):
        if _may_stand(join, stands_for, op):
          groups.setdefault((stands_for, device, join), []).append(op)
          waits -= stands_for
          break
    for device, of_device in awaited.items():
      if len(of_device & waits) > 1:
        key = (of_device & waits, device, None)
        groups.setdefault(key, []).append(op)
  return [
    JoinedWait(stands_for, device, tuple(ops_of_group), join)
    for (stands_for, device, join), ops_of_group in groups.items()
  ]


def _awaited_elsewhere(op: tf.Operation) -> dict[str, _Awaited]:
  """Returns the ops that an op waits for, by device, where they are several."""
  by_device: dict[str, set[tf.Operation]] = {}
  here = ("", op.device)
  for before in op.control_inputs:
    device = before.device
    if device not in here:
      by_device.setdefault(device, set()).add(before)
  return {
    device: frozenset(before)
    for device, before in sorted(by_device.items())
    if len(before) > 1
  }


def _joins(
  ops: Sequence[tf.Operation], conditional: Collection[tf.Operation]
) -> dict[tuple[str, _Awaited], list[tuple[tf.Operation, _Awaited]]]:
  """Returns no-ops, with all ops that they wait for, by those of a device."""
  joins: dict[tuple[str, _Awaited], list[tuple[tf.Operation, _Awaited]]] = {}
  for op in ops:
    if op.type == "NoOp" and op.device and op not in conditional:
      awaited = frozenset(op.control_inputs)
      local = frozenset(x for x in awaited if x.device == op.device)
      joins.setdefault((op.device, local), []).append((op, awaited))
  return joins


def _may_stand(
  join: tf.Operation, stands_for: _Awaited, op: tf.Operation
) -> bool:
  """Whether an op may wait for a join instead of the join's ops."""
  awaited = set(op.control_inputs)
  # Two that wait for the same, here and elsewhere, would wait for each other.
  return stands_for < awaited or (
    stands_for == awaited and all(x.device == join.device for x in awaited)
  )
