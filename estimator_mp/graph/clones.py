"""Clones: ops of the graph, once more for each further replica.

Mirrors of variables, updates of them, and what is computed again are clones.
"""

import dataclasses
from collections.abc import (
  Callable,
  Collection,
  Mapping,
  Sequence,
)

from compat.private import graph_edits
from estimator_mp.graph import (
  colocation,
  device_assignment,
  op_types,
  variables,
)

import tensorflow as tf

_COLOCATION = "_class"
# A loop's frame, and a variable of one step.
_NAMES_OF_STATES = frozenset(["frame_name", "var_name"])

_Edit = Callable[[tf.compat.v1.NodeDef, int], None]


@dataclasses.dataclass(frozen=True)
class Home:
  """The place of a clone, and the tensors and ops that it already has.

  Attributes:
    scope: The scope of its names.
    device: Returns the device that stands for one of the original.
    tensors: The tensors that stand for those not cloned for it, by name.
    ops: The ops that stand for those not cloned for it, by name.
  """

  scope: str
  device: Callable[[str], str] = lambda device: device
  tensors: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)
  ops: Mapping[str, tf.Operation] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Template:
  """The definition that all clones of some ops have in common.

  Attributes:
    definition: Their definition, which is edited for each clone.
    outside: The tensors of other ops that they read, by name.
    waits: The other ops that they wait for, by the names of those that wait.
    renames: Edits by the number of a clone, with the index of the node.
    devices: The devices of ops that have one, with the index of the node.
  """

  definition: tf.compat.v1.GraphDef = dataclasses.field(
    default_factory=tf.compat.v1.GraphDef
  )
  outside: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
  waits: dict[str, list[tf.Operation]] = dataclasses.field(default_factory=dict)
  renames: list[tuple[int, _Edit]] = dataclasses.field(default_factory=list)
  devices: list[tuple[int, str]] = dataclasses.field(default_factory=list)


class Clones:
  """The further replicas' copies of what was cloned so far.

  Attributes:
    count: How many clones there are.
  """

  def __init__(self, homes: Sequence[Home]):
    """Starts with nothing cloned.

    Args:
      homes: One for each clone that there is to be of everything.
    """
    self.count = len(homes)
    self._homes = homes
    self._tensors: list[dict[str, tf.Tensor]] = [{} for _ in homes]
    self._ops: list[dict[str, tf.Operation]] = [{} for _ in homes]

  def home(
    self,
    index: int,
    scope: str,
    device: Callable[[str], str],
  ) -> Home:
    """Returns a home for clones that find one of these clones there.

    Args:
      index: Which one.
      scope: The scope of their names.
      device: Returns the device that stands for one of the original.
    """
    return Home(scope, device, self._tensors[index], self._ops[index])

  def pair(self, tensor: tf.Tensor, copies: Sequence[tf.Tensor]) -> None:
    """Says what stands for a tensor in each clone.

    Args:
      tensor: A tensor of the graph.
      copies: One per clone.
    """
    for known, copy in zip(self._tensors, copies, strict=True):
      known[tensor.name] = copy

  def __contains__(self, tensor: tf.Tensor) -> bool:
    return bool(self._tensors) and tensor.name in self._tensors[0]

  def of(self, tensor: tf.Tensor) -> list[tf.Tensor]:
    """Returns what stands for a tensor in each clone; itself if it is shared.

    Args:
      tensor: A tensor of the graph.
    """
    return [self._tensor(i, tensor) for i in range(self.count)]

  def _tensor(self, index: int, tensor: tf.Tensor) -> tf.Tensor:
    known = self._tensors[index].get(tensor.name)
    if known is None:
      known = self._homes[index].tensors.get(tensor.name, tensor)
    return known

  def op(self, index: int, op: tf.Operation) -> tf.Operation:
    """Returns the copy of an op.

    Args:
      index: Which clone.
      op: An op that was cloned.
    """
    return self._ops[index][op.name]

  def device(self, index: int, op: tf.Operation) -> str:
    """Returns the device that stands for that of an op.

    Args:
      index: Which clone.
      op: An op of the graph, cloned or not.
    """
    return self._homes[index].device(op.device)

  def add(self, ops: Sequence[tf.Operation]) -> None:
    """Clones ops of the default graph, with their devices.

    Args:
      ops: Ops whose inputs are cloned already, or in `ops`, or shared.
    """
    if not ops:
      return
    template = self._template(ops)
    bound = [
      (op.name, op.device)
      for op in ops
      if op.device and any(map(op_types.is_handle, op.inputs))
    ]
    outputs = [(op.name, [t.name for t in op.outputs]) for op in ops]
    for index, home in enumerate(self._homes):
      copies = self._imported(template, index)
      of_clone, tensors = self._ops[index], self._tensors[index]
      of_clone.update(copies)
      for name, device in bound:
        of_state = _device_of_handle(copies[name], device)
        if of_state:
          graph_edits.set_device(copies[name], of_state)
      for name, of_op in outputs:
        tensors.update(zip(of_op, copies[name].outputs, strict=True))
      for name, shared in template.waits.items():
        others = [
          of_clone.get(c.name) or home.ops.get(c.name, c) for c in shared
        ]
        graph_edits.add_control_inputs(of_clone[name], others)

  def _template(self, ops: Sequence[tf.Operation]) -> _Template:
    """Returns what is imported for each clone of ops."""
    inside = {op.name for op in ops}
    template = _Template()
    versions = tf.compat.v1.get_default_graph().graph_def_versions
    template.definition.versions.CopyFrom(versions)
    for op in ops:
      index = len(template.definition.node)
      node = op.node_def
      shared = [c for c in op.control_inputs if c.name not in inside]
      if shared:
        template.waits[op.name] = shared
        kept = [x for x in node.input if x[0] != "^" or x[1:] in inside]
        del node.input[:]
        node.input.extend(kept)
      if node.device:
        node.attr.pop(_COLOCATION, None)
        template.devices.append((index, node.device))
      elif _COLOCATION in node.attr:
        node.device = _device_of_group(op, inside)
        if not inside.issuperset(colocation.colocated_with(op)):
          node.attr.pop(_COLOCATION)  # It names ops without a clone.
      template.renames.extend((index, edit) for edit in _renames(op))
      for tensor in op.inputs:
        if tensor.op.name not in inside:
          template.outside[tensor.name] = tensor
      template.definition.node.append(node)
    return template

  def _imported(
    self, template: _Template, index: int
  ) -> dict[str, tf.Operation]:
    """Returns the ops of a clone, which are made here, by the ops' names."""
    self._edit(template, index)
    inputs = {
      name: self._tensor(index, tensor)
      for name, tensor in template.outside.items()
    }
    with (
      tf.compat.v1.name_scope(None),
      tf.compat.v1.device(None),
      tf.control_dependencies(None),
    ):
      return graph_edits.import_ops(
        template.definition, inputs, self._homes[index].scope
      )

  def _edit(self, template: _Template, index: int) -> None:
    """Makes the definition that of a clone."""
    home, definition = self._homes[index], template.definition
    devices = {device for _, device in template.devices}
    device_of = {device: home.device(device) for device in devices}
    for node, device in template.devices:
      definition.node[node].device = device_of[device]
    for node, edit in template.renames:
      edit(definition.node[node], index + 1)


def _device_of_group(op: tf.Operation, inside: Collection[str]) -> str:
  """Returns the device of what an op without one is colocated with, or ""."""
  for name in colocation.colocated_with(op):
    if name not in inside and name != op.name:
      try:
        device = op.graph.get_operation_by_name(name).device
      except KeyError:
        continue
      if device:
        return str(device)
  return ""


def _device_of_handle(copy: tf.Operation, device: str) -> str:
  """Returns the device of the first state that a clone works on, or ""."""
  for tensor in copy.inputs:
    state = variables.variable_of(tensor)
    if not op_types.is_handle(tensor) or not state.device:
      continue
    if not device_assignment.calls_other_task(copy, state, device):
      return str(state.device)
  return ""


def _renames(op: tf.Operation) -> list[_Edit]:
  """Returns what gives clones of an op names of their own for their states."""
  edits = [
    _renamed_state(op, attribute)
    for attribute in _NAMES_OF_STATES.intersection(op.node_def.attr)
  ]
  return edits + ([_renamed_variable(op)] if op.type == "VarHandleOp" else [])


def _renamed_state(op: tf.Operation, attribute: str) -> _Edit:
  name = op.get_attr(attribute).decode() or op.name

  def edit(node: tf.compat.v1.NodeDef, number: int) -> None:
    node.attr[attribute].s = f"{name}/{number}".encode()

  return edit


def _renamed_variable(op: tf.Operation) -> _Edit:
  name = op.get_attr("shared_name").decode() or op.name

  def edit(node: tf.compat.v1.NodeDef, number: int) -> None:
    node.attr["shared_name"].s = f"{name}/replica_{number}".encode()

  return edit
