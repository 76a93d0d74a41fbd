"""Ops and tensors that are chosen by their names, or by what they read."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from compat.contrib.graph_editor import util
from compat.contrib.graph_editor.util import ControlOutputs

import tensorflow as tf

# True chooses all.
_Filter = Callable[[Any], Any] | bool
# What a regular expression begins with if it is for ops, or tensors, only.
_FOR_OPS, _FOR_TENSORS = "(?#ops)", "(?#ts)"


def can_be_regex(obj: Any) -> bool:
  """Returns whether something is a regular expression, or the text of one."""
  return isinstance(obj, (str, re.Pattern))


def make_regex(obj: Any) -> "re.Pattern[str]":
  """Returns a compiled regular expression.

  Args:
    obj: one, or its text.

  Raises:
    ValueError: for anything else.
  """
  if not can_be_regex(obj):
    raise ValueError(f"{obj!r} is no regular expression.")
  return re.compile(obj)


def filter_ts(ops: Any, positive_filter: _Filter) -> list[tf.Tensor]:
  """Returns tensors that ops read, and then those that they make.

  Args:
    ops: a graph, an op, or ops.
    positive_filter: tells of a tensor whether to return it; True: all of them.
  """
  ops = util.make_list_of_op(ops)
  ts = util.unique(_inputs(ops), _outputs(ops))
  return [t for t in ts if _is_chosen(t, positive_filter)]


def filter_ts_from_regex(ops: Any, regex: Any) -> list[tf.Tensor]:
  """Returns tensors that ops read or make, by their names.

  Args:
    ops: a graph, an op, or ops.
    regex: a regular expression that is found in a name, "x:0".
  """
  pattern = make_regex(regex)
  return filter_ts(ops, lambda t: pattern.search(t.name))


def filter_ops(ops: Any, positive_filter: _Filter) -> list[tf.Operation]:
  """Returns some of several ops.

  Args:
    ops: a graph, an op, or ops.
    positive_filter: tells of an op whether to return it; True: all of them.
  """
  ops = util.make_list_of_op(ops)
  return [op for op in ops if _is_chosen(op, positive_filter)]


def filter_ops_from_regex(ops: Any, regex: Any) -> list[tf.Operation]:
  """Returns some of several ops, by their names.

  Args:
    ops: a graph, an op, or ops.
    regex: a regular expression that is found in a name.
  """
  pattern = make_regex(regex)
  return filter_ops(ops, lambda op: pattern.search(op.name))


def get_name_scope_ops(ops: Any, scope: str) -> list[tf.Operation]:
  """Returns the ops of a name scope.

  Args:
    ops: a graph, an op, or ops.
    scope: the scope, "layer/dense".
  """
  return filter_ops_from_regex(ops, f"^{scope.removesuffix('/')}(/.*)?$")


def _is_chosen(one: Any, positive_filter: _Filter | None) -> bool:
  if positive_filter is None or positive_filter is True:
    return True
  return bool(callable(positive_filter) and positive_filter(one))


def _inputs(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
  return util.unique(*(op.inputs for op in ops))


def _outputs(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
  return util.unique(*(op.outputs for op in ops))


def check_cios(
  control_inputs: bool = False,
  control_outputs: ControlOutputs | None = None,
  control_ios: ControlOutputs | None = None,
) -> tuple[bool, ControlOutputs | None]:
  """Returns which control edges a walk goes along.

  Args:
    control_inputs: whether from an op to those it waits for.
    control_outputs: from an op to those that wait for it.
    control_ios: both.

  Returns:
    The first two, with what the third says.

  Raises:
    TypeError: if one of the last two is no ControlOutputs.
    ValueError: if both are given.
  """
  for one in (control_outputs, control_ios):
    if one is not None and not isinstance(one, ControlOutputs):
      raise TypeError(f"{one!r} is no ControlOutputs.")
  if control_ios is not None:
    if control_outputs is not None:
      raise ValueError("Give control_outputs or control_ios, not both.")
    control_inputs, control_outputs = True, control_ios
  if control_outputs is not None:
    control_outputs.update()
  return control_inputs, control_outputs


def get_ops_ios(
  ops: Any,
  control_inputs: bool = False,
  control_outputs: ControlOutputs | None = None,
  control_ios: ControlOutputs | None = None,
) -> list[tf.Operation]:
  """Returns the ops that ops read from, and that read from them.

  Args:
    ops: a graph, an op, or ops.
    control_inputs: see `check_cios`.
    control_outputs: see `check_cios`.
    control_ios: see `check_cios`.
  """
  control_inputs, control_outputs = check_cios(
    control_inputs, control_outputs, control_ios
  )
  found: list[tf.Operation] = []
  for op in util.make_list_of_op(ops):
    found += [t.op for t in op.inputs]
    found += util.get_consuming_ops(op.outputs)
    if control_outputs is not None:
      found += control_outputs.get(op)
    if control_inputs:
      found += op.control_inputs
  return util.unique(found)


def compute_boundary_ts(
  ops: Any,
) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
  """Returns the tensors at the boundary of ops.

  Args:
    ops: a graph, an op, or ops.

  Returns:
    Tensors that they read and do not make; those that they make, without those
    that they alone read; and those that they make and read.
  """
  ops = util.make_list_of_op(ops)
  read, made, among = _inputs(ops), _outputs(ops), frozenset(ops)
  inside = [t for t in read if t in frozenset(made)]
  only_inside = [t for t in inside if among.issuperset(t.consumers())]
  return util.without(read, inside), util.without(made, only_inside), inside


def get_within_boundary_ops(
  ops: Any,
  seed_ops: Any,
  boundary_ops: Any = (),
  inclusive: bool = True,
  control_inputs: bool = False,
  control_outputs: ControlOutputs | None = None,
  control_ios: ControlOutputs | None = None,
) -> list[tf.Operation]:
  """Returns ops that are reached in any direction, up to a boundary.

  Args:
    ops: a graph, an op, or ops; others are not returned.
    seed_ops: those that the walk begins at.
    boundary_ops: those that it ends at.
    inclusive: whether to return these, too.
    control_inputs: see `check_cios`.
    control_outputs: see `check_cios`.
    control_ios: see `check_cios`.

  Raises:
    ValueError: if it begins at the boundary.
  """
  control = check_cios(control_inputs, control_outputs, control_ios)
  seeds = util.make_list_of_op(seed_ops, allow_graph=False)
  boundary = frozenset(util.make_list_of_op(boundary_ops))
  if not boundary.isdisjoint(seeds):
    raise ValueError("seed_ops and boundary_ops have ops in common.")
  found = _walk(
    seeds, lambda op: () if op in boundary else get_ops_ios(op, *control)
  )
  among = frozenset(found if inclusive else util.without(found, boundary))
  return [op for op in util.make_list_of_op(ops) if op in among]


def _walk(
  seeds: Iterable[tf.Operation],
  neighbors: Callable[[tf.Operation], Iterable[tf.Operation]],
) -> list[tf.Operation]:
  """Returns all ops that are reached, the nearest first."""
  found = dict.fromkeys(seeds)
  wave = list(found)
  while wave:
    reached = util.unique(*map(neighbors, wave))
    wave = [op for op in reached if op not in found]
    found.update(dict.fromkeys(wave))
  return list(found)


def _walk_within(
  seeds: Iterable[tf.Operation],
  neighbors: Callable[[tf.Operation], Iterable[tf.Operation]],
  inclusive: bool,
  within_ops: Any,
  within_ops_fn: Callable[[tf.Operation], Any] | None,
) -> list[tf.Operation]:
  within = None
  if within_ops:
    within = frozenset(util.make_list_of_op(within_ops, allow_graph=False))
    seeds = [op for op in seeds if op in within]

  def is_within(op: tf.Operation) -> bool:
    if within is not None and op not in within:
      return False
    return within_ops_fn is None or bool(within_ops_fn(op))

  found = _walk(seeds, lambda op: filter(is_within, neighbors(op)))
  return found if inclusive else util.without(found, list(seeds))


def _seeds(
  seed_ops: Any, of_tensors: Callable[[Any], list[tf.Operation]]
) -> list[tf.Operation]:
  """Returns the ops that a walk begins at; of tensors, some that they tell."""
  listed = util.as_list(seed_ops)
  if listed and isinstance(listed[0], tf.Tensor):
    return util.unique(of_tensors(listed))
  return util.unique(util.make_list_of_op(listed, allow_graph=False))


def get_forward_walk_ops(
  seed_ops: Any,
  inclusive: bool = True,
  within_ops: Any = None,
  within_ops_fn: Callable[[tf.Operation], Any] | None = None,
  stop_at_ts: Any = (),
  control_outputs: ControlOutputs | None = None,
) -> list[tf.Operation]:
  """Returns ops that depend on some.

  Args:
    seed_ops: those that the walk begins at: ops, or what reads tensors.
    inclusive: whether to return these, too.
    within_ops: the ops that it may reach; None: all.
    within_ops_fn: tells of an op whether the walk may reach it.
    stop_at_ts: tensors whose readers it does not reach through them.
    control_outputs: those that it also goes along.
  """
  _, control_outputs = check_cios(False, control_outputs)
  stops = frozenset(util.make_list_of_t(stop_at_ts))

  def neighbors(op: tf.Operation) -> list[tf.Operation]:
    waiting = control_outputs.get(op) if control_outputs is not None else ()
    read_by = util.get_consuming_ops(util.without(op.outputs, stops))
    return [*read_by, *waiting]

  seeds = _seeds(seed_ops, util.get_consuming_ops)
  return _walk_within(seeds, neighbors, inclusive, within_ops, within_ops_fn)


def get_backward_walk_ops(
  seed_ops: Any,
  inclusive: bool = True,
  within_ops: Any = None,
  within_ops_fn: Callable[[tf.Operation], Any] | None = None,
  stop_at_ts: Any = (),
  control_inputs: bool = False,
) -> list[tf.Operation]:
  """Returns ops that some depend on.

  Args:
    seed_ops: those that the walk begins at: ops, or what makes tensors.
    inclusive: whether to return these, too.
    within_ops: the ops that it may reach; None: all.
    within_ops_fn: tells of an op whether the walk may reach it.
    stop_at_ts: tensors whose makers it does not reach through them.
    control_inputs: whether it also goes along these.
  """
  stops = frozenset(util.make_list_of_t(stop_at_ts))

  def neighbors(op: tf.Operation) -> list[tf.Operation]:
    waits_for = op.control_inputs if control_inputs else ()
    return [*(t.op for t in util.without(op.inputs, stops)), *waits_for]

  seeds = _seeds(seed_ops, util.get_generating_ops)
  return _walk_within(seeds, neighbors, inclusive, within_ops, within_ops_fn)


def _walks(
  forward_seed_ops: Any,
  backward_seed_ops: Any,
  forward_inclusive: bool,
  backward_inclusive: bool,
  within: tuple[Any, Any],
  control: tuple[bool, ControlOutputs | None],
) -> tuple[list[tf.Operation], list[tf.Operation]]:
  """Returns both walks."""
  inputs, outputs = control
  return (
    get_forward_walk_ops(
      forward_seed_ops, forward_inclusive, *within, control_outputs=outputs
    ),
    get_backward_walk_ops(
      backward_seed_ops, backward_inclusive, *within, control_inputs=inputs
    ),
  )


def get_walks_intersection_ops(
  forward_seed_ops: Any,
  backward_seed_ops: Any,
  forward_inclusive: bool = True,
  backward_inclusive: bool = True,
  within_ops: Any = None,
  within_ops_fn: Callable[[tf.Operation], Any] | None = None,
  control_inputs: bool = False,
  control_outputs: ControlOutputs | None = None,
  control_ios: ControlOutputs | None = None,
) -> list[tf.Operation]:
  """Returns ops that depend on some, and that others depend on.

  Args:
    forward_seed_ops: of `get_forward_walk_ops`.
    backward_seed_ops: of `get_backward_walk_ops`.
    forward_inclusive: whether the first are among those that depend on them.
    backward_inclusive: the same of the second.
    within_ops: the ops that a walk may reach; None: all.
    within_ops_fn: tells of an op whether a walk may reach it.
    control_inputs: see `check_cios`.
    control_outputs: see `check_cios`.
    control_ios: see `check_cios`.
  """
  forward, backward = _walks(
    forward_seed_ops,
    backward_seed_ops,
    forward_inclusive,
    backward_inclusive,
    (within_ops, within_ops_fn),
    check_cios(control_inputs, control_outputs, control_ios),
  )
  among = frozenset(backward)
  return [op for op in forward if op in among]


def get_walks_union_ops(
  forward_seed_ops: Any,
  backward_seed_ops: Any,
  forward_inclusive: bool = True,
  backward_inclusive: bool = True,
  within_ops: Any = None,
  within_ops_fn: Callable[[tf.Operation], Any] | None = None,
  control_inputs: bool = False,
  control_outputs: ControlOutputs | None = None,
  control_ios: ControlOutputs | None = None,
) -> list[tf.Operation]:
  """Returns ops that depend on some, and those that others depend on.

  Args:
    forward_seed_ops: of `get_forward_walk_ops`.
    backward_seed_ops: of `get_backward_walk_ops`.
    forward_inclusive: whether the first are among those that depend on them.
    backward_inclusive: the same of the second.
    within_ops: the ops that a walk may reach; None: all.
    within_ops_fn: tells of an op whether a walk may reach it.
    control_inputs: see `check_cios`.
    control_outputs: see `check_cios`.
    control_ios: see `check_cios`.
  """
  return util.unique(
    *_walks(
      forward_seed_ops,
      backward_seed_ops,
      forward_inclusive,
      backward_inclusive,
      (within_ops, within_ops_fn),
      check_cios(control_inputs, control_outputs, control_ios),
    )
  )


def select_ops(
  *args: Any,
  graph: tf.Graph | None = None,
  positive_filter: _Filter | None = None,
  restrict_ops_regex: bool = False,
  restrict_ts_regex: bool = False,
) -> list[tf.Operation]:
  """Returns the ops among several, and those whose names match.

  Args:
    *args: ops, lists of ops and tensors, and regular expressions of names.
      Those that begin with "(?#ts)" are of tensors.
    graph: whose ops are matched.
    positive_filter: tells of an op whether to return it.
    restrict_ops_regex: whether expressions of ops begin with "(?#ops)".
    restrict_ts_regex: of no meaning here.

  Raises:
    TypeError: for anything else.
    ValueError: if there is an expression and no graph.
  """
  del restrict_ts_regex
  found = []
  for one in args:
    if not can_be_regex(one):
      found += util.make_list_of_op(one, ignore_ts=True)
    elif _is_for(one, _FOR_OPS, _FOR_TENSORS, restrict_ops_regex):
      found += filter_ops_from_regex(_searched(graph), one)
  return [op for op in util.unique(found) if _is_chosen(op, positive_filter)]


def select_ts(
  *args: Any,
  graph: tf.Graph | None = None,
  positive_filter: _Filter | None = None,
  restrict_ops_regex: bool = False,
  restrict_ts_regex: bool = False,
) -> list[tf.Tensor]:
  """Returns the tensors among several, and those whose names match.

  Args:
    *args: tensors, lists of ops and tensors, and regular expressions of names.
      Those that begin with "(?#ops)" are of ops.
    graph: whose tensors are matched.
    positive_filter: tells of a tensor whether to return it.
    restrict_ops_regex: of no meaning here.
    restrict_ts_regex: whether expressions of tensors begin with "(?#ts)".

  Raises:
    TypeError: for anything else.
    ValueError: if there is an expression and no graph.
  """
  del restrict_ops_regex
  found = []
  for one in args:
    if not can_be_regex(one):
      found += util.make_list_of_t(one, ignore_ops=True)
    elif _is_for(one, _FOR_TENSORS, _FOR_OPS, restrict_ts_regex):
      found += filter_ts_from_regex(_searched(graph), one)
  return [t for t in util.unique(found) if _is_chosen(t, positive_filter)]


def select_ops_and_ts(
  *args: Any,
  graph: tf.Graph | None = None,
  positive_filter: _Filter | None = None,
) -> tuple[list[tf.Operation], list[tf.Tensor]]:
  """Returns ops and tensors.

  Args:
    *args: ops, tensors, lists of them, and regular expressions of names. Those
      of tensors begin with "(?#ts)".
    graph: whose ops and tensors are matched.
    positive_filter: tells of one whether to return it.
  """
  ops = select_ops(*args, graph=graph, positive_filter=positive_filter)
  ts = select_ts(
    *args,
    graph=graph,
    positive_filter=positive_filter,
    restrict_ts_regex=True,
  )
  return ops, ts


def _is_for(regex: Any, mark: str, other: str, is_marked: bool) -> bool:
  pattern = make_regex(regex).pattern
  return (
    pattern.startswith(mark) if is_marked else not pattern.startswith(other)
  )


def _searched(graph: tf.Graph | None) -> tf.Graph:
  if graph is None:
    raise ValueError("A regular expression of names needs graph=, too.")
  if not isinstance(graph, tf.Graph):
    raise TypeError(f"graph={graph!r} is no tf.Graph.")
  return graph
