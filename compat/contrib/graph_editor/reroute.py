"""Other inputs for ops that are there."""

from collections.abc import Collection
from typing import Any

from compat.contrib.graph_editor import util
from compat.contrib.graph_editor.subgraph import SubGraphView, make_view
from compat.private import graph_edits

import tensorflow as tf


def reroute_ts(
  ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None
) -> int:
  """Makes what reads tensors read others.

  Args:
    ts0: the tensors to read.
    ts1: the tensors that were read, one for each.
    can_modify: the ops that may read others; None: all.
    cannot_modify: those that may not.

  Returns:
    How many inputs have changed.

  Raises:
    ValueError: if there are not as many, or a dtype or shape does not fit.
  """
  return _reroute(ts0, ts1, can_modify, cannot_modify, both=False)


def swap_ts(
  ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None
) -> int:
  """Makes what reads some tensors read others, and what reads these those.

  An op that reads both of a pair then reads the second one twice, as in 1.15.

  Args:
    ts0: the first of each pair.
    ts1: the second.
    can_modify: the ops that may read others; None: all.
    cannot_modify: those that may not.

  Returns:
    How many inputs have changed.

  Raises:
    ValueError: if there are not as many, or a dtype or shape does not fit.
  """
  return _reroute(ts0, ts1, can_modify, cannot_modify, both=True)


def _reroute(
  ts0: Any, ts1: Any, can_modify: Any, cannot_modify: Any, *, both: bool
) -> int:
  pairs = _pairs(ts0, ts1)
  can = None if can_modify is None else set(util.make_list_of_op(can_modify))
  cannot = set(util.make_list_of_op(cannot_modify or ()))

  def consumers(t: tf.Tensor) -> list[tf.Operation]:
    ops = util.without(util.unique(t.consumers()), cannot)
    return [op for op in ops if can is None or op in can]

  # All before the first edit: a tensor may be in several pairs.
  before = [(consumers(t0), consumers(t1)) for t0, t1 in pairs]
  count = 0
  for (t0, t1), (readers0, readers1) in zip(pairs, before, strict=True):
    if t0 is t1:
      continue
    count += _read_instead(readers1, t1, t0)
    if both:
      count += _read_instead(readers0, t0, t1)
  return count


def _pairs(ts0: Any, ts1: Any) -> list[tuple[tf.Tensor, tf.Tensor]]:
  ts0, ts1 = util.make_list_of_t(ts0), util.make_list_of_t(ts1)
  if len(ts0) != len(ts1):
    raise ValueError(
      f"ts0 has {len(ts0)} tensors and ts1 {len(ts1)}; each needs its other."
    )
  for t0, t1 in zip(ts0, ts1, strict=True):
    if not (
      t0.dtype.is_compatible_with(t1.dtype)
      and t0.shape.is_compatible_with(t1.shape)
    ):
      raise ValueError(
        f"{t0.name} is {t0.dtype.name}{t0.shape}, and {t1.name} "
        f"{t1.dtype.name}{t1.shape}; one cannot be read for the other."
      )
  return list(zip(ts0, ts1, strict=True))


def _read_instead(
  readers: Collection[tf.Operation], before: tf.Tensor, now: tf.Tensor
) -> int:
  count = 0
  for op in readers:
    places = [i for i, t in enumerate(op.inputs) if t is before]
    for place in places:
      graph_edits.replace_input(op, place, now)
    count += len(places)
  return count


def swap_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
  """Gives each of two views the inputs of the other, in place.

  Args:
    sgv0: a view, or what `make_view` takes.
    sgv1: the other.

  Returns:
    Both.
  """
  view0, view1 = _views(sgv0, sgv1)
  swap_ts(view0.inputs, view1.inputs, _readers(view0, view1))
  view0.swap_inputs(view1)
  return view0, view1


def reroute_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
  """Gives a view the inputs of another, in place.

  Args:
    sgv0: the other: a view, or what `make_view` takes.
    sgv1: the one that gets them.

  Returns:
    Both.
  """
  view0, view1 = _views(sgv0, sgv1)
  reroute_ts(view0.inputs, view1.inputs, _readers(view0, view1))
  view1.take_inputs(view0)
  return view0, view1


def swap_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
  """Makes what reads the outputs of each of two views read the other's.

  Args:
    sgv0: a view, or what `make_view` takes.
    sgv1: the other.

  Returns:
    Both.
  """
  view0, view1 = _views(sgv0, sgv1)
  swap_ts(view0.outputs, view1.outputs, cannot_modify=[*view0.ops, *view1.ops])
  return view0, view1


def reroute_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
  """Makes what reads the outputs of a view read those of another.

  Args:
    sgv0: the other: a view, or what `make_view` takes.
    sgv1: the one whose outputs are read no more.

  Returns:
    Both.
  """
  view0, view1 = _views(sgv0, sgv1)
  reroute_ts(
    view0.outputs, view1.outputs, cannot_modify=[*view0.ops, *view1.ops]
  )
  return view0, view1


def swap_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
  """Puts each of two views in the place of the other; see `swap_inputs`."""
  return swap_inputs(*swap_outputs(sgv0, sgv1))


def reroute_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
  """Does `reroute_outputs`, and `reroute_inputs`."""
  return reroute_inputs(*reroute_outputs(sgv0, sgv1))


def _views(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
  view0, view1 = make_view(sgv0), make_view(sgv1)
  graphs = {view.graph for view in (view0, view1) if view}
  if len(graphs) > 1:
    raise ValueError("The two SubGraphViews are of different graphs.")
  return view0, view1


def _readers(*views: SubGraphView) -> list[tf.Operation]:
  """Returns the ops whose inputs may change with those of views."""
  passing = [util.get_consuming_ops(view.passthroughs) for view in views]
  return util.unique(*(view.ops for view in views), *passing)


def remove_control_inputs(op: tf.Operation, cops: Any) -> None:
  """Makes an op wait for some ops no more.

  Args:
    op: the op.
    cops: an op, or ops, that it waits for.

  Raises:
    TypeError: if `op` is no op.
    ValueError: if it does not wait for one.
  """
  gone = _control_ops(op, cops)
  for one in util.without(gone, op.control_inputs):
    raise ValueError(f"{op.name} does not wait for {one.name}.")
  graph_edits.set_control_inputs(op, util.without(op.control_inputs, gone))


def add_control_inputs(op: tf.Operation, cops: Any) -> None:
  """Makes an op wait for more ops.

  Args:
    op: the op.
    cops: an op, or ops, that it does not wait for yet.

  Raises:
    TypeError: if `op` is no op.
    ValueError: if it waits for one already.
  """
  more = _control_ops(op, cops)
  for one in more:
    if one in op.control_inputs:
      raise ValueError(f"{op.name} waits for {one.name} already.")
  graph_edits.add_control_inputs(op, more)


def _control_ops(op: tf.Operation, cops: Any) -> list[tf.Operation]:
  if not isinstance(op, tf.Operation):
    raise TypeError(f"{op!r} is no tf.Operation.")
  return util.make_list_of_op(cops, allow_graph=False)
