"""Part maker: makes an op once more for a part, on the part's device."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import colocation, device_assignment, op_types
from estimator_mp.graph import ledger as ledger_lib
from estimator_mp.model_axis.decisions import PerPart

import tensorflow as tf


class PartMaker:
  """Makes ops that stand for those of the model.

  Attributes:
    devices_of: Returns the devices of the parts of an op of the model.
    instead: The ops that stand for an op that is not to run, for those that
      wait for it.
  """

  def __init__(
    self,
    devices_of: Callable[[tf.Operation], Sequence[str]],
    ledger: ledger_lib.Ledger,
    parts: Mapping[str, Sequence[tf.Tensor]],
  ):
    """Starts with nothing made.

    Args:
      devices_of: Returns the devices of the parts of an op of the model.
      ledger: Says for which op of the model something was made.
      parts: The parts of split tensors, shards among them, by their names.
    """
    self.devices_of = devices_of
    self.instead: dict[tf.Operation, list[tf.Operation]] = {}
    self._ledger = ledger
    self._parts = parts

  @contextlib.contextmanager
  def making(self, op: tf.Operation) -> Iterator[None]:
    """Names what is made for an op after it.

    Args:
      op: An op of the model.

    Yields:
      None.
    """
    graph = op.graph
    with (  # `tf`'s own functions look for the graph each time.
      self._ledger.creating(ledger_lib.Role.PART, op),
      graph.control_dependencies(None),
      graph.colocate_with(None, ignore_existing=True),
      graph.device(None),
      graph.name_scope("estimator_mp/split/"),
      graph.name_scope(op.name),
    ):
      yield

  def copies(
    self,
    op: tf.Operation,
    inputs: Sequence[Sequence[tf.Tensor]],
    devices: Sequence[str],
    decision: PerPart | None = None,
    first: int = 0,
  ) -> list[tf.Operation]:
    """Returns ops of the same type, one for each part.

    Args:
      op: The op of the model.
      inputs: The tensors that each of them reads.
      devices: Where each of them is.
      decision: The decision with their attributes; None for those of the op.
      first: The number of the first part that has one.
    """
    node = op.node_def
    for name in [name for name in node.attr if name.startswith("_")]:
      del node.attr[name]
    waits = self.waits(op)
    copies = []
    for part, (of_part, device) in enumerate(
      zip(inputs, devices, strict=True), first
    ):
      node.name, node.device = f"part_{part}", ""
      if decision is not None and decision.attributes:
        for name, value in decision.attributes[part].items():
          node.attr[name].CopyFrom(value)
      read = {tensor.op for tensor in of_part}
      copy = graph_edits.make_op(
        op.graph, node, of_part, [x for x in waits if x not in read]
      )
      place = device_assignment.device_function(device)
      graph_edits.set_device(copy, place(copy))
      if op.type in op_types.SWITCHES:
        graph_edits.set_branch(copy, op)
      copies.append(copy)
    self.colocate(copies, op, first)
    return copies

  def make(
    self,
    type_: str,
    name: str,
    inputs: Sequence[tf.Tensor],
    device: str,
    **attributes: tf.compat.v1.AttrValue,
  ) -> tf.Tensor:
    """Returns the output of a new op, on a device or its host.

    Args:
      type_: The type of the op.
      name: Its name in the scope.
      inputs: The tensors that it reads.
      device: Where it is.
      **attributes: Those that have no default.
    """
    node = tf.compat.v1.NodeDef(op=type_, name=name, attr=attributes)
    graph = tf.compat.v1.get_default_graph()
    op = graph_edits.make_op(graph, node, inputs)
    place = device_assignment.device_function(device)
    graph_edits.set_device(op, place(op))
    return op.outputs[0]

  def constant(
    self, value: Any, dtype: tf.DType, device: str, name: str = "Const"
  ) -> tf.Tensor:
    """Returns a constant on a device.

    Args:
      value: The value.
      dtype: Its dtype.
      device: Where it is.
      name: The name of its op in the scope.
    """
    # Sizes and axes are the same again and again, and take long to convert.
    content = (_scalar if isinstance(value, int) else _constant)(value, dtype)
    return self.make(
      "Const", name, [], device, dtype=_type(dtype), value=content
    )

  def concat(
    self, parts: Sequence[tf.Tensor], axis: int, device: str, name: str
  ) -> tf.Tensor:
    """Returns the concat of parts, on a device.

    Args:
      parts: Two or more.
      axis: Along which dimension.
      device: Where it is.
      name: The name of the op in the scope.
    """
    with parts[0].graph.name_scope(name) as scope:
      dimension = self.constant(axis, tf.int32, device, "axis")
      return self.make(
        "ConcatV2",
        scope,
        [*parts, dimension],
        device,
        N=tf.compat.v1.AttrValue(i=len(parts)),
        T=_type(parts[0].dtype),
        Tidx=_type(tf.int32),
      )

  def add(self, parts: Sequence[tf.Tensor], device: str) -> tf.Tensor:
    """Returns the sum of parts of one shape, on a device.

    Args:
      parts: Two or more.
      device: Where it is.
    """
    return self._of_several("AddN", "AddN", parts, device)

  def stack(self, parts: Sequence[tf.Tensor], device: str) -> tf.Tensor:
    """Returns parts of one shape along a new first dimension, on a device.

    Args:
      parts: One or more.
      device: Where it is.
    """
    return self._of_several("Pack", "stack", parts, device)

  def reduce(
    self, type_: str, parts: Sequence[tf.Tensor], device: str
  ) -> tf.Tensor:
    """Returns what parts of one shape are reduced to, on a device.

    Args:
      type_: The type of the reduction.
      parts: One or more.
      device: Where it is.
    """
    stacked = self.stack(parts, device)
    with stacked.graph.name_scope(type_) as scope:
      axis = self.constant(0, tf.int32, device, "reduction_indices")
      attributes = {"Tidx": _type(tf.int32)}
      if stacked.dtype != tf.bool:
        attributes["T"] = _type(stacked.dtype)
      return self.make(type_, scope, [stacked, axis], device, **attributes)

  def _of_several(
    self, type_: str, name: str, inputs: Sequence[tf.Tensor], device: str
  ) -> tf.Tensor:
    """Returns what an op makes of a list of tensors of one dtype."""
    count = tf.compat.v1.AttrValue(i=len(inputs))
    dtype = _type(inputs[0].dtype)
    return self.make(type_, name, inputs, device, N=count, T=dtype)

  def read(self, handle: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Returns the value of a variable, on its device.

    Args:
      handle: Its handle.
      dtype: The dtype of its value.
    """
    kind = "ReadVariableOp"
    return self.make(kind, kind, [handle], handle.device, dtype=_type(dtype))

  def of_any_shape(self, tensor: tf.Tensor) -> tf.Tensor:
    """Returns a tensor of unknown shape, on its device.

    Args:
      tensor: The tensor.
    """
    shape = tf.compat.v1.AttrValue(shape=tf.TensorShape(None).as_proto())
    kind, dtype = "PlaceholderWithDefault", _type(tensor.dtype)
    return self.make(
      kind, kind, [tensor], tensor.device, dtype=dtype, shape=shape
    )

  def colocate(
    self, copies: Sequence[tf.Operation], op: tf.Operation, first: int = 0
  ) -> None:
    """Puts ops of parts beside the shards that their op is beside of.

    Args:
      copies: The ops, one for each part.
      op: The op of the model that they stand for.
      first: The number of the first part that has one.
    """
    names = colocation.colocated_with(op)
    shards = [self._parts.get(f"{name}:0") for name in names]
    for part, copy in enumerate(copies, first):
      beside = [
        of_parts[part].op
        for of_parts in shards
        if of_parts and op_types.is_variable(of_parts[part].op)
      ]
      if beside:  # A shard may have moved to another replica.
        graph_edits.set_device(copy, beside[0].device)
      if beside or (names and copy is op):
        graph_edits.set_colocation(copy, [shard.name for shard in beside])

  def waits(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns what an op has to wait for besides its inputs.

    Args:
      op: An op of the model.
    """
    return [
      other
      for before in op.control_inputs
      for other in self.instead.get(before, [before])
    ]


def _constant(value: Any, dtype: tf.DType) -> tf.compat.v1.AttrValue:
  """Returns a constant as an attribute."""
  return tf.compat.v1.AttrValue(tensor=tf.make_tensor_proto(value, dtype))


_scalar = functools.lru_cache(maxsize=4096)(_constant)


def _type(dtype: tf.DType) -> tf.compat.v1.AttrValue:
  """Returns a dtype as an attribute."""
  return tf.compat.v1.AttrValue(type=dtype.base_dtype.as_datatype_enum)


def on(device: str) -> AbstractContextManager[None]:
  """Returns a context whose ops are on a device, or its host.

  Args:
    device: The device's name.
  """
  place = device_assignment.device_function(device)
  context: AbstractContextManager[None] = tf.compat.v1.device(place)
  return context
