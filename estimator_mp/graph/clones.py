"""Clones: a slice of the graph, once more for each further micro-batch.

Forward and backward are cloned together, so that no gradient is ever taken of
a clone: functional loops and v1 loops work.
"""

import dataclasses
from collections.abc import (
  Callable,
  Collection,
  Mapping,
  Sequence,
)
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import (
  colocation,
  device_assignment,
  draws,
  op_types,
  variables,
)
from estimator_mp.graph.calls import functions

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
    device: Returns the device that stands for one of the first micro-batch.
    tensors: The tensors that stand for those not cloned for it, by name.
    ops: The ops that stand for those not cloned for it, by name.
    number: The number of the micro-batch whose random numbers clones draw; 0
      for those of the originals.
  """

  scope: str
  device: Callable[[str], str] = lambda device: device
  tensors: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)
  ops: Mapping[str, tf.Operation] = dataclasses.field(default_factory=dict)
  number: int = 0


@dataclasses.dataclass(frozen=True)
class _Template:
  """The definition that all clones of some ops have in common.

  Attributes:
    seeds: The ops whose clones draw from another seed, by name.
    definition: Their definition, which is edited for each clone.
    outside: The tensors of other ops that they read, by name.
    waits: The other ops that they wait for, by the names of those that wait.
    renames: Edits by the number of a clone, with the index of the node.
    redraws: Edits by the number of a micro-batch, with the index of the node.
    devices: The devices of ops that have one, with the index of the node.
  """

  seeds: Mapping[str, tf.Operation]
  definition: tf.compat.v1.GraphDef = dataclasses.field(
    default_factory=tf.compat.v1.GraphDef
  )
  outside: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
  waits: dict[str, list[tf.Operation]] = dataclasses.field(default_factory=dict)
  renames: list[tuple[int, _Edit]] = dataclasses.field(default_factory=list)
  redraws: list[tuple[int, _Edit]] = dataclasses.field(default_factory=list)
  devices: list[tuple[int, str]] = dataclasses.field(default_factory=list)


class Clones:
  """The further micro-batches' copies of what was cloned so far.

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
    self._functions: functions.Functions | None = None

  def home(
    self,
    index: int,
    scope: str,
    device: Callable[[str], str],
    number: int = 0,
  ) -> Home:
    """Returns a home for clones that find one of these clones there.

    Args:
      index: Which one.
      scope: The scope of their names.
      device: Returns the device that stands for one of the first micro-batch.
      number: The number of the micro-batch whose random numbers they draw.
    """
    return Home(scope, device, self._tensors[index], self._ops[index], number)

  def pair(self, tensor: tf.Tensor, copies: Sequence[tf.Tensor]) -> None:
    """Says what stands for a tensor in each clone.

    Args:
      tensor: A tensor of the first micro-batch.
      copies: One per clone.
    """
    for known, copy in zip(self._tensors, copies, strict=True):
      known[tensor.name] = copy

  def __contains__(self, tensor: tf.Tensor) -> bool:
    return bool(self._tensors) and tensor.name in self._tensors[0]

  def of(self, tensor: tf.Tensor) -> list[tf.Tensor]:
    """Returns what stands for a tensor in each clone; itself if it is shared.

    Args:
      tensor: A tensor of the first micro-batch.
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
      op: An op of the first micro-batch, cloned or not.
    """
    return self._homes[index].device(op.device)

  def add(self, ops: Sequence[tf.Operation]) -> None:
    """Clones ops of the default graph, with their devices.

    A random op draws numbers of its own for each clone; see `draws`.

    Args:
      ops: Ops whose inputs are cloned already, or in `ops`, or shared.

    Raises:
      ValueError: If a function has a state that cannot be shared or cloned.
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
    draws_anew = any(home.number for home in self._homes)
    seeds = self._mixed_seeds(ops, inside) if draws_anew else {}
    template = _Template(seeds)
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
      if draws_anew and (redraw := self._redrawn(op, node, inside)):
        template.redraws.append((index, redraw))
      seed = op_types.SEED_INPUTS[op.type] if op.name in seeds else None
      for position, tensor in enumerate(op.inputs):
        if position == seed:
          node.input[position] = _seed_name(op)
        elif tensor.op.name not in inside:
          template.outside[tensor.name] = tensor
      template.definition.node.append(node)
    return template

  def _imported(
    self, template: _Template, index: int
  ) -> dict[str, tf.Operation]:
    """Returns the ops of a clone, which are made here, by the ops' names."""
    library = self._edit(template, index)
    inputs = self._inputs(template, index)
    with (
      tf.compat.v1.name_scope(None),
      tf.compat.v1.device(None),
      tf.control_dependencies(None),
    ):
      functions.define(library)
      return graph_edits.import_ops(
        template.definition, inputs, self._homes[index].scope
      )

  def _inputs(self, template: _Template, index: int) -> dict[str, tf.Tensor]:
    """Returns what a clone reads from outside of the template, by name."""
    return {
      name: self._tensor(index, tensor)
      for name, tensor in template.outside.items()
    } | self._seeds_of_home(index, template.seeds)

  def _edit(self, template: _Template, index: int) -> Any:
    """Makes the definition that of a clone; returns the functions it needs."""
    home, definition = self._homes[index], template.definition
    devices = {device for _, device in template.devices}
    device_of = {device: home.device(device) for device in devices}
    for node, device in template.devices:
      definition.node[node].device = device_of[device]
    for node, edit in template.renames:
      edit(definition.node[node], index + 1)
    for node, edit in template.redraws:
      edit(definition.node[node], home.number)
    library = tf.compat.v1.GraphDef().library
    if self._functions is not None:
      library.MergeFrom(self._functions.take())
    return library

  def _differs(self, tensor: tf.Tensor, inside: Collection[str]) -> bool:
    """Whether a tensor that ops to clone read is not the same for clones."""
    return tensor.op.name in inside or tensor in self

  def _redrawn(
    self,
    op: tf.Operation,
    node: tf.compat.v1.NodeDef,
    inside: Collection[str],
  ) -> _Edit | None:
    """Returns what gives clones of an op numbers of their own, if any do."""
    if self._functions is None:
      self._functions = functions.Functions(op.graph)
    if self._functions.are_called_by(node):
      self._functions.check(node)
      differing = [self._differs(tensor, inside) for tensor in op.inputs]
      return self._functions.caller(node, differing)
    return _reseeded(op) if draws.has_seed(node) else None

  def _mixed_seeds(
    self, ops: Sequence[tf.Operation], inside: Collection[str]
  ) -> dict[str, tf.Operation]:
    """Returns the ops, by their names, whose clones need another seed."""

    def differs(tensor: tf.Tensor) -> bool:
      return self._differs(tensor, inside)

    return {op.name: op for op in ops if draws.reads_seed(op, differs)}

  def _seeds_of_home(
    self, index: int, ops: Mapping[str, tf.Operation]
  ) -> dict[str, tf.Tensor]:
    """Returns the seeds that the clones of ops draw from."""
    home = self._homes[index]
    # Beside the clones, as an op may not have the name of a scope.
    scope = f"estimator_mp/seeds/{home.scope}"
    found = {}
    for op in ops.values():
      seed = self._tensor(index, op.inputs[op_types.SEED_INPUTS[op.type]])
      place = device_assignment.device_function(home.device(op.device))
      with (
        tf.compat.v1.name_scope(f"{scope}/{op.name}/"),
        tf.compat.v1.device(None),
        tf.compat.v1.device(place if op.device else None),
        tf.control_dependencies(None),
      ):
        mixed = draws.mixed_seed(seed, home.number)
      found[f"{_seed_name(op)}:0"] = mixed
    return found


def _seed_name(op: tf.Operation) -> str:
  """Returns the name of what stands for the seed while an op is imported."""
  return f"{op.name}/seed"


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


def _reseeded(op: tf.Operation) -> _Edit:
  seed = op.get_attr("seed2")

  def edit(node: tf.compat.v1.NodeDef, number: int) -> None:
    draws.reseed(node, seed, number)

  return edit


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
