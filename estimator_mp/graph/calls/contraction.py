"""Contraction: a call in the place of each group of ops.

The functions are not inlined: a session that expanded hundreds of calls would
take longer for it than whoever builds the graph has saved. Ways compared, on an
encoder of 4 layers (670 ops of each micro-batch), TensorFlow 2.15.1 and 2.21.0:

- The C importer alone takes 30 us per op, and an `Operation` in Python another
  28; neither release makes these lazily. So 32 micro-batches of ops are far
  above 1.5 times one, whatever Python does.
- Each import of a few calls took 8 ms, so calls are imported together. Whether
  that helps clones of many ops, and what inlined functions cost, is not
  measured.
"""

import dataclasses
import hashlib
from collections.abc import (
  Callable,
  Collection,
  Hashable,
  Iterable,
  Mapping,
  Sequence,
)
from typing import Any

from estimator_mp.graph import feeds

import tensorflow as tf

CALL = "PartitionedCall"
_COLOCATION = "_class"
# A larger constant is read, so that it is there once.
_MOST_BYTES_OF_CONSTANT = 1 << 10


@dataclasses.dataclass(frozen=True)
class Call:
  """A function of a group of ops, and an op that calls it.

  Attributes:
    node: The op, without the function's name.
    results: The tensors that its outputs stand for, by their names.
    function: The function that is called (a `FunctionDef`), without a name.
    known: The functions that were made of it, by their devices.
  """

  node: tf.compat.v1.NodeDef
  results: Sequence[str]
  function: Any
  known: dict[tuple[str, ...], Any] = dataclasses.field(default_factory=dict)

  def on(self, device_of: Callable[[str], str]) -> Any:
    """Returns the function, with its ops on other devices.

    Its name says what is in it.

    Args:
      device_of: Returns the device that stands for another.
    """
    devices = tuple(device_of(x.device) for x in self.function.node_def)
    if devices not in self.known:
      made = type(self.function)()
      made.CopyFrom(self.function)
      for node, device in zip(made.node_def, devices, strict=True):
        node.device = device
      content = made.SerializeToString(deterministic=True)
      digest = hashlib.sha256(content).hexdigest()[:16]
      made.signature.name = f"estimator_mp_cell_{digest}"
      self.known[devices] = made
    return self.known[devices]


def call_of(
  name: str,
  device: str,
  ops: Sequence[tf.Operation],
  nodes: Sequence[tf.compat.v1.NodeDef],
  results: Sequence[tf.Tensor],
  refer: Callable[[tf.Tensor], str],
) -> Call:
  """Returns a call that computes a group of ops.

  Args:
    name: Its name.
    device: Its device.
    ops: The ops, in the order of the graph.
    nodes: Their definitions.
    results: Those of their outputs that are read elsewhere.
    refer: Returns how the definition of a call names a tensor of elsewhere.
  """
  function = tf.compat.v1.GraphDef().library.function.add()
  inside = {op.name for op in ops}
  references: dict[str, str] = {}
  constants: dict[str, tf.Operation] = {}
  arguments: list[tf.Tensor] = []
  for tensor in (tensor for op in ops for tensor in op.inputs):
    if tensor.name in references:
      continue
    if tensor.op.name in inside or _is_small_constant(tensor.op):
      references[tensor.name] = _output(tensor)
      if tensor.op.name not in inside:
        constants[tensor.op.name] = tensor.op
    else:
      references[tensor.name] = f"argument_{len(arguments)}"
      _add_argument(function, len(arguments), tensor)
      arguments.append(tensor)
  for op in constants.values():
    _add_node(function, op.node_def, (), device)
  for op, node in zip(ops, nodes, strict=True):
    kept = [f"^{_inner(x.name)}" for x in op.control_inputs if x.name in inside]
    read = [references[tensor.name] for tensor in op.inputs]
    _add_node(function, node, [*read, *kept], op.device)
  for index, tensor in enumerate(results):
    output = function.signature.output_arg.add(name=f"result_{index}")
    output.type = tensor.dtype.as_datatype_enum
    function.ret[output.name] = _output(tensor)
  function.attr["_noinline"].b = True
  node = tf.compat.v1.NodeDef(name=name, op=CALL, device=device)
  node.input.extend(map(refer, arguments))
  for attribute, tensors in (("Tin", arguments), ("Tout", results)):
    types = node.attr[attribute].list  # The list is there if it is empty, too.
    types.SetInParent()
    types.type.extend(tensor.dtype.as_datatype_enum for tensor in tensors)
  shapes = node.attr["_output_shapes"].list
  shapes.shape.extend(tensor.shape.as_proto() for tensor in results)
  return Call(node, [tensor.name for tensor in results], function)


def define(library: Any) -> None:
  """Adds functions to the default graph; what is there already stays.

  Args:
    library: The functions (a `FunctionDefLibrary`).
  """
  if not library.function:
    return
  graph = tf.compat.v1.get_default_graph()
  definition = tf.compat.v1.GraphDef(
    library=library, versions=graph.graph_def_versions
  )
  tf.graph_util.import_graph_def(definition, name="")


def add_with_prefix(
  whole: tf.compat.v1.GraphDef,
  part: tf.compat.v1.GraphDef,
  prefix: str,
  outside: Mapping[str, tf.Tensor],
) -> None:
  """Adds ops to a definition, with other names.

  Args:
    whole: The definition, which gets more ops.
    part: The ops.
    prefix: The prefix that their names get.
    outside: The tensors of other ops that they read, by name: they read them by
      the names that these have in the graph.
  """
  names = {node.name for node in part.node}
  for node in part.node:
    made = whole.node.add()
    made.CopyFrom(node)
    made.name = prefix + node.name
    for index, name in enumerate(node.input):
      if name.startswith("^"):
        made.input[index] = f"^{prefix}{name[1:]}"
        continue
      tensor = outside.get(name if ":" in name else f"{name}:0")
      made.input[index] = prefix + name if tensor is None else tensor.name
    if _COLOCATION in node.attr:
      made.attr[_COLOCATION].list.s[:] = [
        b"loc:@" + (prefix + name if name in names else name).encode()
        for name in (
          group.decode().removeprefix("loc:@")
          for group in node.attr[_COLOCATION].list.s
        )
      ]


def results_of(
  ops: Iterable[tf.Operation],
  groups: Mapping[tf.Operation, Hashable],
  wanted: Collection[tf.Operation],
) -> list[tf.Tensor]:
  """Returns what is read of a group of ops elsewhere.

  Args:
    ops: The ops of one group.
    groups: The groups of ops.
    wanted: Ops whose outputs are going to be read.
  """
  return [
    tensor
    for op in ops
    for tensor in op.outputs
    if op in wanted
    or any(groups.get(x) != groups[op] for x in tensor.consumers())
  ]


def _inner(name: str) -> str:
  """Returns the name that an op has in a function."""
  return f"cell/{name}"


def _output(tensor: tf.Tensor) -> str:
  """Returns how a function names the output of one of its ops."""
  index = tensor.value_index
  node = tensor.op.node_def
  for argument in tensor.op.op_def.output_arg:
    count = 1
    if argument.number_attr:
      count = node.attr[argument.number_attr].i
    elif argument.type_list_attr:
      count = len(node.attr[argument.type_list_attr].list.type)
    if index < count:
      return f"{_inner(tensor.op.name)}:{argument.name}:{index}"
    index -= count
  raise ValueError(f"{tensor.name} is not an output of {node.op}")


def _is_small_constant(op: tf.Operation) -> bool:
  return bool(
    feeds.can_be_copied(op)
    and op.outputs[0].dtype != tf.string
    and op.node_def.ByteSize() <= _MOST_BYTES_OF_CONSTANT
  )


def _add_argument(function: Any, index: int, tensor: tf.Tensor) -> None:
  argument = function.signature.input_arg.add(name=f"argument_{index}")
  argument.type = tensor.dtype.as_datatype_enum
  shapes = function.arg_attr[index].attr["_output_shapes"].list
  shapes.shape.append(tensor.shape.as_proto())


def _add_node(
  function: Any,
  definition: tf.compat.v1.NodeDef,
  inputs: Sequence[str],
  device: str,
) -> None:
  node = function.node_def.add()
  node.CopyFrom(definition)
  node.name = _inner(definition.name)
  node.device = device
  node.attr.pop(_COLOCATION, None)
  del node.input[:]
  node.input.extend(inputs)
