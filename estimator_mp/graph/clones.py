"""Clones: ops of the graph, once more for each further replica.

Mirrors of variables, updates of them, and recomputed activations are clones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp.graph import device_assignment, op_types, traversal, variables
from estimator_mp.graph.definitions import Definitions, op_name

import tensorflow as tf


class Clones:
  """The further replicas' copies of the ops that were cloned so far."""

  def __init__(self, device_of: Sequence[Callable[[str], str]]):
    """Starts with nothing cloned.

    Args:
      device_of: For each clone that there is to be of everything, from devices
        of originals to its own.
    """
    self._device_of = device_of
    self._ops: list[dict[tf.Operation, tf.Operation]] = [{} for _ in device_of]
    self._paired: dict[str, Sequence[tf.Tensor]] = {}

  @property
  def all(self) -> set[tf.Operation]:
    """All clones of ops."""
    return {op for copies in self._ops for op in copies.values()}

  def __contains__(self, tensor: tf.Tensor) -> bool:
    """Whether there is something for each clone in place of a tensor."""
    return tensor.name in self._paired or tensor.op in self._ops[0]

  def pair(self, tensor: tf.Tensor, copies: Sequence[tf.Tensor]) -> None:
    """Enters the tensor that each clone has in place of one.

    Args:
      tensor: A tensor of the graph.
      copies: One per clone.
    """
    self._paired[tensor.name] = copies

  def of(self, tensor: tf.Tensor) -> Sequence[tf.Tensor]:
    """Returns the tensor of each clone in place of one; itself if shared.

    Args:
      tensor: A tensor of the graph.
    """
    known = self._paired.get(tensor.name)
    index = tensor.value_index
    return known or [
      copies[tensor.op].outputs[index] if tensor.op in copies else tensor
      for copies in self._ops
    ]

  def ops(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the copies of an op; itself if it is shared.

    Args:
      op: An op of the graph.
    """
    return [copies.get(op, op) for copies in self._ops]

  def add(self, ops: Sequence[tf.Operation], scope: str) -> None:
    """Clones ops, with their devices.

    Args:
      ops: Ops whose inputs are cloned already, or in `ops`, or shared; none of
        a loop.
      scope: The scope of their names, with the number of a clone for "{}".
    """
    # Ops that read variables are where these are.
    self._add(op_types.variables_of(ops), scope)
    self._add([op for op in ops if not op_types.is_variable(op)], scope)

  def _add(self, ops: Sequence[tf.Operation], scope: str) -> None:
    if not ops:
      return
    definitions = Definitions(ops[0].graph)
    names: list[dict[tf.Operation, str]] = [{} for _ in self._ops]
    for op in traversal.in_order(ops):
      read = [self.of(tensor) for tensor in op.inputs]
      waits = [self.ops(other) for other in op.control_inputs]
      for number, added in enumerate(names):
        inputs = [
          f"{added[x.op]}:{x.value_index}" if x.op in added else y[number].name
          for x, y in zip(op.inputs, read, strict=True)
        ]
        awaited = [
          added.get(x) or y[number].name
          for x, y in zip(op.control_inputs, waits, strict=True)
        ]
        name = f"{scope.format(number + 1)}/{op.name}"
        with definitions.on(self._device(op, number)):
          clone = definitions.copy(
            op, name, inputs, awaited, _state_name(op, number + 1)
          )
        added[op] = op_name(clone)
    ops_added = definitions.import_into_graph()
    for copies, added in zip(self._ops, names, strict=True):
      copies.update((op, ops_added[name]) for op, name in added.items())

  def _device(self, op: tf.Operation, number: int) -> str:
    """Returns the device of a clone: of the first state that it works on."""
    place = self._device_of[number](op.device)
    for tensor in op.inputs if place else ():
      if op_types.is_handle(tensor):
        handle = variables.variable_of(tensor).outputs[0]
        state = self.of(handle)[number].op
        if state.device and not device_assignment.calls_other_task(
          op, state, place
        ):
          return str(state.device)
    return place


def _state_name(op: tf.Operation, number: int) -> Mapping[str, Any]:
  """Returns the attribute in which a clone differs: the name of its state."""
  if op.type != "VarHandleOp":
    return {}
  name = op.get_attr("shared_name").decode() or op.name
  return {"shared_name": f"{name}/replica_{number}"}
