"""Functions of a graph: the one of an op, and copies for micro-batches.

The draws of an op's clones in a function (the body of a `tf.function`, of a
loop or of a branch) have to differ as those outside do; see `draws`. So a
micro-batch gets a function of its own if that draws anything. A function that
says where its ops are gets a copy that does not.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from compat.private import graph_reads
from estimator_mp.graph import draws, op_types, traversal

import numpy as np
import tensorflow as tf

_KEY = tf.uint64
# TensorFlow's optimizer would take another micro-batch's function for a better
# implementation of the same one.
_IMPLEMENTATIONS = (
  "api_implements",
  "api_preferred_device",
  "backward_function_name",
  "forward_function_name",
)


def functions_of(node: tf.compat.v1.NodeDef) -> list[Any]:
  """Returns the functions that an op runs, as its attributes name them.

  Args:
    node: The op; one that has the name of its function as its type, as v1
      functions do, has none.
  """
  found = []
  for _, value in sorted(node.attr.items()):
    if value.HasField("func"):
      found.append(value.func)
    elif value.HasField("list"):
      found += value.list.func
  return found


def any_op(op: tf.Operation, is_one: Callable[[str], bool]) -> bool:
  """Whether an op is of some type, or runs one that is, in whatever function.

  Args:
    op: An op of a graph.
    is_one: Says of a type whether it is the one.
  """
  if is_one(op.type):
    return True
  names = {function.name for function in functions_of(op.node_def)}
  if not names and hasattr(tf.raw_ops, op.type):
    return False
  library = op.graph.as_graph_def().library
  known = {f.signature.name: f for f in library.function}

  def called(name: str) -> list[str]:
    return [
      other
      for node in known[name].node_def
      for other in (node.op, *(f.name for f in functions_of(node)))
      if other in known
    ]

  start = [name for name in (op.type, *names) if name in known]
  return any(
    is_one(node.op)
    for name in traversal.walk(start, called)
    for node in known[name].node_def
  )


def without_sizes(
  graph: tf.Graph, name: str, size: int
) -> tuple[str, dict[str, Any]]:
  """Returns a function that may be called with slices of a batch.

  A function remembers the shapes that it was built with, and its gradient is
  built with these.

  Args:
    graph: The graph that has it in its library.
    name: Its name.
    size: The size of the batch; dimensions that it divides are forgotten.

  Returns:
    The name of the function, and the definitions, by name, that the graph does
    not have; these of functions that it calls, too.
  """
  made: dict[str, Any] = {}

  def rename(name: str) -> str:
    known = graph_reads.function_definition(graph, name)
    new_name = f"{name}_without_size"
    if known is None or new_name in made:
      return name if known is None else new_name
    definition = made[new_name] = type(known)()
    definition.CopyFrom(known)
    definition.signature.name = new_name
    for attribute in _IMPLEMENTATIONS:
      definition.attr.pop(attribute, None)
    for attributes in (*definition.arg_attr.values(), *definition.node_def):
      attributes.attr.pop("_output_shapes", None)
    for node in definition.node_def:
      for shape in (
        node.attr["output_shapes"].list.shape
        if ("output_shapes" in node.attr)
        else ()
      ):
        for dimension in shape.dim:
          if dimension.size % size == 0:
            dimension.size = -1
      for function in functions_of(node):
        function.name = rename(function.name)
    _forget_element_sizes(definition, size)
    return new_name

  return rename(name), made


def _forget_element_sizes(function: Any, size: int) -> None:
  """Lets reads of lists return elements of a slice of a batch.

  Args:
    function: The definition of a function.
    size: The size of the batch; dimensions that it divides are forgotten.
  """
  nodes = {node.name: node for node in function.node_def}
  for node in nodes.values():
    shape = node.op == "TensorListGetItem" and nodes.get(_source(node.input[2]))
    if not shape or shape.op != "Const":
      continue
    sizes = tf.make_ndarray(shape.attr["value"].tensor)
    forgotten = function.node_def.add()
    forgotten.CopyFrom(shape)
    forgotten.name = f"{node.name}/without_size"
    forgotten.attr["value"].tensor.CopyFrom(
      tf.make_tensor_proto(np.where(sizes % size, sizes, -1), sizes.dtype)
    )
    node.input[2] = f"{forgotten.name}:output:0"


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


class Functions:
  """The functions of a graph, once more for further micro-batches."""

  def __init__(self, graph: tf.Graph):
    """Starts without any.

    Args:
      graph: The graph.
    """
    self._graph = graph
    self._known: dict[str, Any] = {}
    self._gradients: dict[str, str] = {}
    self._made: dict[tuple[str, int, frozenset[int]], str] = {}
    self._library = tf.compat.v1.GraphDef().library

  def are_called_by(self, node: tf.compat.v1.NodeDef) -> bool:
    """Whether an op calls functions of the graph.

    Args:
      node: An op of the graph.
    """
    names = {function.name for function in functions_of(node)}
    if not hasattr(tf.raw_ops, node.op):
      names.add(node.op)  # The op of a v1 function has its name.
    if not names:
      return False
    if names - self._known.keys():
      library = self._graph.as_graph_def().library
      self._known |= {f.signature.name: f for f in library.function}
      self._gradients |= {
        g.function_name: g.gradient_func for g in library.gradient
      }
    return not self._known.keys().isdisjoint(names)

  def take(self) -> Any:
    """Returns a library of what was made since the last call."""
    library = tf.compat.v1.GraphDef().library
    library.CopyFrom(self._library)
    self._library.Clear()
    return library

  def caller(
    self, node: tf.compat.v1.NodeDef, differing: Sequence[bool]
  ) -> Callable[[tf.compat.v1.NodeDef, int], None]:
    """Returns what lets a clone call the functions of its micro-batch.

    Args:
      node: An op that calls functions.
      differing: Of each of its inputs, whether micro-batches differ in it.

    Returns:
      A function of the clone's definition and its micro-batch's number.
    """
    original = type(node)()
    original.CopyFrom(node)

    def edit(node: tf.compat.v1.NodeDef, number: int) -> None:
      self._call(node, original, number, differing)

    return edit

  def _call(
    self,
    node: tf.compat.v1.NodeDef,
    original: tf.compat.v1.NodeDef,
    number: int,
    differing: Sequence[bool],
  ) -> None:
    """Lets an op call the functions of a micro-batch."""
    if original.op in self._known:
      node.op = self._of(original.op, number, _indices(differing))
    if original.op in op_types.FUNCTIONAL_LOOPS:
      # The outputs of one round are the inputs of the next one.
      body = original.attr["body"].func.name
      arguments = _indices(differing)
      while not arguments >= (found := self._outputs(body, arguments)):
        arguments |= found
    elif original.op in op_types.FUNCTIONAL_BRANCHES:
      arguments = _indices(differing[1:])
    else:
      is_call = original.op in (*op_types.FUNCTION_CALLS, "SymbolicGradient")
      arguments = _indices(differing if is_call else ())
    for function, first in zip(
      functions_of(node), functions_of(original), strict=True
    ):
      if first.name in self._known:
        function.name = self._of(first.name, number, arguments)

  def _of(self, name: str, number: int, differing: frozenset[int]) -> str:
    """Returns the name of the function of a micro-batch.

    Args:
      name: A function; its own name is returned if it draws nothing.
      number: The number of the micro-batch.
      differing: The arguments that micro-batches differ in.
    """
    key = (name, number, differing)
    if key not in self._made:
      made = type(self._known[name])()
      made.CopyFrom(self._known[name])
      self._edit(made, number, differing)
      self._made[key] = name
      if made != self._known[name]:
        for attribute in _IMPLEMENTATIONS:
          made.attr.pop(attribute, None)
        content = made.SerializeToString(deterministic=True)
        new_name = f"{name}_{hashlib.sha256(content).hexdigest()[:16]}"
        self._made[key] = new_name
        if new_name not in self._known:
          made.signature.name = new_name
          self._known[new_name] = made
          self._library.function.append(made)
          if name in self._gradients:
            gradient = self._of(self._gradients[name], number, differing)
            self._library.gradient.add(
              function_name=new_name, gradient_func=gradient
            )
    return self._made[key]

  def _edit(
    self, function: Any, number: int, differing: frozenset[int]
  ) -> None:
    """Edits the ops of a function for a micro-batch."""
    differ = _differing_nodes(function, differing)
    seeds = []
    for node in function.node_def:
      # Gradients of loops and conds remember the place of the first slice.
      node.device = ""
      node.attr.pop("_class", None)
      if draws.has_seed(node):
        draws.reseed(node, node.attr["seed2"].i, number)
      elif _reads_seed(node, differ):
        seeds.append(node)
      elif functions_of(node) or node.op in self._known:
        original = type(node)()
        original.CopyFrom(node)
        flags = [_source(name) in differ for name in _inputs(node)]
        self._call(node, original, number, flags)
    for node in seeds:
      _mix_seed(function, node, number)

  def _outputs(self, name: str, differing: frozenset[int]) -> frozenset[int]:
    """Returns the outputs of a function that micro-batches differ in."""
    function = self._known[name]
    differ = _differing_nodes(function, differing)
    return _indices(
      [
        _source(function.ret[output.name]) in differ
        for output in function.signature.output_arg
      ]
    )

  def check(self, node: tf.compat.v1.NodeDef) -> None:
    """Raises if a function has a state that cannot be shared or cloned.

    Args:
      node: An op that calls functions.

    Raises:
      ValueError: With the op of the function's body.
    """
    todo = [node]
    seen: set[str] = set()
    while todo:
      inner = todo.pop()
      for name in [inner.op, *(f.name for f in functions_of(inner))]:
        if name in self._known and name not in seen:
          seen.add(name)
          todo += self._known[name].node_def
      if op_types.STATE_SCOPES.get(inner.op) is op_types.StateScope.REFUSED:
        raise ValueError(
          op_types.refusal(f"{node.name}/{inner.name}", inner.op)
        )


def _indices(flags: Sequence[bool]) -> frozenset[int]:
  return frozenset(index for index, flag in enumerate(flags) if flag)


def _inputs(node: tf.compat.v1.NodeDef) -> list[str]:
  return [name for name in node.input if not name.startswith("^")]


def _source(name: str) -> str:
  """Returns the op, or argument, that an input in a function comes from."""
  return name.partition(":")[0]


def _differing_nodes(function: Any, differing: frozenset[int]) -> set[str]:
  """Returns the ops and arguments that micro-batches differ in."""
  arguments = function.signature.input_arg
  found = {a.name for i, a in enumerate(arguments) if i in differing}

  def visit(node: tf.compat.v1.NodeDef) -> bool:
    is_new = (
      node.name not in found
      and node.op not in op_types.MOVES_GENERATOR
      and (
        draws.has_seed(node)
        or not found.isdisjoint(map(_source, _inputs(node)))
      )
    )
    if is_new:
      found.add(node.name)
    return is_new

  # The ops of a function are in no order.
  traversal.repeat_until_stable(visit, function.node_def)
  return found


def _reads_seed(node: tf.compat.v1.NodeDef, differ: Collection[str]) -> bool:
  """Whether an op of a function has to draw from a seed that is mixed."""
  index = op_types.SEED_INPUTS.get(node.op)
  return index is not None and _source(node.input[index]) not in differ


def _mix_seed(function: Any, node: tf.compat.v1.NodeDef, number: int) -> None:
  """Lets an op of a function draw from a seed that is mixed."""
  index = op_types.SEED_INPUTS[node.op]
  # That of a key, unless the op is older than keys.
  dtype = (
    node.attr["Tseed"].type if "Tseed" in node.attr else _KEY.as_datatype_enum
  )
  constant = function.node_def.add(name=f"{node.name}/number", op="Const")
  constant.attr["dtype"].type = dtype
  constant.attr["value"].tensor.CopyFrom(
    tf.make_tensor_proto(draws.mask(number), tf.dtypes.as_dtype(dtype), [])
  )
  mixed = function.node_def.add(
    name=f"{node.name}/seed",
    op="BitwiseXor",
    input=[node.input[index], f"{constant.name}:output:0"],
  )
  mixed.attr["T"].type = dtype
  node.input[index] = f"{mixed.name}:z:0"
