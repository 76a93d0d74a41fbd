"""Draws: random numbers of each micro-batch's own.

A clone draws what the first micro-batch draws unless it gets another seed:

- an op with seeds of its own (`tf.random.uniform`) gets one that follows from
  its name, its seed and the micro-batch, whatever the mesh;
- an op that reads its seed (`tf.random.stateless_uniform`, the draws of a
  `tf.random.Generator`) reads one that is mixed with the micro-batch's number,
  unless micro-batches differ in the seed already;
- a function (the body of a `tf.function`, of a loop or of a branch) is made
  once more for the micro-batch, with its ops treated so.

What is drawn from a seed and has no examples, such as a fixed projection, is
not cloned, and so it is the same for all.
"""

import hashlib
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from compat.private import graph_reads
from estimator_mp.graph import op_types, traversal

import tensorflow as tf

_MAX_SEED = 2**31 - 1
_KEY = tf.uint64
_UNKNOWN = tf.TensorShape(None)
# TensorFlow's optimizer would take another micro-batch's function for a better
# implementation of the same one.
_IMPLEMENTATIONS = (
  "api_implements",
  "api_preferred_device",
  "backward_function_name",
  "forward_function_name",
)


def has_seed(node: tf.compat.v1.NodeDef) -> bool:
  """Whether an op draws from a seed that it has as an attribute.

  Args:
    node: The op. With two zeros it draws other numbers in each run anyway, and
      one that is deterministic always draws the same for all examples.
  """
  attributes = node.attr
  if "seed2" not in attributes:
    return False
  is_fixed = "deterministic" in attributes and attributes["deterministic"].b
  return not is_fixed and bool(attributes["seed"].i or attributes["seed2"].i)


def reseed(node: tf.compat.v1.NodeDef, seed: int, number: int) -> None:
  """Gives an op the seed of a micro-batch.

  Args:
    node: The op; its name and second seed count.
    seed: Its second seed in the first micro-batch.
    number: The number of the micro-batch.
  """
  text = f"{node.name}/{seed}/{number}"
  node.attr["seed2"].i = zlib.crc32(text.encode()) % _MAX_SEED + 1


def mixed_seed(seed: tf.Tensor, number: int) -> tf.Tensor:
  """Returns a seed, or key, of a micro-batch.

  Args:
    seed: That of the first micro-batch.
    number: The number of the micro-batch.
  """
  return tf.bitwise.bitwise_xor(seed, tf.constant(_mix(number), seed.dtype))


def _mix(number: int) -> int:
  # The same wherever it is drawn: a backward pass may draw its mask again.
  return zlib.crc32(f"micro-batch {number}".encode()) % _MAX_SEED + 1


def reads_seed(op: tf.Operation, differs: Callable[[tf.Tensor], bool]) -> bool:
  """Whether a clone of an op has to draw from a seed that is mixed.

  Args:
    op: An op that is cloned.
    differs: Whether a tensor differs between micro-batches.
  """
  index = op_types.SEED_INPUTS.get(op.type)
  if index is None or differs(op.inputs[index]):
    return False
  return _has_examples(op.outputs[0].shape, _joints(op, differs))


def is_for_examples(
  op: tf.Operation,
  differs: Callable[[tf.Tensor], bool],
  num_rows: Collection[int],
) -> bool:
  """Whether what an op draws has a row for each example of a micro-batch.

  Where the graph knows how many examples there are, the op's shape is a
  constant that does not tell.

  Args:
    op: An op that does not differ between micro-batches.
    differs: Whether a tensor differs between them.
    num_rows: How many rows the features of a micro-batch have.
  """
  return op.type in op_types.SEED_INPUTS and any(
    _joins_rows(joint, num_rows) for joint in _joints(op, differs)
  )


# What was drawn, as a reader gets it, and what comes of it and of examples.
_Joint = tuple[tf.TensorShape, tf.TensorShape]


def _joints(
  op: tf.Operation, differs: Callable[[tf.Tensor], bool]
) -> Iterator[_Joint]:
  """Yields where what is made of draws alone meets what differs."""
  seen = {op}
  todo = [op]
  while todo:
    for tensor in todo.pop().outputs:
      for reader in tensor.consumers():
        if reader in seen or reader.type in op_types.SEEDED:
          continue
        seen.add(reader)
        if not any(differs(t) for t in reader.inputs if t.op not in seen):
          todo.append(reader)
        elif reader.type in op_types.ROW_BY_ROW:
          yield tensor.shape, reader.outputs[0].shape


def _has_examples(drawn: tf.TensorShape, joints: Iterable[_Joint]) -> bool:
  """Whether what is drawn with a shape that differs has rows of examples."""
  # One row is the same for all examples, unless there is one example.
  return _num_rows(drawn) != 1 or any(
    _num_rows(joined) == 1 for _, joined in joints
  )


def _joins_rows(joint: _Joint, num_rows: Collection[int]) -> bool:
  """Whether each row of what was drawn is for a row of examples."""
  drawn, joined = joint
  if drawn.rank is None or joined.rank is None:
    return True
  rows = _num_rows(drawn)
  if drawn.rank != joined.rank or rows is None or rows != _num_rows(joined):
    return False
  is_like_examples = any(n and rows % n == 0 for n in num_rows)
  if rows == 1:
    return is_like_examples
  return drawn.as_list() == joined.as_list() or is_like_examples


def _num_rows(shape: tf.TensorShape) -> int | None:
  """Returns the first dimension; in TensorFlow 1's behavior too, a number."""
  return shape.as_list()[0] if shape.rank else None


class Functions:
  """The functions of a graph, once more for further micro-batches."""

  def __init__(self, graph: tf.Graph, num_rows: Collection[int]):
    """Starts without any.

    Args:
      graph: The graph.
      num_rows: How many rows the features of a micro-batch have.
    """
    self._graph = graph
    self._num_rows = num_rows
    self._shapes: dict[str, dict[str, tf.TensorShape]] = {}
    self._known: dict[str, Any] = {}
    self._gradients: dict[str, str] = {}
    self._made: dict[tuple[str, int, frozenset[int]], str] = {}
    self._library = tf.compat.v1.GraphDef().library

  def are_called_by(self, node: tf.compat.v1.NodeDef) -> bool:
    """Whether an op calls functions of the graph.

    Args:
      node: An op of the graph.
    """
    names = {function.name for function in _functions_of(node)}
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
      # What comes out of one round goes into the next one.
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
      _functions_of(node), _functions_of(original), strict=True
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
      if has_seed(node):
        reseed(node, node.attr["seed2"].i, number)
      elif self._reads_seed(node, function, differ):
        seeds.append(node)
      elif _functions_of(node) or node.op in self._known:
        original = type(node)()
        original.CopyFrom(node)
        flags = [_source(name) in differ for name in _inputs(node)]
        self._call(node, original, number, flags)
    for node in seeds:
      _mix_seed(function, node, number)

  def _reads_seed(
    self, node: tf.compat.v1.NodeDef, function: Any, differ: Collection[str]
  ) -> bool:
    """Whether an op of a function has to draw from a seed that is mixed."""
    index = op_types.SEED_INPUTS.get(node.op)
    if index is None or _source(node.input[index]) in differ:
      return False
    name = function.signature.name
    if name not in self._shapes:
      self._shapes[name] = graph_reads.shapes_in_function(
        self._known[name], self._graph
      )
    shapes = self._shapes[name]
    joints = [
      (shapes.get(drawn, _UNKNOWN), shapes.get(joined, _UNKNOWN))
      for drawn, joined in _joints_of_function(node, function, differ)
    ]
    if node.name in differ:
      return _has_examples(shapes.get(node.name, _UNKNOWN), joints)
    return any(_joins_rows(joint, self._num_rows) for joint in joints)

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
      for name in [inner.op, *(f.name for f in _functions_of(inner))]:
        if name in self._known and name not in seen:
          seen.add(name)
          todo += self._known[name].node_def
      if op_types.STATE_SCOPES.get(inner.op) is op_types.StateScope.REFUSED:
        raise ValueError(
          op_types.refusal(f"{node.name}/{inner.name}", inner.op)
        )


def _functions_of(node: tf.compat.v1.NodeDef) -> list[Any]:
  """Returns the functions that are attributes of an op."""
  found = []
  for _, value in sorted(node.attr.items()):
    if value.HasField("func"):
      found.append(value.func)
    elif value.HasField("list"):
      found += value.list.func
  return found


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
      and (has_seed(node) or not found.isdisjoint(map(_source, _inputs(node))))
    )
    if is_new:
      found.add(node.name)
    return is_new

  # The ops of a function are in no order.
  traversal.repeat_until_stable(visit, function.node_def)
  return found


def _joints_of_function(
  node: tf.compat.v1.NodeDef, function: Any, differ: Collection[str]
) -> Iterator[tuple[str, str]]:
  """Yields, by their names, ops as `_joints` yields shapes."""
  made = {node.name}
  size = -1
  while len(made) > size:
    size = len(made)
    for reader in function.node_def:
      sources = [_source(name) for name in _inputs(reader)]
      drawn = [name for name in sources if name in made]
      if not drawn or reader.name in made or reader.op in op_types.SEEDED:
        continue
      if not any(name in differ and name not in made for name in sources):
        made.add(reader.name)
      elif reader.op in op_types.ROW_BY_ROW:
        yield drawn[0], reader.name


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
    tf.make_tensor_proto(_mix(number), tf.dtypes.as_dtype(dtype), [])
  )
  mixed = function.node_def.add(
    name=f"{node.name}/seed",
    op="BitwiseXor",
    input=[node.input[index], f"{constant.name}:output:0"],
  )
  mixed.attr["T"].type = dtype
  node.input[index] = f"{mixed.name}:z:0"
