"""Graphs: name scopes, placeholders, Python functions, fused operations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from compat.private.contrib.framework import nest

import tensorflow as tf

v1 = tf.compat.v1


def get_name_scope() -> str:
  """Returns the name scope that new operations get, such as "a/b"."""
  name: str = v1.get_default_graph().get_name_scope()
  return name


def get_placeholders(graph: tf.Graph) -> list[Any]:
  """Returns the results of a graph's placeholders, those without a default.

  Raises:
    TypeError: if it is no graph.
  """
  if not isinstance(graph, tf.Graph):
    raise TypeError(f"graph={graph!r} must be a tf.Graph.")
  return [
    one.outputs[0]
    for one in graph.get_operations()
    if one.type == "Placeholder"
  ]


def py_func(
  func: Callable[..., Any],
  args: Sequence[Any] = (),
  kwargs: Mapping[str, Any] | None = None,
  output_types: Any = None,
  output_shapes: Any = None,
  stateful: bool = True,
  name: str | None = None,
) -> Any:
  """Calls a Python function of arrays when the graph runs.

  Args:
    func: gets an array for each tensor, in the structure of the arguments.
    args: tensors, nested or not.
    kwargs: tensors by name.
    output_types: dtypes in the structure that the function returns, or a
      function of the arguments that gives them.
    output_shapes: shapes in the same structure, or a function, or None.
    stateful: whether it may give another result for the same arguments.
    name: of the operation.

  Returns:
    Tensors in the structure of `output_types`.

  Raises:
    TypeError: if `args` is not a list or tuple, or `kwargs` not a dict.
  """
  kwargs = {} if kwargs is None else kwargs
  if not isinstance(args, (list, tuple)):
    raise TypeError(f"args={args!r} must be a list or a tuple.")
  if not isinstance(kwargs, dict):
    raise TypeError(f"kwargs={kwargs!r} must be a dict.")
  if callable(output_types):
    output_types = output_types(*args, **kwargs)
  if callable(output_shapes):
    output_shapes = output_shapes(*args, **kwargs)
  given = (args, kwargs)

  def call(*arrays: Any) -> Any:
    args_now, kwargs_now = nest.pack_sequence_as(given, arrays)
    result = func(*args_now, **kwargs_now)
    nest.assert_shallow_structure(output_types, result)
    return nest.flatten(result)

  results = v1.py_func(
    call, nest.flatten(given), nest.flatten(output_types), stateful, name
  )
  if output_shapes is not None:
    shapes = nest.flatten_up_to(output_types, output_shapes)
    for result, shape in zip(results, shapes, strict=True):
      result.set_shape(shape)
  return nest.pack_sequence_as(output_types, results)


def fuse_op(
  graph_def: Any,
  input_nodes: Sequence[str],
  output_nodes: Sequence[str],
  output_dtypes: Sequence[int],
  output_quantized: bool,
  op_name: str,
  op_type: str,
) -> Any:
  """Puts one operation in the place of all between some nodes and others.

  Args:
    graph_def: a GraphDef; it stays as it is.
    input_nodes: names of the nodes that the operation reads.
    output_nodes: names of nodes with one input, which becomes the operation's.
    output_dtypes: of its results, as numbers of the DataType enum.
    output_quantized: whether they are quantized.
    op_name: of the operation.
    op_type: its type.

  Returns:
    A new GraphDef.

  Raises:
    TypeError: if an argument is not of the kinds above, or a node between
      reads one that comes before the inputs.
    ValueError: if a node is not in the graph.
  """
  if not isinstance(graph_def, v1.GraphDef):
    raise TypeError(f"graph_def is a {type(graph_def).__name__}, no GraphDef.")
  for argument, names in (
    ("input_nodes", input_nodes),
    ("output_nodes", output_nodes),
  ):
    if isinstance(names, str):
      raise TypeError(f"{argument}={names!r} must be a list.")
  nodes = {node.name: node for node in graph_def.node}
  before = _needed_by(nodes, input_nodes)
  needed = _needed_by(nodes, output_nodes)
  for name in needed - before - set(output_nodes):
    for read in _inputs(nodes[name]):
      if read in before and read not in input_nodes:
        raise TypeError(f"{name} reads {read}, which is not in input_nodes.")
  fused = v1.GraphDef(library=graph_def.library, versions=graph_def.versions)
  fused.node.extend(node for node in graph_def.node if node.name in before)
  fused.node.append(
    v1.NodeDef(
      name=op_name,
      op=op_type,
      input=input_nodes,
      attr={
        "_output_types": v1.AttrValue(
          list=v1.AttrValue.ListValue(type=output_dtypes)
        ),
        "_output_quantized": v1.AttrValue(b=output_quantized),
      },
    )
  )
  for index, name in enumerate(output_nodes):
    output = fused.node.add()
    output.CopyFrom(nodes[name])
    output.input[:] = [f"{op_name}:{index}" if index else op_name]
  fused.node.extend(
    node
    for node in graph_def.node
    if node.name not in needed and node.name not in before
  )
  return fused


def _inputs(node: Any) -> list[str]:
  """Returns the names of the nodes that a node reads, or waits for."""
  return [one.removeprefix("^").partition(":")[0] for one in node.input]


def _needed_by(nodes: Mapping[str, Any], names: Iterable[str]) -> set[str]:
  """Returns nodes by name, with all that they need."""
  found: set[str] = set()
  waiting = list(names)
  while waiting:
    name = waiting.pop()
    if name not in nodes:
      raise ValueError(f"{name} is not in the graph.")
    if name not in found:
      found.add(name)
      waiting += _inputs(nodes[name])
  return found
