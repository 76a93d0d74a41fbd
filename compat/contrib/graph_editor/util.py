"""Lists of ops and of tensors, and the placeholders that edits make."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf

_PREFIX = "geph"
_Element = TypeVar("_Element", bound=Hashable)


def unique(*parts: Iterable[_Element]) -> list[_Element]:
  """Returns the elements of all parts, each where it comes first."""
  return list(dict.fromkeys(one for part in parts for one in part))


def as_list(found: Any) -> list[Any]:
  """Returns the elements of something iterable, or a list of what is not."""
  if isinstance(found, tf.Tensor) or not isinstance(found, Iterable):
    return [found]
  return list(found)


def make_list_of_op(
  ops: Any,
  check_graph: bool = True,
  allow_graph: bool = True,
  ignore_ts: bool = False,
) -> list[tf.Operation]:
  """Returns ops as a list.

  Args:
    ops: a graph, an op, or something iterable of ops.
    check_graph: whether there must be nothing else, and one graph only.
    allow_graph: whether it may be a graph.
    ignore_ts: whether there may be tensors, too, which are left out.

  Raises:
    TypeError: for anything else.
    ValueError: if the ops are of several graphs.
  """
  if isinstance(ops, tf.Graph):
    _check_allowed(allow_graph)
    return list(ops.get_operations())
  kinds = (tf.Operation, tf.Tensor) if ignore_ts else (tf.Operation,)
  found = _of_one_graph(ops, kinds, check_graph)
  return [op for op in found if isinstance(op, tf.Operation)]


def make_list_of_t(
  ts: Any,
  check_graph: bool = True,
  allow_graph: bool = True,
  ignore_ops: bool = False,
) -> list[tf.Tensor]:
  """Returns tensors as a list.

  Args:
    ts: a graph, a tensor, or something iterable of tensors.
    check_graph: whether there must be nothing else, and one graph only.
    allow_graph: whether it may be a graph.
    ignore_ops: whether there may be ops, too, which are left out.

  Raises:
    TypeError: for anything else.
    ValueError: if the tensors are of several graphs.
  """
  if isinstance(ts, tf.Graph):
    _check_allowed(allow_graph)
    return get_tensors(ts)
  kinds = (tf.Operation, tf.Tensor) if ignore_ops else (tf.Tensor,)
  found = _of_one_graph(ts, kinds, check_graph)
  return [t for t in found if isinstance(t, tf.Tensor)]


def _check_allowed(allow_graph: bool) -> None:
  if not allow_graph:
    raise TypeError("A tf.Graph is not allowed here; give what is in it.")


def _of_one_graph(
  found: Any, kinds: tuple[type, ...], check_graph: bool
) -> list[Any]:
  listed = as_list(found)
  if check_graph:
    graph_of(listed, kinds)
  return listed


def graph_of(
  found: Iterable[Any], kinds: tuple[Any, ...] = (tf.Operation, tf.Tensor)
) -> tf.Graph | None:
  """Returns the graph that ops and tensors are in, None if there are none.

  Args:
    found: ops, tensors, or both.
    kinds: which of both they may be.

  Raises:
    TypeError: for one that is of no such kind.
    ValueError: if they are of several graphs.
  """
  graph: tf.Graph | None = None
  for one in found:
    if not isinstance(one, kinds):
      names = " or ".join(f"tf.{kind.__name__}" for kind in kinds)
      raise TypeError(f"{one!r} is no {names}.")
    if graph is not None and one.graph is not graph:
      raise ValueError(
        f"{one.name} is in another graph than what is before it."
      )
    graph = one.graph
  return graph


def get_tensors(graph: tf.Graph) -> list[tf.Tensor]:
  """Returns all tensors of a graph.

  Args:
    graph: the graph.

  Raises:
    TypeError: if it is none.
  """
  if not isinstance(graph, tf.Graph):
    raise TypeError(f"{graph!r} is no tf.Graph.")
  return [t for op in graph.get_operations() for t in op.outputs]


def get_generating_ops(ts: Any) -> list[tf.Operation]:
  """Returns the ops whose outputs are tensors, one for each.

  Args:
    ts: a tensor, or tensors.
  """
  return [t.op for t in make_list_of_t(ts, allow_graph=False)]


def get_consuming_ops(ts: Any) -> list[tf.Operation]:
  """Returns the ops that read tensors.

  Args:
    ts: a tensor, or tensors.
  """
  ts = make_list_of_t(ts, allow_graph=False)
  return unique(*(t.consumers() for t in ts))


class ControlOutputs:
  """Which ops wait for an op, by control inputs."""

  def __init__(self, graph: tf.Graph):
    """Reads a graph.

    Args:
      graph: the graph.

    Raises:
      TypeError: if it is none.
    """
    if not isinstance(graph, tf.Graph):
      raise TypeError(f"{graph!r} is no tf.Graph.")
    self._graph = graph
    self._version = -1
    self._waiting: dict[tf.Operation, list[tf.Operation]] = {}
    self.update()

  def update(self) -> "ControlOutputs":
    """Reads the graph again if it has other ops than before."""
    if self._version != self._graph.version:
      self._waiting = {}
      for op in self._graph.get_operations():
        for control_input in unique(op.control_inputs):
          self._waiting.setdefault(control_input, []).append(op)
      self._version = self._graph.version
    return self

  def get_all(self) -> Mapping[tf.Operation, list[tf.Operation]]:
    """Returns for each op that others wait for which these are."""
    return self._waiting

  def get(self, op: tf.Operation) -> Sequence[tf.Operation]:
    """Returns the ops that wait for an op."""
    return self._waiting.get(op, ())

  @property
  def graph(self) -> tf.Graph:
    """The graph."""
    return self._graph


def in_scope(scope: str) -> str:
  """Returns what names in a scope begin with."""
  return scope if not scope or scope.endswith("/") else f"{scope}/"


def placeholder_name(
  t: tf.Tensor | None = None, scope: str | None = None, prefix: str = _PREFIX
) -> str:
  """Returns the name of a placeholder that stands for a tensor.

  Args:
    t: the tensor; its name is part of it.
    scope: that of the placeholder; None is the tensor's.
    prefix: what the name begins with.

  Raises:
    TypeError: if `t` is no tensor.
  """
  if t is None:
    return in_scope(scope or "") + prefix
  if not isinstance(t, tf.Tensor):
    raise TypeError(f"{t!r} is no tf.Tensor.")
  name: str = t.op.name
  own_scope, slash, name = name.rpartition("/")
  scope = own_scope + slash if scope is None else in_scope(scope)
  if not name.startswith(f"{prefix}__"):
    name = f"{prefix}__{name}_{t.value_index}"
  return scope + name


def make_placeholder_from_tensor(
  t: tf.Tensor, scope: str | None = None, prefix: str = _PREFIX
) -> tf.Tensor:
  """Returns a placeholder of a tensor's dtype and shape, in the default graph.

  Args:
    t: the tensor.
    scope: as `placeholder_name` takes it.
    prefix: what its name begins with.
  """
  return tf.compat.v1.placeholder(
    t.dtype, t.shape, placeholder_name(t, scope, prefix)
  )


def make_placeholder_from_dtype_and_shape(
  dtype: Any, shape: Any = None, scope: str | None = None, prefix: str = _PREFIX
) -> tf.Tensor:
  """Returns a placeholder, in the default graph.

  Args:
    dtype: its dtype.
    shape: its shape.
    scope: that it is in.
    prefix: its name in there.
  """
  return tf.compat.v1.placeholder(
    dtype, shape, placeholder_name(scope=scope, prefix=prefix)
  )


def without(
  elements: Iterable[_Element], others: Collection[_Element]
) -> list[_Element]:
  """Returns the elements that are not among others."""
  left_out = frozenset(others)
  return [one for one in elements if one not in left_out]
