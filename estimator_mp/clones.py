"""Clones: a slice of the graph, once more for each further micro-batch.

Forward and backward are cloned together, so that no gradient is ever taken of
a clone: functional loops and v1 loops work.
"""

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence

from compat import private_graph

import tensorflow as tf

_COLOCATION = "_class"
_MAX_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Home:
  """Where a clone is, and what is there for it already.

  Attributes:
    scope: The scope of its names.
    device: Returns the device that stands for one of the first micro-batch.
    tensors: What stands for tensors that are not cloned for it, by name.
    ops: What stands for ops that are not cloned for it, by name.
  """

  scope: str
  device: Callable[[str], str] = lambda device: device
  tensors: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)
  ops: Mapping[str, tf.Operation] = dataclasses.field(default_factory=dict)


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
    self.all_ops: set[tf.Operation] = set()

  def home(self, index: int, scope: str, device: Callable[[str], str]) -> Home:
    """Returns a home for clones that find one of these clones there.

    Args:
      index: Which one.
      scope: The scope of their names.
      device: Returns the device that stands for one of the first micro-batch.
    """
    return Home(scope, device, self._tensors[index], self._ops[index])

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

    A random op gets a seed of its own for each clone, which follows from its
    name and seed alone, whatever the mesh.

    Args:
      ops: Ops whose inputs are cloned already, or in `ops`, or shared.
    """
    if not ops:
      return
    inside = {op.name for op in ops}
    definition = tf.compat.v1.GraphDef()
    graph = tf.compat.v1.get_default_graph()
    definition.versions.CopyFrom(graph.graph_def_versions)
    waits: list[tuple[str, list[tf.Operation]]] = []
    edits: list[tuple[int, Callable[[tf.compat.v1.NodeDef, int], None]]] = []
    outside: dict[str, tf.Tensor] = {}
    for index, op in enumerate(ops):
      node = op.node_def
      shared = [c for c in op.control_inputs if c.name not in inside]
      if shared:
        waits.append((op.name, shared))
        kept = [x for x in node.input if x[0] != "^" or x[1:] in inside]
        del node.input[:]
        node.input.extend(kept)
      if node.device:
        node.attr.pop(_COLOCATION, None)
        # The importer would set it anew, which takes a third of its time.
        node.device = ""
      if "seed2" in node.attr and (node.attr["seed"].i or node.attr["seed2"].i):
        edits.append((index, _reseeded(op)))
      if "frame_name" in node.attr:
        edits.append((index, _renamed_frame(op)))
      if op.type == "VarHandleOp":
        edits.append((index, _renamed_variable(op)))
      for tensor in op.inputs:
        if tensor.op.name not in inside:
          outside[tensor.name] = tensor
      definition.node.append(node)
    names = [op.name for op in ops]
    bound = [_works_on_resource(op) for op in ops]
    for number, home in enumerate(self._homes):
      for index, edit in edits:
        edit(definition.node[index], number + 1)
      known = self._tensors[number]
      inputs = {x: self._tensor(number, outside[x]) for x in outside}
      with (
        tf.compat.v1.name_scope(None),
        tf.compat.v1.device(None),
        tf.control_dependencies(None),
      ):
        copies = tf.graph_util.import_graph_def(
          definition, inputs, names, name=home.scope
        )
      self.all_ops.update(copies)
      of_clone = self._ops[number]
      for op, copy, is_bound in zip(ops, copies, bound, strict=True):
        of_clone[op.name] = copy
        device = _device_of_resource(copy) if is_bound else ""
        if op.device:
          private_graph.set_device(copy, device or home.device(op.device))
        for tensor, other in zip(op.outputs, copy.outputs, strict=True):
          known[tensor.name] = other
      for name, shared in waits:
        others = [
          of_clone.get(c.name) or home.ops.get(c.name, c) for c in shared
        ]
        private_graph.add_control_inputs(of_clone[name], others)


def _works_on_resource(op: tf.Operation) -> bool:
  """Whether an op has to be where something with a state is."""
  return any(
    t.dtype == tf.resource or t.dtype != t.dtype.base_dtype for t in op.inputs
  )


def _device_of_resource(copy: tf.Operation) -> str:
  """Returns the device of the first resource that a clone works on."""
  for tensor in copy.inputs:
    is_reference = tensor.dtype != tensor.dtype.base_dtype
    if (tensor.dtype == tf.resource or is_reference) and tensor.op.device:
      return tensor.op.device
  return ""


def _reseeded(op: tf.Operation) -> Callable[[tf.compat.v1.NodeDef, int], None]:
  seed = op.get_attr("seed2")

  def edit(node: tf.compat.v1.NodeDef, number: int) -> None:
    text = f"{op.name}/{seed}/{number}"
    node.attr["seed2"].i = zlib.crc32(text.encode()) % _MAX_SEED + 1

  return edit


def _renamed_frame(
  op: tf.Operation,
) -> Callable[[tf.compat.v1.NodeDef, int], None]:
  frame = op.get_attr("frame_name").decode()

  def edit(node: tf.compat.v1.NodeDef, number: int) -> None:
    node.attr["frame_name"].s = f"{frame}/{number}".encode()

  return edit


def _renamed_variable(
  op: tf.Operation,
) -> Callable[[tf.compat.v1.NodeDef, int], None]:
  name = op.get_attr("shared_name").decode() or op.name

  def edit(node: tf.compat.v1.NodeDef, number: int) -> None:
    node.attr["shared_name"].s = f"{name}/replica_{number}".encode()

  return edit
