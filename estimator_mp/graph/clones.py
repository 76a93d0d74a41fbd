"""Clones: ops of the graph, once more for each further replica.

Mirrors of variables, updates of them, and what is computed again are clones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp.graph import device_assignment, op_types, traversal, variables
from estimator_mp.graph.definitions import Definitions, op_name

import tensorflow as tf


class Clones:
  """The further replicas' copies of what was cloned so far."""

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
  def made(self) -> set[tf.Operation]:
    """All clones of ops."""
    return {op for own in self._ops for op in own.values()}

  def __contains__(self, tensor: tf.Tensor) -> bool:
    """Whether there is something for each clone in place of a tensor."""
    return tensor.name in self._paired or tensor.op in self._ops[0]

  def pair(self, tensor: tf.Tensor, copies: Sequence[tf.Tensor]) -> None:
    """Says what stands for a tensor in each clone.

    Args:
      tensor: A tensor of the graph.
      copies: One per clone.
    """
    self._paired[tensor.name] = copies

  def of(self, tensor: tf.Tensor) -> Sequence[tf.Tensor]:
    """Returns what stands for a tensor in each clone; itself if it is shared.

    Args:
      tensor: A tensor of the graph.
    """
    known = self._paired.get(tensor.name)
    index = tensor.value_index
    return known or [
      own[tensor.op].outputs[index] if tensor.op in own else tensor
      for own in self._ops
    ]

  def ops(self, op: tf.Operation) -> list[tf.Operation]:
    """Returns the copies of an op; itself if it is shared.

    Args:
      op: An op of the graph.
    """
    return [own.get(op, op) for own in self._ops]

  def add(self, ops: Sequence[tf.Operation], scope: str) -> None:
    """Clones ops, with their devices.

    Args:
      ops: Ops whose inputs are cloned already, or in `ops`, or shared; none of
        a loop.
      scope: The scope of their names, with the number of a clone for "{}".
    """
    # What reads variables is where they are.
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
      for number, own in enumerate(names):
        inputs = [
          f"{own[x.op]}:{x.value_index}" if x.op in own else found[number].name
          for x, found in zip(op.inputs, read, strict=True)
        ]
        awaited = [
          own.get(x) or found[number].name
          for x, found in zip(op.control_inputs, waits, strict=True)
        ]
        name = f"{scope.format(number + 1)}/{op.name}"
        with definitions.on(self._device(op, number)):
          made = definitions.copy(
            op, name, inputs, awaited, _own_attributes(op, number + 1)
          )
        own[op] = op_name(made)
    found = definitions.import_into_graph()
    for known, own in zip(self._ops, names, strict=True):
      known.update((op, found[name]) for op, name in own.items())

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


def _own_attributes(op: tf.Operation, number: int) -> Mapping[str, Any]:
  """Returns what a clone has otherwise than the op: the name of its state."""
  if op.type != "VarHandleOp":
    return {}
  name = op.get_attr("shared_name").decode() or op.name
  return {"shared_name": f"{name}/replica_{number}"}
