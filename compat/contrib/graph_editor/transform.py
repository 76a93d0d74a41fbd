"""Copies of parts of a graph, which may read other tensors."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from compat.contrib.graph_editor import select, util
from compat.contrib.graph_editor.subgraph import SubGraphView, make_view
from compat.contrib.graph_editor.util import ControlOutputs
from compat.private import graph_edits, graph_reads

import tensorflow as tf

_KNOWN_COLLECTIONS = frozenset(
  value
  for name, value in vars(tf.compat.v1.GraphKeys).items()
  if not name.startswith("__") and isinstance(value, str)
)


class TransformerInfo:
  """Tells which copy is that of which op, or tensor."""

  def __init__(self, transformed_ops: Mapping[tf.Operation, tf.Operation]):
    """Makes it.

    Args:
      transformed_ops: the copies, by the ops.
    """
    # Programs read these two.
    self._transformed_ops = dict(transformed_ops)
    self._transformed_ts = {
      t: copied
      for op, copied_op in transformed_ops.items()
      for t, copied in zip(op.outputs, copied_op.outputs, strict=True)
    }

  def transformed(
    self, original: Any, missing_fn: Callable[[Any], Any] | None = None
  ) -> Any:
    """Returns the copy of an op or a tensor, or of each one in a structure.

    Args:
      original: the op, the tensor, or a structure of them.
      missing_fn: what to return for one that has no copy; None: None.
    """
    both = {**self._transformed_ops, **self._transformed_ts}
    return _mapped(original, both, missing_fn)

  def original(
    self, transformed: Any, missing_fn: Callable[[Any], Any] | None = None
  ) -> Any:
    """Returns that whose copy an op or a tensor is, or each in a structure.

    Args:
      transformed: the op, the tensor, or a structure of them.
      missing_fn: what to return for one that is no copy; None: None.
    """
    both = {**self._transformed_ops, **self._transformed_ts}
    by_copy = {copied: original for original, copied in both.items()}
    return _mapped(transformed, by_copy, missing_fn)


def _mapped(
  structure: Any,
  found: Mapping[Any, Any],
  missing_fn: Callable[[Any], Any] | None,
) -> Any:
  def of(one: Any) -> Any:
    if not isinstance(one, (tf.Operation, tf.Tensor)):
      raise TypeError(f"{one!r} is no tf.Operation or tf.Tensor.")
    if one in found or missing_fn is None:
      return found.get(one)
    return missing_fn(one)

  return tf.nest.map_structure(of, _structure(structure))


def _structure(found: Any) -> Any:
  """Returns what tf.nest can map: a list for other things that are iterable."""
  if isinstance(found, (tf.Operation, tf.Tensor)) or tf.nest.is_nested(found):
    return found
  return list(found)


def copy(
  sgv: Any,
  dst_graph: tf.Graph | None = None,
  dst_scope: str = "",
  src_scope: str = "",
  reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:
  """Copies a view; each read of an input is one of a placeholder of its own.

  Args:
    sgv: a view, or what `make_view` takes.
    dst_graph: the graph of the copies; None: the view's.
    dst_scope: what is put before their names.
    src_scope: what is taken off them first.
    reuse_dst_scope: whether `dst_scope` may be there already; otherwise a
      number is added to it.

  Returns:
    A view of the copies, and which they are.

  Raises:
    TypeError: if `dst_graph` is no graph.
    ValueError: if an op is not in `src_scope`.
  """
  view = make_view(sgv)
  copying = _Copying(view, dst_graph, dst_scope, src_scope, reuse_dst_scope)
  return copying.copied(copying.placeholder)


def copy_with_input_replacements(
  sgv: Any,
  replacement_ts: Mapping[tf.Tensor, tf.Tensor],
  dst_graph: tf.Graph | None = None,
  dst_scope: str = "",
  src_scope: str = "",
  reuse_dst_scope: bool = False,
) -> tuple[SubGraphView, TransformerInfo]:
  """Copies a view, and lets the copies read other tensors.

  Args:
    sgv: a view, or what `make_view` takes.
    replacement_ts: by inputs of the view, what to read in their place.
    dst_graph: the graph of the copies; None: the view's.
    dst_scope: what is put before their names.
    src_scope: what is taken off them first.
    reuse_dst_scope: whether `dst_scope` may be there already; otherwise a
      number is added to it.

  Returns:
    A view of the copies, and which they are.

  Raises:
    TypeError: if `dst_graph` is no graph.
    ValueError: if an op is not in `src_scope`.
  """
  view = make_view(sgv)
  copying = _Copying(view, dst_graph, dst_scope, src_scope, reuse_dst_scope)

  def replaced(t: tf.Tensor) -> tf.Tensor:
    return replacement_ts[t] if t in replacement_ts else copying.kept(t)

  return copying.copied(replaced)


class _Copying:
  """One copy of a view.

  All copies are added to the graph at once, so that loops, whose ops read one
  another, need nothing else.
  """

  def __init__(
    self,
    view: SubGraphView,
    dst_graph: tf.Graph | None,
    dst_scope: str,
    src_scope: str,
    reuse_dst_scope: bool,
  ):
    graph = view.graph if dst_graph is None else dst_graph
    if not isinstance(graph, tf.Graph):
      raise TypeError(f"dst_graph={graph!r} is no tf.Graph.")
    self._view = view
    self._graph = graph
    self._source = util.in_scope(src_scope)
    self._scope = util.in_scope(dst_scope)
    if dst_scope and not reuse_dst_scope:
      self._scope = util.in_scope(graph.unique_name(self._scope[:-1]))
    among = frozenset(view.ops)
    self._ops = [
      op
      for op in (view.graph.get_operations() if view.graph else ())
      if op in among
    ]

  def placeholder(self, t: tf.Tensor) -> tf.Tensor:
    """Returns a placeholder for a tensor."""
    with self._graph.as_default():
      return util.make_placeholder_from_tensor(t, self._scope)

  def kept(self, t: tf.Tensor) -> tf.Tensor:
    """Returns a tensor itself if the copies are in its graph."""
    return t if self._is_same_graph else self.placeholder(t)

  @property
  def _is_same_graph(self) -> bool:
    return self._graph is self._view.graph

  def copied(
    self, read: Callable[[tf.Tensor], tf.Tensor]
  ) -> tuple[SubGraphView, TransformerInfo]:
    """Returns the copies.

    Args:
      read: tells for an input of the view what its copies read.
    """
    inside, inputs = frozenset(self._ops), frozenset(self._view.inputs)
    names: dict[tf.Operation, str] = {}
    outside: dict[str, tf.Tensor] = {}  # By names that no op can have.
    reads: dict[tf.Operation, list[Any]] = {}
    for op in self._ops:
      reads[op] = []
      for t in op.inputs:
        if t.op in inside:
          reads[op].append(t)
          continue
        name = f"_{len(outside)}:0"
        outside[name] = read(t) if t in inputs else self.kept(t)
        reads[op].append(name)
      names[op] = self._graph.unique_name(self._name(op.name))
    definition = tf.compat.v1.GraphDef(
      node=[_definition(op, reads[op], names) for op in self._ops],
      versions=self._graph.graph_def_versions,
    )
    self._rename_frames(definition)
    with self._graph.as_default():
      made = graph_edits.import_ops(definition, outside, "")
    copies = {op: made[name] for op, name in names.items()}
    for op, copied in copies.items():
      self._finish(op, copied, inside)
    self._collect(copies)
    return _copied_view(self._view, copies), TransformerInfo(copies)

  def _name(self, name: str) -> str:
    if not name.startswith(self._source):
      raise ValueError(
        f"{name} is not in the scope src_scope={self._source!r}."
      )
    return self._scope + name.removeprefix(self._source)

  def _rename_frames(self, definition: Any) -> None:
    """Makes copies of loops other loops; 1.15 does not, and cannot run them."""
    frames: dict[bytes, bytes] = {}
    for node in definition.node:
      if "frame_name" in node.attr:
        name = node.attr["frame_name"].s
        if name not in frames:
          frames[name] = self._graph.unique_name(name.decode()).encode()
        node.attr["frame_name"].s = frames[name]

  def _finish(
    self,
    op: tf.Operation,
    copied: tf.Operation,
    inside: Collection[tf.Operation],
  ) -> None:
    """Gives a copy what its definition could not say."""
    if not self._is_same_graph:
      return
    waits_for = util.without(op.control_inputs, inside)
    if waits_for:
      graph_edits.add_control_inputs(copied, waits_for)
    groups = graph_reads.colocation_groups(op)
    names = [group.decode().removeprefix("loc:@") for group in groups]
    if names and names != [op.name]:
      graph_edits.set_colocation(copied, names)
    # A copy of a part of a loop or a branch is in none, as in 1.15.
    if not graph_reads.is_in_control_flow(op):
      graph_edits.adopt_origin([copied], op)

  def _collect(self, copies: Mapping[tf.Operation, tf.Operation]) -> None:
    """Adds copies to the collections that what they are copies of is in."""
    source = self._view.graph or self._graph
    members = {
      name: {id(one) for one in source.get_collection_ref(name)}
      for name in source.get_all_collection_keys()
    }
    for original, copied in _with_outputs(copies):
      for name, ids in members.items():
        if id(original) in ids:
          is_known = name in _KNOWN_COLLECTIONS
          self._graph.add_to_collection(
            name if is_known else self._name(name), copied
          )


def _definition(
  op: tf.Operation,
  reads: Iterable[Any],
  names: Mapping[tf.Operation, str],
) -> Any:
  """Returns the definition of a copy, which waits for copies only."""
  node = tf.compat.v1.NodeDef.FromString(op.node_def.SerializeToString())
  node.name = names[op]
  node.attr.pop("_class", None)
  del node.input[:]
  for one in reads:
    if isinstance(one, str):
      node.input.append(one)
    else:
      node.input.append(f"{names[one.op]}:{one.value_index}")
  for one in op.control_inputs:
    if one in names:
      node.input.append(f"^{names[one]}")
  return node


def _with_outputs(
  copies: Mapping[tf.Operation, tf.Operation],
) -> Iterator[tuple[Any, Any]]:
  for op, copied in copies.items():
    yield op, copied
    yield from zip(op.outputs, copied.outputs, strict=True)


def _copied_view(
  view: SubGraphView, copies: Mapping[tf.Operation, tf.Operation]
) -> SubGraphView:
  """Returns the view of copies: outputs in their order, and no inputs."""
  found = SubGraphView(copies.values())
  outputs = [
    copies[t.op].outputs[t.value_index] for t in view.outputs if t.op in copies
  ]
  return found.remap([], [t for t in outputs if t in found.outputs])


def graph_replace(
  target_ts: Any,
  replacement_ts: Mapping[tf.Tensor, tf.Tensor],
  dst_scope: str = "",
  src_scope: str = "",
  reuse_dst_scope: bool = False,
) -> Any:
  """Returns what tensors would be if others were replaced.

  Args:
    target_ts: a tensor, or a structure of tensors.
    replacement_ts: by tensors that they depend on, what to read instead.
    dst_scope: what is put before the names of the new ops.
    src_scope: what is taken off them first.
    reuse_dst_scope: whether `dst_scope` may be there already; otherwise a
      number is added to it.

  Returns:
    Copies of the tensors, in the same structure; what depends on none of the
    replaced ones is returned as it is.

  Raises:
    ValueError: if nothing depends on them.
  """
  targets = tf.nest.flatten(_structure(target_ts))
  graph = util.graph_of(targets, (tf.Tensor,))
  ops = []
  if graph is not None:
    ops = select.get_walks_intersection_ops(
      list(replacement_ts), targets, control_ios=ControlOutputs(graph)
    )
  if graph is None or not ops:
    raise ValueError(
      "No target depends on a tensor that is replaced. Of a resource variable "
      "each value() is another tensor; replace the one that is read."
    )
  _, info = copy_with_input_replacements(
    [*ops, *_rest_of_loops(graph, ops)],
    replacement_ts,
    None,
    dst_scope,
    src_scope,
    reuse_dst_scope,
  )
  return info.transformed(target_ts, lambda t: t)


def _rest_of_loops(
  graph: tf.Graph, ops: Iterable[tf.Operation]
) -> list[tf.Operation]:
  """Returns the other ops of the loops that ops are part of."""
  loops = {graph_reads.outermost_loop(op) for op in ops} - {None}
  rest = [
    op
    for op in (graph.get_operations() if loops else ())
    if graph_reads.outermost_loop(op) in loops
  ]
  return util.without(rest, frozenset(ops))
