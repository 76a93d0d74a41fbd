"""Reads of a graph that TensorFlow has no public names for.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `Operation._control_flow_context` tells the loop or cond that an op is in.
- `Operation._original_op` tells the op of whose gradient an op is part.
- `Operation._gradient_function` is the gradient that a `tf.function` has.
- `get_gradient_function` finds the gradient that an op names, or has itself.
- `function_def_to_graph` knows the shapes of the ops in a function.
- `Graph._get_function` and its result's `cached_definition` tell what is in a
  function of a graph; publicly one gets all functions with the whole graph. Its
  `graph` has the ops that Python made, with where it did.
- `Graph.operations` is the list that `get_operations` copies.
- `Operation._node_def` is the definition in bytes, which to read as a
  `NodeDef` takes several times as long. `Operation.colocation_groups` takes ten
  times as long, and finds out by an exception that an op has none.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph

_COLOCATED_WITH = b"loc:@"


def outermost_loop(op: tf.Operation) -> object | None:
  """Returns an object that stands for the v1 loop that an op is part of.

  Args:
    op: An op; functional `While` ops are no v1 loops.

  Returns:
    The same object for every op of the outermost loop; None outside of loops.
  """
  loop = None
  context = op._control_flow_context
  while context is not None:
    if context.IsWhileContext():
      loop = context
    context = context.outer_context
  return loop


def differentiated(op: tf.Operation) -> tf.Operation | None:
  """Returns the op of whose gradient an op is part.

  Args:
    op: An op that `tf.gradients` has made; None is returned for others, and for
      what adds up several gradients.
  """
  return getattr(op, "_original_op", None)


def is_of_gradient(op: tf.Operation) -> bool:
  """Whether an op was made for a gradient, by `tf.gradients` or by a tape.

  A tape says it by a scope of names alone (TensorFlow 2.15 to 2.21).

  Args:
    op: An op of a graph.
  """
  return differentiated(op) is not None or "gradient_tape/" in op.name


def num_ops(graph: tf.Graph) -> int:
  """Returns the number of ops of a graph."""
  return len(graph.operations)


def ops_after(graph: tf.Graph, count: int) -> list[tf.Operation]:
  """Returns the ops of a graph but the first ones, in their order.

  Args:
    graph: The graph.
    count: How many are left out.
  """
  found: list[tf.Operation] = graph.operations[count:]
  return found


def colocation_groups(op: tf.Operation) -> list[bytes]:
  """Returns what an op says that it is colocated with, by their names.

  Args:
    op: The op.

  Returns:
    The names, each after "loc:@". One that says nothing has none, or its own.
  """
  if op.type == "Const" and (op.outputs[0].shape.num_elements() or 0) > 1024:
    return list(op.colocation_groups())  # Without a copy of the constant.
  definition = op._node_def
  if _COLOCATED_WITH not in definition:
    return []
  groups = tf.compat.v1.NodeDef.FromString(definition).attr["_class"].list.s
  return [name for name in groups if name.startswith(_COLOCATED_WITH)]


def is_in_control_flow(op: tf.Operation) -> bool:
  """Whether an op is in a v1 loop or in a branch of a v1 cond.

  Args:
    op: An op.
  """
  return op._control_flow_context is not None


def function_definition(graph: tf.Graph, name: str) -> Any:
  """Returns the definition (a `FunctionDef`) of a function.

  Args:
    graph: A graph that has it in its library; None is returned otherwise.
    name: Its name, as the attributes of an op have it.
  """
  function = graph._get_function(name)
  return None if function is None else function.cached_definition


# What reads an element of a list, or a variable; and what names its dtype.
_READS = {"ReadVariableOp": "dtype", "TensorListGetItem": "element_dtype"}


@dataclasses.dataclass(frozen=True)
class Body:
  """A function, as a graph.

  Attributes:
    graph: Its graph.
    inputs: Its arguments there.
    outputs: The tensors that it returns.
    reads: The arguments that are lists or variables, by the names of the ops
      that read them. Those ops are placeholders here.
  """

  graph: tf.Graph
  inputs: Sequence[tf.Tensor]
  outputs: Sequence[tf.Tensor]
  reads: Mapping[str, tf.Tensor]


def sized_function(
  graph: tf.Graph,
  name: str,
  shapes: Sequence[tf.TensorShape],
  elements: Sequence[tf.TensorShape | None],
) -> Body | None:
  """Returns a function with the shapes that its ops have for its arguments.

  Args:
    graph: A graph that has the function in its library.
    name: Its name, as the attributes of an op have it.
    shapes: The shapes of its arguments.
    elements: The shapes of the elements of arguments that are lists, and those
      of variables; None for others, and where it is unknown.

  Returns:
    The function; None if the graph does not have it.
  """
  known = function_definition(graph, name)
  if known is None:
    return None
  definition = type(known)()
  definition.CopyFrom(known)
  known_shapes = {
    argument.name: shape
    for argument, shape in zip(
      definition.signature.input_arg, elements, strict=True
    )
    if shape is not None
  }
  for attributes in (*definition.arg_attr.values(), *definition.node_def):
    attributes.attr.pop("_output_shapes", None)  # Those it was built with.
  reads: dict[str, str] = {}
  for node in definition.node_def:
    dtype = _READS.get(node.op)
    if dtype is not None and node.input[0] in known_shapes:
      reads[node.name] = node.input[0]
      dtype = node.attr[dtype].type
      node.op = "Placeholder"
      del node.input[:]
      node.attr.clear()
      node.attr["dtype"].type = dtype
      shape = known_shapes[reads[node.name]].as_proto()
      node.attr["shape"].shape.CopyFrom(shape)
  for node in definition.node_def:
    renamed = [_read_of(x, reads) for x in node.input]
    del node.input[:]
    node.input.extend(renamed)
  for key, value in definition.ret.items():
    definition.ret[key] = _read_of(value, reads)
  with graph.as_default():
    body = function_def_to_graph.function_def_to_graph(
      definition, input_shapes=list(shapes), include_library_functions=True
    )
  arguments = dict(
    zip(
      (x.name for x in definition.signature.input_arg), body.inputs, strict=True
    )
  )
  found = {op: arguments[of_list] for op, of_list in reads.items()}
  return Body(body, body.inputs, body.outputs, found)


def _read_of(name: str, reads: Mapping[str, str]) -> str:
  """Returns the name of a tensor, of a placeholder if it is one now."""
  op, _, rest = name.partition(":")
  if op not in reads or not rest:
    return name
  return f"{op}:output:{rest.rpartition(':')[2]}"
