"""Operands: the tensors that parts read in place of the inputs of an op."""

from collections.abc import Callable, Sequence

from estimator_mp.graph import feeds
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.lower.splitting import part_maker
from estimator_mp.lower.splitting import tables as tables_lib
from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import (
  ByTurns,
  Constants,
  Operand,
  Owned,
  OwnShard,
  Replicate,
  Resized,
  Shard,
  Shifted,
  Table,
  Turned,
)

import tensorflow as tf

_Parts = list[tf.Tensor]

# All entries of what these make are the same.
_UNIFORM = frozenset(["Fill", "OnesLike", "ZerosLike"])


class Operands:
  """The parts of one graph's split tensors, and the tensors read of whole ones.

  Attributes:
    parts: The parts of each split tensor, by its name.
    splits: How these are split.
    wholes: The tensor that is read instead of another one, by the name of that
      one: a sum over devices, or a gather.
    maker: Makes ops for parts.
    tables: The lookups and sparse updates of variables split by rows.
  """

  def __init__(
    self,
    table: Table,
    devices_of: Callable[[tf.Operation], Sequence[str]],
    ledger: ledger_lib.Ledger,
  ):
    """Starts without a part.

    Args:
      table: The rules, for what parts make themselves.
      devices_of: Returns the devices of the parts of an op of the model.
      ledger: Says for which op of the model something was made.
    """
    self.parts: dict[str, _Parts] = {}
    self.splits: dict[str, Shard] = {}
    self.wholes: dict[str, tf.Tensor] = {}
    self.maker = part_maker.PartMaker(devices_of, ledger, self.parts)
    self.tables = tables_lib.Tables(self.whole)
    self._table = table
    self._slices: dict[tuple[str, Shard], _Parts] = {}
    # By tensor and devices, for what each of them has.
    self._constants: dict[tuple[str, tuple[str, ...]], _Parts] = {}
    self._gathers: dict[tuple[str, tuple[str, ...]], _Parts] = {}

  def add(
    self, tensor: tf.Tensor, split: Shard, parts: Sequence[tf.Tensor]
  ) -> None:
    """Enters the parts of a tensor.

    Args:
      tensor: The whole tensor, which need not be computed.
      split: How it is split.
      parts: One on each device.
    """
    self.parts[tensor.name] = list(parts)
    self.splits[tensor.name] = split

  def whole(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns what holds the whole tensor: itself, a sum or a gather.

    Args:
      tensor: A tensor of the model.
    """
    if tensor.name in self.parts and tensor.name not in self.wholes:
      parts = self.parts[tensor.name]
      with self.maker.making(tensor.op):
        gathered = self.maker.concat(
          parts,
          self.splits[tensor.name].axis,
          self.maker.devices_of(tensor.op)[0],
          "gathered",
        )
      gathered.set_shape(tensor.shape)
      self.wholes[tensor.name] = gathered
    return self.wholes.get(tensor.name, tensor)

  def inputs(
    self,
    op: tf.Operation,
    operands: Sequence[Operand],
    devices: Sequence[str],
  ) -> list[_Parts]:
    """Returns what each part reads in place of each input of an op.

    Args:
      op: The op.
      operands: How parts read each input.
      devices: Those of the parts.
    """
    return [
      self.tables.owned(op, index, operand, devices)
      if isinstance(operand, Owned)
      else self.of_parts(op.inputs[index], operand, devices)
      for index, operand in enumerate(operands)
    ]

  def of_parts(
    self, tensor: tf.Tensor, operand: Operand, devices: Sequence[str]
  ) -> _Parts:
    """Returns what each part reads in place of an input.

    Args:
      tensor: The input.
      operand: How parts read it.
      devices: Those of the parts.
    """
    if isinstance(operand, OwnShard):
      return self.parts[tensor.name]
    if isinstance(operand, Shard):
      return self._split(tensor, operand, devices)
    if isinstance(operand, Turned):
      return self._turned(tensor, operand.split, devices)
    if isinstance(operand, Constants):
      return [
        self.maker.constant(value, tensor.dtype, device)
        for value, device in zip(operand.values, devices, strict=True)
      ]
    if isinstance(operand, Replicate) and inference.is_small_constant(tensor):
      return self._on_each(tensor, devices)
    if isinstance(operand, Resized):
      return self._resized(self.whole(tensor), operand, devices)
    wholes = self._gathered(tensor, devices)
    if isinstance(operand, Replicate):
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
        whole = self.maker.concat(parts, axis, device, "gathered")
        whole.set_shape(tensor.shape)
        self._gathers[key].append(whole)
    return self._gathers[key]

  def _on_each(self, constant: tf.Tensor, devices: Sequence[str]) -> _Parts:
    """Returns a constant of each device's own, so that none is sent."""
    key = (constant.name, tuple(devices))
    if key not in self._constants:
      feeds.refuse(constant.op)
      self._constants[key] = [
        constant,
        *(
          copy.outputs[0]
          for copy in self.maker.copies(
            constant.op, [[]] * (len(devices) - 1), devices[1:], first=1
          )
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
      elements = [
        self._entry(shape, index, device)
        if value is None
        else self.maker.constant(int(value), shape.dtype, device)
        for index, value in enumerate(known)
      ]
      elements[operand.index] = self.maker.constant(size, shape.dtype, device)
      parts.append(self.maker.stack(elements, device))
    return parts

  def _entry(self, vector: tf.Tensor, index: int, device: str) -> tf.Tensor:
    """Returns an entry of a vector, on a device."""
    with part_maker.on(device):
      return vector[index]

  def _split(
    self, tensor: tf.Tensor, split: Shard, devices: Sequence[str]
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
      return self._split(tensor, Shard(0, split.sizes), devices)
    whole = self.whole(tensor)
    with part_maker.on(tensor.op.device or devices[0]):
      return [whole[i :: len(devices)] for i in range(len(devices))]

  def _made_by_source(
    self, tensor: tf.Tensor, split: Shard, devices: Sequence[str]
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
    inputs = self.inputs(op, decision.operands, devices)
    by_part = [[x[i] for x in inputs] for i in range(len(devices))]
    copies = self.maker.copies(op, by_part, devices, decision)
    return [copy.outputs[0] for copy in copies]

  def _sliced(
    self, tensor: tf.Tensor, split: Shard, devices: Sequence[str]
  ) -> _Parts:
    """Returns slices of a whole tensor, made where it is."""
    whole = self.whole(tensor)
    with part_maker.on(tensor.op.device or devices[0]):
      parts: _Parts = tf.split(whole, split.sizes, split.axis)
    return parts


def _shifted(tensor: tf.Tensor, offset: int, device: str) -> tf.Tensor:
  """Returns a tensor less a number, on a device."""
  if not offset:
    return tensor
  with part_maker.on(device):
    return tensor - tf.constant(offset, tensor.dtype)
