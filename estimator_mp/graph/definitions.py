"""Definitions of ops that are to be added to a graph, all at once.

An op is made as data first: its name, its type, the names of its inputs. A
`Definitions` collects them, and adds them in one call of TensorFlow's importer,
which is many times as fast as to make them one by one in Python.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compat.private import graph_edits
from estimator_mp.graph import traversal
from estimator_mp.graph.snippets import Snippet

import tensorflow as tf

_AttrValue = tf.compat.v1.AttrValue


class Definitions:
  """Ops to be added to a graph.

  A tensor is named as in TensorFlow, "scope/name:0"; one that no op of the
  definitions makes is one of the graph.

  Attributes:
    made_for: The purpose of each op, by its name, as `on` was told.
  """

  def __init__(self, graph: tf.Graph):
    """Starts with none.

    Args:
      graph: The graph.
    """
    self._graph = graph
    self._nodes: dict[str, tf.compat.v1.NodeDef] = {}
    self._read: set[str] = set()
    self._numbers: dict[str, int] = {}  # The last ones added to names.
    self._originals: dict[tf.Operation, tf.compat.v1.NodeDef] = {}
    self._shared: dict[tuple[object, ...], str] = {}
    self._device = ""
    self._for: Any = None
    self.made_for: dict[str, Any] = {}
    # Ops of the graph that these wait for.
    self._waits: dict[str, list[str]] = {}
    # The tensor that comes back to an op that begins a loop, with the number of
    # the input.
    self._back: dict[str, tuple[int, str]] = {}

  def __contains__(self, name: str) -> bool:
    """Whether an op of a name is to be added."""
    return name in self._nodes

  def __len__(self) -> int:
    """How many ops are to be added."""
    return len(self._nodes)

  @contextlib.contextmanager
  def on(self, device: str, made_for: Any = None) -> Iterator[None]:
    """A context in which ops are added on a device.

    Args:
      device: Its name; "" for none.
      made_for: Their purpose, if anybody wants to know.
    """
    before = self._device, self._for
    self._device, self._for = device, made_for
    try:
      yield
    finally:
      self._device, self._for = before

  def add(
    self,
    op_type: str,
    name: str,
    inputs: Sequence[str] = (),
    control_inputs: Iterable[str] = (),
    **attributes: Any,
  ) -> str:
    """Adds an op.

    Args:
      op_type: Its type.
      name: Its name; a number is added if another one has it.
      inputs: The tensors that it reads, by name.
      control_inputs: The ops that it waits for, by name.
      **attributes: Its attributes: numbers, truth values, names, `tf.DType`s,
        `tf.TensorShape`s and lists of these, or `AttrValue`s.

    Returns:
      The name of its first output.
    """
    node = tf.compat.v1.NodeDef(op=op_type)
    for key, value in attributes.items():
      node.attr[key].CopyFrom(_attribute(value))
    return self._enter(node, name, inputs, control_inputs)

  def add_once(
    self, op_type: str, name: str, inputs: Sequence[str], **attributes: Any
  ) -> str:
    """Adds an op, unless this has added an equal one, wherever that is.

    Args:
      op_type: As for `add`, and so are the other arguments.
      name: As there.
      inputs: As there.
      **attributes: As there, but no lists and no `AttrValue`s.

    Returns:
      The name of its first output.
    """
    key = op_type, *inputs, *sorted(attributes.items())
    if key not in self._shared:
      self._shared[key] = self.add(op_type, name, inputs, **attributes)
    return self._shared[key]

  def copy(
    self,
    op: tf.Operation,
    name: str,
    inputs: Sequence[str],
    control_inputs: Iterable[str] = (),
    attributes: Mapping[str, Any] | None = None,
  ) -> str:
    """Adds a copy of an op of the graph.

    Args:
      op: The op.
      name: As for `add`, and so are the other arguments.
      inputs: As there.
      control_inputs: As there.
      attributes: Those that differ from the op's.

    Returns:
      The name of its first output.
    """
    node = tf.compat.v1.NodeDef()
    node.CopyFrom(self.original(op))
    for key in ("_class", "_output_shapes", "_gradient_op_type"):
      node.attr.pop(key, None)
    for key, value in (attributes or {}).items():
      node.attr[key].CopyFrom(_attribute(value))
    return self._enter(node, name, inputs, control_inputs)

  def add_snippet(
    self,
    snippet: Snippet,
    scope: str,
    inputs: Sequence[str],
    on_part: Callable[[int], AbstractContextManager[None]],
  ) -> Any:
    """Adds the ops of a snippet.

    Args:
      snippet: The ops.
      scope: The beginning of their names.
      inputs: The tensors that they read, by name.
      on_part: A context in which ops are added on the device of a part.

    Returns:
      The results of the snippet's function, by name.
    """
    tensors = dict(zip(snippet.inputs, inputs, strict=True))

    def named(name: str) -> str:
      op, _, index = name.partition(":")
      return tensors.get(op) or f"{ops[op]}:{index or 0}"

    ops: dict[str, str] = {}
    for node, part in zip(snippet.nodes, snippet.parts, strict=True):
      copy = tf.compat.v1.NodeDef()
      copy.CopyFrom(node)
      reads = [named(x) for x in node.input if x[0] != "^"]
      waits = [ops[x[1:]] for x in node.input if x[0] == "^"]
      with on_part(part):
        output = self._enter(copy, f"{scope}/{node.name}", reads, waits)
      ops[node.name] = op_name(output)
    results = [named(x) for x in snippet.outputs]
    return tf.nest.pack_sequence_as(snippet.structure, results)

  def original(self, op: tf.Operation) -> tf.compat.v1.NodeDef:
    """Returns the definition of an op of the graph, which is read once.

    Args:
      op: The op, of which several copies may be added.
    """
    if op not in self._originals:
      self._originals[op] = op.node_def
    return self._originals[op]

  def constant(self, name: str, value: Any, dtype: tf.DType) -> str:
    """Adds a constant.

    Args:
      name: As for `add`.
      value: A number, or an array.
      dtype: Its type.

    Returns:
      Its name.
    """
    proto = tf.make_tensor_proto(value, dtype)
    return self.add("Const", name, dtype=dtype, value=_AttrValue(tensor=proto))

  def loop_back(self, merge: str, index: int, tensor: str) -> None:
    """Lets an op that begins the rounds of a loop read the loop variable.

    Args:
      merge: The name of its output; it was added with another tensor there.
      index: Which of its inputs comes back.
      tensor: The tensor, which one of these makes.
    """
    self._back[op_name(merge)] = index, tensor

  def prune(self, names: Iterable[str]) -> None:
    """Leaves out ops that nothing needs.

    Args:
      names: The names of tensors, and of ops, that are needed.
    """
    needed: set[str] = set()
    todo = [name.partition(":")[0] for name in names]
    while todo:
      name = todo.pop()
      if name in needed or name not in self._nodes:
        continue
      needed.add(name)
      todo += [_op_name_of_input(x) for x in self._nodes[name].input]
      if name in self._back:
        todo.append(op_name(self._back[name][1]))
    self._nodes = {k: x for k, x in self._nodes.items() if k in needed}
    self._waits = {k: x for k, x in self._waits.items() if k in needed}
    self._back = {k: x for k, x in self._back.items() if k in needed}
    self._read = {
      x for node in self._nodes.values() for x in node.input if x[0] != "^"
    }

  def import_into_graph(self) -> dict[str, tf.Operation]:
    """Adds the ops to the graph.

    Returns:
      The ops, by the names that they have here.
    """
    definition = tf.compat.v1.GraphDef()
    definition.versions.producer = tf.version.GRAPH_DEF_VERSION
    definition.node.extend(self._nodes.values())
    external = {
      name: traversal.tensor_of_name(self._graph, name)
      for name in self._read
      if op_name(name) not in self._nodes
    }
    with self._graph.as_default(), tf.control_dependencies(None):
      ops = graph_edits.import_ops(definition, external, "")
    for name, waits in self._waits.items():
      graph_edits.add_control_inputs(
        ops[name], [self._graph.get_operation_by_name(x) for x in waits]
      )
    for name, (index, tensor) in self._back.items():
      op, _, output = tensor.rpartition(":")
      graph_edits.replace_input(ops[name], index, ops[op].outputs[int(output)])
    return ops

  def _enter(
    self,
    node: tf.compat.v1.NodeDef,
    name: str,
    inputs: Sequence[str],
    control_inputs: Iterable[str],
  ) -> str:
    node.name = self._free(name)
    node.device = self._device
    self._read.update(inputs)
    waits = list(dict.fromkeys(control_inputs))
    local = [name for name in waits if name in self._nodes]
    node.input[:] = [*inputs, *(f"^{name}" for name in local)]
    if others := [name for name in waits if name not in self._nodes]:
      self._waits[node.name] = others
    self._nodes[node.name] = node
    if self._for is not None:
      self.made_for[node.name] = self._for
    return f"{node.name}:0"

  def _free(self, name: str) -> str:
    free, number = name, self._numbers.get(name, 0)
    while free in self._nodes or graph_edits.is_name_taken(self._graph, free):
      number += 1
      free = f"{name}_{number}"
    self._numbers[name] = number
    return free


def _op_name_of_input(name: str) -> str:
  return name.removeprefix("^").partition(":")[0]


def op_name(tensor: str) -> str:
  """Returns the name of the op that makes a tensor.

  Args:
    tensor: The name of the tensor.
  """
  return tensor.rpartition(":")[0]


def _attribute(value: Any) -> Any:
  if isinstance(value, _AttrValue):
    return value
  if isinstance(value, bool):
    return _AttrValue(b=value)
  if isinstance(value, int):
    return _AttrValue(i=value)
  if isinstance(value, str):
    return _AttrValue(s=value.encode())
  if isinstance(value, tf.TensorShape):
    return _AttrValue(shape=value.as_proto())
  if isinstance(value, list) and all(isinstance(x, tf.DType) for x in value):
    types = [x.as_datatype_enum for x in value]
    return _AttrValue(list=_AttrValue.ListValue(type=types))
  if isinstance(value, list):
    shapes = [x.as_proto() for x in value]
    return _AttrValue(list=_AttrValue.ListValue(shape=shapes))
  if isinstance(value, tf.DType):
    return _AttrValue(type=value.as_datatype_enum)
  raise TypeError(f"{value!r} is no attribute that is written here")
