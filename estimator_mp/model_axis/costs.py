"""Costs: traffic between the devices of a model axis in a training step.

TensorFlow sends a tensor once to each device that reads it, however many ops
read it there. Whole tensors are on the first device of the axis; so

- what each part of an op reads whole goes to each other device, once, but for
  constants, of which each device has a copy;
- what parts sum goes from each other device to the first one;
- a split tensor that is gathered, too, part by part, once for all readers;
  where parts read all of it, each device gathers it itself;
- of a whole tensor that is read in slices each other device gets its own;
- of rows that are looked up each device sends its own, and gets their numbers.

Backward everything goes the other way: the gradient of what was read on all
devices is summed over them, that of a sum is read on all. Only rows of a table
stay on the first device until an update sends them.
"""

import dataclasses
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from types import MappingProxyType

from estimator_mp.collectives.exchange import RowOwners
from estimator_mp.graph import op_types, same_ops, shapes, traversal
from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import (
  Composite,
  LookUp,
  OnCopies,
  Operand,
  Owned,
  Partial,
  PerPart,
  Replicate,
  Resized,
  Shard,
  Shifted,
  Table,
)
from estimator_mp.model_axis.inference import Inferred
from estimator_mp.plan.split_plan import (
  BROADCAST,
  EXCHANGE,
  GATHER,
  SLICE,
  Sent,
)

import tensorflow as tf


def without_repeats(
  sent: Sequence[Sent], ops: Sequence[tf.Operation], inferred: Inferred
) -> tuple[Sent, ...]:
  """Returns the traffic if a tensor computed several times is sent once.

  Args:
    sent: The traffic if it is sent several times.
    ops: The ops, in the order of the graph.
    inferred: The splits, decisions and gathers that were inferred for them.
  """
  graph = ops[0].graph if ops else tf.compat.v1.get_default_graph()
  same = same_ops.SameOps()
  values: set[Hashable] = set()
  found: list[Sent] = []
  for each in sent:
    if each.kind == BROADCAST and each.tensor not in inferred.splits:
      tensor = traversal.tensor_of_name(graph, each.tensor)
      value = same.first(tensor.op), tensor.value_index
      if value in values:
        each = dataclasses.replace(each, forward_bytes=0)
      values.add(value)
    if each.num_bytes:
      found.append(each)
  return tuple(found)


def tensors_with_gradients(
  ops: Sequence[tf.Operation],
  variables: Collection[str],
  targets: Collection[tf.Operation] | None = None,
) -> frozenset[str]:
  """Returns the names of the tensors that a gradient goes through.

  Args:
    ops: Forward ops, in the order of the graph.
    variables: The names of the ops of the variables that are trained.
    targets: The ops whose gradients are asked for; None for all that is
      computed from the variables.
  """
  before = set(ops if targets is None else traversal.ancestors(targets, ops))
  found: set[str] = set()
  for op in ops:
    if op not in before or op.type in _WITHOUT_GRADIENT:
      continue
    if any(
      tensor.name in found or tensor.op.name in variables
      for tensor in op.inputs
    ):
      found.update(
        tensor.name
        for tensor in op.outputs
        if tensor.dtype.is_floating or tensor.dtype.is_complex
      )
  return frozenset(found)


_WITHOUT_GRADIENT = op_types.SHAPE_ONLY | {"StopGradient"}


class Traffic:
  """Tells what is sent, for several splits of variables of the same ops."""

  def __init__(
    self,
    ops: Sequence[tf.Operation],
    num_parts: int,
    table: Table,
    differentiated: Collection[str] = (),
    num_bytes: Mapping[str, int] = MappingProxyType({}),
  ):
    """Takes what does not depend on splits.

    Args:
      ops: The ops, in the order of the graph.
      num_parts: The number of devices.
      table: The rules, for what parts make themselves.
      differentiated: The names of the tensors that have gradients; see
        `tensors_with_gradients`.
      num_bytes: The bytes of tensors by their names. Of one that is not among
        them the unknown dimensions are taken as nominal.
    """
    self.num_parts = num_parts
    self.differentiated = differentiated
    self._ops = [(op, op.name) for op in ops]
    self._table = table
    self._num_bytes = dict(num_bytes)
    self._copied: dict[str, bool] = {}
    self._sources: dict[tuple[str, Shard], PerPart | None] = {}

  def sent(
    self, inferred: Inferred, most_bytes: float = math.inf
  ) -> tuple[Sent, ...]:
    """Returns the traffic between devices because some variables are split.

    Args:
      inferred: The splits, decisions and gathers inferred for the ops.
      most_bytes: The number of bytes beyond which the rest is not needed.

    Returns:
      An entry for each tensor and kind of communication, in the order of the
      graph.
    """
    readers = {gather.reader for gather in inferred.gathers}
    sending = _Sending(self, inferred)
    for op, name in self._ops:
      if op in inferred.decisions or name in readers:
        sending.visit(op)
        if sending.num_bytes > most_bytes:
          break
    return tuple(sending.sent.values())

  def bytes_of(self, tensor: tf.Tensor) -> int:
    """Returns the bytes of a whole tensor.

    Args:
      tensor: A tensor of the model.
    """
    name = tensor.name
    if name not in self._num_bytes:
      self._num_bytes[name] = shapes.tensor_bytes(tensor)
    return self._num_bytes[name]

  def is_copied(self, tensor: tf.Tensor) -> bool:
    """Whether each device has a tensor of its own.

    Args:
      tensor: A tensor that parts read whole.
    """
    name = tensor.name
    if name not in self._copied:
      self._copied[name] = inference.is_small_constant(tensor)
    return self._copied[name]

  def source(self, tensor: tf.Tensor, split: Shard) -> PerPart | None:
    """Returns how parts make a tensor of nothing; None if they cannot.

    Args:
      tensor: A tensor that is whole.
      split: How it is to be split.
    """
    key = tensor.name, split
    if key not in self._sources:
      made = inference.source(self._table, tensor.op, split)
      if made is not None and not inference.is_repeatable(
        self._table, tensor, split
      ):
        made = None
      self._sources[key] = made
    return self._sources[key]


class _Sending:
  """The traffic, as ops are visited one after the other."""

  def __init__(self, traffic: Traffic, inferred: Inferred):
    # By what is done, to which tensor, and how it is sliced.
    self.sent: dict[tuple[str, str, Shard | None], Sent] = {}
    self.num_bytes = 0
    self._traffic = traffic
    self._splits = inferred.splits
    self._decisions = inferred.decisions
    self._others = traffic.num_parts - 1
    self._joined: set[str] = set()
    self._read_variables: set[str] = set()

  def visit(self, op: tf.Operation) -> None:
    """Adds what an op reads from other devices, and what its parts join."""
    decision = self._decisions.get(op)
    if decision is None:
      for tensor in op.inputs:
        self._read_whole(op, tensor)
      return
    if isinstance(decision, LookUp):
      self._look_up(op, decision)
      return
    if isinstance(decision, OnCopies):
      self._work_on_copies(op)
      return
    inputs = op.inputs
    for tensor, operand in zip(inputs, decision.operands, strict=True):
      self._read(op, tensor, operand)
    self._update(op, inputs, decision.operands)
    for index, output in enumerate(decision.outputs):
      if not isinstance(output, Shard):
        self._join(op, op.outputs[index], output)
    if isinstance(decision, Composite) and decision.exchanged:
      self._exchange(op, decision)

  def _join(
    self, op: tf.Operation, tensor: tf.Tensor, output: Partial | Replicate
  ) -> None:
    """Adds what comes from the other devices to be joined."""
    self._joined.add(tensor.name)
    if isinstance(output, Partial):
      sent = self._traffic.bytes_of(tensor) * self._others
      self._add(output.reduction.value, op, tensor, sent)

  def _exchange(self, op: tf.Operation, decision: Composite) -> None:
    """Adds what comes together on the first device, and is read on all."""
    (tensor, *_) = op.outputs
    size = max(tensor.dtype.size, 4)
    each = sum(shapes.num_elements(shape) for shape in decision.exchanged)
    self._add(EXCHANGE, op, tensor, 2 * self._others * size * each)

  def _work_on_copies(self, op: tf.Operation) -> None:
    """Adds shards, which go to a copy and come back from it."""
    for tensor in op.inputs:
      self._read_whole(op, tensor)
      split = self._splits.get(tensor.name)
      if split is not None and op_types.is_handle(tensor):
        num_bytes = shapes.variable_bytes(tensor.op)
        sent = num_bytes * (split.size - split.sizes[0]) // max(split.size, 1)
        self._add(EXCHANGE, op, tensor, 2 * sent, has_gradient=False)

  def _look_up(self, op: tf.Operation, decision: LookUp) -> None:
    """Adds ids and rows, which are sent once each, as if none were repeated."""
    ids, rows = op.inputs[1], op.outputs[0]
    self._read_whole(op, ids)
    self._joined.add(rows.name)
    sent = self._bytes_of_rows(ids, ids, decision.rows)
    sent += self._bytes_of_rows(ids, rows, decision.rows)
    self._add(EXCHANGE, op, rows, sent, has_gradient=False)

  def _update(
    self,
    op: tf.Operation,
    inputs: Sequence[tf.Tensor],
    operands: Sequence[Operand],
  ) -> None:
    """Adds what an update of rows sends to those who have them."""
    owned = [
      (inputs[index], operand)
      for index, operand in enumerate(operands)
      if isinstance(operand, Owned)
    ]
    if owned:
      ids = inputs[owned[0][1].indices]
      for tensor, _ in owned:
        self._read_whole(op, tensor)
      sent = [self._bytes_of_rows(ids, x, operand.rows) for x, operand in owned]
      self._add(EXCHANGE, op, ids, sum(sent), has_gradient=False)

  def _bytes_of_rows(
    self, ids: tf.Tensor, values: tf.Tensor, rows: RowOwners
  ) -> int:
    """Returns the bytes of values for the rows that other devices have."""
    count = max(self._traffic.bytes_of(ids) // int(ids.dtype.size), 1)
    elsewhere = sum(rows.sizes[1:])
    wanted = min(count * elsewhere // max(rows.size, 1), elsewhere)
    return wanted * (self._traffic.bytes_of(values) // count)

  def _read(
    self, op: tf.Operation, tensor: tf.Tensor, operand: Operand
  ) -> None:
    """Adds what the parts of an op are sent in place of an input."""
    if isinstance(operand, Shard):
      self._read_parts(op, tensor, operand)
    elif isinstance(operand, Replicate):
      if not self._traffic.is_copied(tensor):
        self._read_on_all(op, tensor)
    elif isinstance(operand, Shifted):
      self._read_on_all(op, tensor)
    elif isinstance(operand, Resized):
      known = tf.get_static_value(tensor, partial=True)
      if known is None or any(
        value is None
        for index, value in enumerate(known)
        if index != operand.index
      ):
        self._read_on_all(op, tensor)

  def _read_on_all(self, op: tf.Operation, tensor: tf.Tensor) -> None:
    """Adds what goes to all devices: each of them gathers what is split."""
    self._read_whole(op, tensor)
    if tensor.op.type == "ReadVariableOp":
      variable = tensor.op.inputs[0].name
      if variable in self._read_variables:  # Which is sent already.
        return
      self._read_variables.add(variable)
    sent = self._traffic.bytes_of(tensor) * self._others
    split = self._splits.get(tensor.name)
    if split is not None:
      sent -= self._bytes_of_others(tensor, split)
    self._add(BROADCAST, op, tensor, sent)

  def _read_whole(self, op: tf.Operation, tensor: tf.Tensor) -> None:
    """Adds the other devices' parts of a tensor that is split."""
    split = self._splits.get(tensor.name)
    if split is not None and not op_types.is_handle(tensor):
      self._add(GATHER, op, tensor, self._bytes_of_others(tensor, split))

  def _read_parts(
    self, op: tf.Operation, tensor: tf.Tensor, split: Shard
  ) -> None:
    """Adds slices, unless the tensor is in these parts, or parts make it."""
    own = self._splits.get(tensor.name)
    if own == split or op_types.is_handle(tensor):
      return
    if own is None and tensor.name not in self._joined:
      made = self._traffic.source(tensor, split)
      if made is not None:
        inputs = tensor.op.inputs
        for x, operand in zip(inputs, made.operands, strict=True):
          self._read(op, x, operand)
        self._update(tensor.op, inputs, made.operands)
        return
    self._read_whole(op, tensor)
    sent = self._bytes_of_others(tensor, split)
    self._add(SLICE, op, tensor, sent, split)

  def _bytes_of_others(self, tensor: tf.Tensor, split: Shard) -> int:
    """Returns the bytes of all parts but the first one."""
    others = split.size - split.sizes[0]
    return self._traffic.bytes_of(tensor) * others // max(split.size, 1)

  def _add(
    self,
    kind: str,
    op: tf.Operation,
    tensor: tf.Tensor,
    forward: int,
    split: Shard | None = None,
    has_gradient: bool = True,
  ) -> None:
    """Adds an entry, unless the tensor is where it is wanted already."""
    name = tensor.name
    key = (kind, name, split)
    if key not in self.sent:
      goes_back = has_gradient and name in self._traffic.differentiated
      backward = forward if goes_back else 0
      self.sent[key] = Sent(kind, name, op.name, op.type, forward, backward)
      self.num_bytes += forward + backward
