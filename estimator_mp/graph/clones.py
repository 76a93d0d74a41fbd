"""Clones: a slice of the graph, once more for each further micro-batch.

Forward and backward are cloned together, so that no gradient is ever taken of
a clone: functional loops and v1 loops work.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence

from compat.private import graph_edits
from estimator_mp.graph import device_assignment, draws, functions, op_types

import tensorflow as tf

_COLOCATION = "_class"
# A loop's frame, and a variable of one step.
_NAMES_OF_STATES = frozenset(["frame_name", "var_name"])

_Edit = Callable[[tf.compat.v1.NodeDef, int], None]


@dataclasses.dataclass(frozen=True)
class Home:
  """Where a clone is, and what is there for it already.

  Attributes:
    scope: The scope of its names.
    device: Returns the device that stands for one of the first micro-batch.
    tensors: What stands for tensors that are not cloned for it, by name.
    ops: What stands for ops that are not cloned for it, by name.
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
  """What all clones of some ops have in common.

  Attributes:
    names: The names of the ops.
    seeds: Those of them whose clones draw from another seed, by name.
    definition: Their definition, which is edited for each clone.
    outside: What they read that is not among them, by name.
    waits: What they wait for that is not among them, by their names.
    renames: Edits by the number of a clone, with the index of the node.
    redraws: Edits by the number of a micro-batch, with the index of the node.
  """

  names: Sequence[str]
  seeds: Mapping[str, tf.Operation]
  definition: tf.compat.v1.GraphDef = dataclasses.field(
    default_factory=tf.compat.v1.GraphDef
  )
  outside: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)
  waits: dict[str, list[tf.Operation]] = dataclasses.field(default_factory=dict)
  renames: list[tuple[int, _Edit]] = dataclasses.field(default_factory=list)
  redraws: list[tuple[int, _Edit]] = dataclasses.field(default_factory=list)


class Clones:
  """The further micro-batches' copies of what was cloned so far.

  Attributes:
    count: How many clones there are.
    all_ops: The ops of all clones.
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
    self._num_rows: set[int] = set()  # Of features, if the graph knows.
    self.all_ops: set[tf.Operation] = set()

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
    if tensor.shape.rank and (num_rows := tensor.shape.as_list()[0]):
      self._num_rows.add(num_rows)
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

  def is_copy(self, op: tf.Operation) -> bool:
    """Whether an op is a clone of another.

    Args:
      op: An op.
    """
    return op in self.all_ops

  def op(self, index: int, op: tf.Operation) -> tf.Operation:
    """Returns the copy of an op.

    Args:
      index: Which clone.
      op: An op that was cloned.
    """
    return self._ops[index][op.name]

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
    bound = {op for op in ops if any(map(op_types.is_handle, op.inputs))}
    for index, home in enumerate(self._homes):
      copies = self._imported(template, index)
      self.all_ops.update(copies)
      of_clone = self._ops[index]
      for op, copy in zip(ops, copies, strict=True):
        of_clone[op.name] = copy
        if op.device:
          device = _device_of_handle(copy) if op in bound else ""
          graph_edits.set_device(copy, device or home.device(op.device))
        for tensor, other in zip(op.outputs, copy.outputs, strict=True):
          self._tensors[index][tensor.name] = other
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
    template = _Template([op.name for op in ops], seeds)
    versions = tf.compat.v1.get_default_graph().graph_def_versions
    template.definition.versions.CopyFrom(versions)
    for index, op in enumerate(ops):
      node = op.node_def
      shared = [c for c in op.control_inputs if c.name not in inside]
      if shared:
        template.waits[op.name] = shared
        kept = [x for x in node.input if x[0] != "^" or x[1:] in inside]
        del node.input[:]
        node.input.extend(kept)
      if node.device:
        node.attr.pop(_COLOCATION, None)
        # The importer would set it anew, which takes a third of its time.
        node.device = ""
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

  def _imported(self, template: _Template, index: int) -> list[tf.Operation]:
    """Returns the ops of a clone, which are made here."""
    home, definition = self._homes[index], template.definition
    for node, edit in template.renames:
      edit(definition.node[node], index + 1)
    for node, edit in template.redraws:
      edit(definition.node[node], home.number)
    if self._functions is not None:
      definition.library.CopyFrom(self._functions.take())
    inputs = {
      name: self._tensor(index, tensor)
      for name, tensor in template.outside.items()
    } | self._seeds_of_home(index, template.seeds)
    with (
      tf.compat.v1.name_scope(None),
      tf.compat.v1.device(None),
      tf.control_dependencies(None),
    ):
      copies: list[tf.Operation] = tf.graph_util.import_graph_def(
        definition, inputs, template.names, name=home.scope
      )
    return copies

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
      self._functions = functions.Functions(op.graph, self._num_rows)
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
    found = {}
    for op in ops.values():
      seed = self._tensor(index, op.inputs[op_types.SEED_INPUTS[op.type]])
      place = device_assignment.device_function(home.device(op.device))
      with (
        tf.compat.v1.name_scope(f"{home.scope}/{op.name}/seed/"),
        tf.compat.v1.device(None),
        tf.compat.v1.device(place if op.device else None),
        tf.control_dependencies(None),
      ):
        mixed = draws.mixed_seed(seed, home.number)
      found[f"{_seed_name(op)}:0"] = mixed
      self.all_ops.update([mixed.op, mixed.op.inputs[1].op])
    return found


def _seed_name(op: tf.Operation) -> str:
  """Returns the name of what stands for the seed while an op is imported."""
  return f"{op.name}/seed"


def _device_of_handle(copy: tf.Operation) -> str:
  """Returns the device of the first state that a clone works on, or ""."""
  for tensor in copy.inputs:
    if op_types.is_handle(tensor) and tensor.op.device:
      return str(tensor.op.device)
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
