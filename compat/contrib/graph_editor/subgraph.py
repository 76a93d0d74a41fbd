"""A part of a graph, as a function of tensors."""

import copy
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from compat.contrib.graph_editor import select, util

import tensorflow as tf


class SubGraphView:
  """Ops, tensors that they read, and tensors that are read of them.

  A tensor that no op of the view reads or makes passes through: it is an input
  and an output.
  """

  def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()):
    """Makes the view.

    Args:
      inside_ops: a graph, an op, or ops.
      passthrough_ts: tensors that pass through; others are left out.

    Raises:
      TypeError: for anything else.
      ValueError: if they are of several graphs.
    """
    self._ops = util.make_list_of_op(inside_ops)
    passing = util.make_list_of_t(passthrough_ts)
    self._graph = util.graph_of([*self._ops, *passing])
    inputs, outputs, inside = select.compute_boundary_ts(self._ops)
    self._passthroughs = util.without(passing, [*inputs, *outputs, *inside])
    self._inputs = inputs + self._passthroughs
    self._outputs = outputs + self._passthroughs

  def __bool__(self) -> bool:
    """Whether there is anything in the view."""
    return self._graph is not None

  def __enter__(self) -> "SubGraphView":
    """Returns the view."""
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
  ) -> None:
    """Does nothing."""

  def __str__(self) -> str:
    """Lists what is in the view."""
    rows = [("ops", self._ops), ("inputs", self._inputs)]
    lines = [
      f"{title}: {', '.join(one.name for one in ones)}"
      for title, ones in (*rows, ("outputs", self._outputs))
    ]
    return "\n".join(["SubGraphView", *lines])

  @property
  def graph(self) -> tf.Graph | None:
    """The graph; None if there is nothing in the view."""
    return self._graph

  @property
  def ops(self) -> list[tf.Operation]:
    """The ops."""
    return self._ops

  @property
  def inputs(self) -> list[tf.Tensor]:
    """The inputs."""
    return list(self._inputs)

  @property
  def outputs(self) -> list[tf.Tensor]:
    """The outputs."""
    return list(self._outputs)

  @property
  def passthroughs(self) -> list[tf.Tensor]:
    """The tensors that pass through."""
    return list(self._passthroughs)

  @property
  def connected_inputs(self) -> list[tf.Tensor]:
    """The inputs that do not pass through."""
    return util.without(self._inputs, self._passthroughs)

  @property
  def connected_outputs(self) -> list[tf.Tensor]:
    """The outputs that do not pass through."""
    return util.without(self._outputs, self._passthroughs)

  def is_passthrough(self, t: tf.Tensor) -> bool:
    """Returns whether a tensor passes through."""
    return t in self._passthroughs

  def op(self, op_id: int) -> tf.Operation:
    """Returns the op of a number."""
    return self._ops[op_id]

  def find_op_by_name(self, op_name: str) -> tf.Operation:
    """Returns the op of a name.

    Raises:
      ValueError: if there is none.
    """
    for op in self._ops:
      if op.name == op_name:
        return op
    raise ValueError(f"{op_name!r} is not in this SubGraphView.")

  def input_index(self, t: tf.Tensor) -> int:
    """Returns the number of an input.

    Raises:
      ValueError: if it is none.
    """
    return _place(t, self._inputs, "inputs")

  def output_index(self, t: tf.Tensor) -> int:
    """Returns the number of an output.

    Raises:
      ValueError: if it is none.
    """
    return _place(t, self._outputs, "outputs")

  def consumers(self) -> list[tf.Operation]:
    """Returns the ops outside of the view that read its outputs."""
    return util.without(util.get_consuming_ops(self._outputs), self._ops)

  def copy(self) -> "SubGraphView":
    """Returns another view of the same ops."""
    found = copy.copy(self)
    found._ops = list(self._ops)
    found._inputs = list(self._inputs)
    found._outputs = list(self._outputs)
    found._passthroughs = list(self._passthroughs)
    return found

  def remap(
    self,
    new_input_indices: Iterable[Any] | None = None,
    new_output_indices: Iterable[Any] | None = None,
  ) -> "SubGraphView":
    """Returns a view of the same ops with other inputs and outputs.

    Args:
      new_input_indices: the inputs, or their numbers, each once; None: as here.
      new_output_indices: the outputs, or their numbers; None: as here.

    Raises:
      ValueError: for one that is none here, and an input that is there twice.
    """
    found = self.copy()
    if new_input_indices is not None:
      found._inputs = _chosen(new_input_indices, self._inputs, "inputs")
      if len(set(found._inputs)) != len(found._inputs):
        raise ValueError("new_input_indices has an input twice.")
    if new_output_indices is not None:
      found._outputs = _chosen(new_output_indices, self._outputs, "outputs")
    return found

  def remap_inputs(self, new_input_indices: Iterable[Any]) -> "SubGraphView":
    """Returns a view of the same ops with other inputs; see `remap`."""
    return self.remap(new_input_indices)

  def remap_outputs(self, new_output_indices: Iterable[Any]) -> "SubGraphView":
    """Returns a view of the same ops with other outputs; see `remap`."""
    return self.remap(None, new_output_indices)

  def remap_default(
    self, remove_input_map: bool = True, remove_output_map: bool = True
  ) -> "SubGraphView":
    """Returns a view of the same ops with all inputs and outputs.

    Args:
      remove_input_map: whether with all inputs.
      remove_output_map: whether with all outputs.
    """
    found = self.copy()
    whole = SubGraphView(self._ops, self._passthroughs)
    if remove_input_map:
      found._inputs = whole._inputs
    if remove_output_map:
      found._outputs = whole._outputs
    return found

  def take_inputs(self, other: "SubGraphView") -> None:
    """Gets the inputs of another view, in place."""
    self._inputs = list(other._inputs)
    self._passthroughs = list(other._passthroughs)

  def swap_inputs(self, other: "SubGraphView") -> None:
    """Gets the inputs of another view, and that gets these, in place."""
    mine, others = self.copy(), other.copy()
    self.take_inputs(others)
    other.take_inputs(mine)
    self._outputs = _swapped(self._outputs, mine, others)
    other._outputs = _swapped(other._outputs, others, mine)


def _swapped(
  outputs: Iterable[tf.Tensor], before: SubGraphView, now: SubGraphView
) -> list[tf.Tensor]:
  """Returns outputs; those that passed through are what passes now."""
  return [
    now.inputs[before.input_index(t)] if before.is_passthrough(t) else t
    for t in outputs
  ]


def _place(t: tf.Tensor, ts: Sequence[tf.Tensor], kind: str) -> int:
  for place, one in enumerate(ts):
    if one is t:
      return place
  raise ValueError(f"{t.name} is not among the {kind} of this SubGraphView.")


def _chosen(
  places: Iterable[Any], ts: Sequence[tf.Tensor], kind: str
) -> list[tf.Tensor]:
  found = []
  for one in places:
    place = one if isinstance(one, int) else _place(one, ts, kind)
    if not 0 <= place < len(ts):
      raise ValueError(
        f"{place} is no number of the {len(ts)} {kind} of this SubGraphView."
      )
    found.append(ts[place])
  return found


def make_view(*args: Any, **kwargs: Any) -> SubGraphView:
  """Returns a view of ops and tensors.

  Args:
    *args: a view, which is returned; or what `select_ops_and_ts` takes.
    **kwargs: what `select_ops_and_ts` takes; `graph` has to be the view's.

  Raises:
    ValueError: if it is of another graph.
  """
  graph = kwargs.get("graph")
  if len(args) == 1 and isinstance(args[0], SubGraphView):
    view = args[0]
  else:
    view = SubGraphView(*select.select_ops_and_ts(*args, **kwargs))
  if graph is not None and view.graph not in (None, graph):
    raise ValueError("The SubGraphView is of another graph than graph=.")
  return view


def make_view_from_scope(scope: str, graph: tf.Graph) -> SubGraphView:
  """Returns a view of the ops of a name scope.

  Args:
    scope: the scope.
    graph: the graph.
  """
  return SubGraphView(select.get_name_scope_ops(graph, scope))
