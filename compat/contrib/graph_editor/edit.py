"""Parts of a graph that are cut out, connected, or bypassed."""

from typing import Any

from compat.contrib.graph_editor import reroute, select, util
from compat.contrib.graph_editor.subgraph import SubGraphView, make_view
from compat.contrib.graph_editor.util import ControlOutputs

import tensorflow as tf


def detach_control_inputs(sgv: Any) -> None:
  """Makes the ops of a view wait for no others.

  Args:
    sgv: a view, or what `make_view` takes.
  """
  view = make_view(sgv)
  for op in view.ops:
    reroute.remove_control_inputs(op, util.without(op.control_inputs, view.ops))


def detach_control_outputs(sgv: Any, control_outputs: ControlOutputs) -> None:
  """Makes no other ops wait for those of a view.

  Args:
    sgv: a view, or what `make_view` takes.
    control_outputs: those of its graph.

  Raises:
    TypeError: if these are none.
  """
  if not isinstance(control_outputs, ControlOutputs):
    raise TypeError(f"{control_outputs!r} is no ControlOutputs.")
  control_outputs.update()
  view = make_view(sgv)
  for op in view.ops:
    for other in util.without(control_outputs.get(op), view.ops):
      reroute.remove_control_inputs(other, op)


def detach_inputs(
  sgv: Any, control_inputs: bool = False
) -> tuple[SubGraphView, list[tf.Tensor]]:
  """Makes a view read placeholders, in place.

  Args:
    sgv: a view, or what `make_view` takes.
    control_inputs: whether it also waits for nothing else then.

  Returns:
    The view, and the placeholders, of any shape.
  """
  view = make_view(sgv)
  placeholders = []
  if view.graph is not None:
    with view.graph.as_default():
      placeholders = [
        tf.compat.v1.placeholder(t.dtype, name=util.placeholder_name(t))
        for t in view.inputs
      ]
  reroute.swap_inputs(view, placeholders)
  if control_inputs:
    detach_control_inputs(view)
  return view, placeholders


def detach_outputs(
  sgv: Any, control_outputs: ControlOutputs | None = None
) -> tuple[SubGraphView, list[tf.Tensor]]:
  """Makes what reads a view read placeholders.

  Args:
    sgv: a view, or what `make_view` takes.
    control_outputs: those of its graph: nothing waits for the view then.

  Returns:
    A view with the outputs that are read, and the placeholders.
  """
  view = make_view(sgv)
  view = view.remap_outputs(
    [place for place, t in enumerate(view.outputs) if t.consumers()]
  )
  readers = SubGraphView(view.consumers())
  read = [t for t in readers.inputs if t in view.outputs]
  placeholders = []
  if view.graph is not None:
    with view.graph.as_default():
      placeholders = [util.make_placeholder_from_tensor(t) for t in read]
  reroute.swap_outputs(view, placeholders)
  if control_outputs is not None:
    detach_control_outputs(view, control_outputs)
  return view, placeholders


def detach(
  sgv: Any,
  control_inputs: bool = False,
  control_outputs: ControlOutputs | None = None,
  control_ios: ControlOutputs | None = None,
) -> tuple[SubGraphView, list[tf.Tensor], list[tf.Tensor]]:
  """Cuts a view out of its graph, in place.

  Args:
    sgv: a view, or what `make_view` takes.
    control_inputs: see `select.check_cios`.
    control_outputs: see `select.check_cios`.
    control_ios: see `select.check_cios`.

  Returns:
    What was given; the placeholders that the view reads, and those that are
    read in its place.
  """
  control_inputs, control_outputs = select.check_cios(
    control_inputs, control_outputs, control_ios
  )
  _, inputs = detach_inputs(sgv, control_inputs)
  _, outputs = detach_outputs(sgv, control_outputs)
  return sgv, inputs, outputs


def connect(
  sgv0: Any, sgv1: Any, disconnect_first: bool = False
) -> tuple[SubGraphView, SubGraphView]:
  """Makes the inputs of a view the outputs of another, in place.

  Args:
    sgv0: the other: a view, or what `make_view` takes.
    sgv1: the one that reads its outputs then.
    disconnect_first: whether nothing else reads them then.

  Returns:
    Both.
  """
  view0, view1 = make_view(sgv0), make_view(sgv1)
  if disconnect_first:
    detach_outputs(view0)
  outputs = SubGraphView(passthrough_ts=view0.outputs)
  reroute.reroute_inputs(outputs, view1)
  return view0, view1


def bypass(sgv: Any) -> tuple[SubGraphView, list[tf.Tensor]]:
  """Makes what reads the outputs of a view read its inputs.

  Args:
    sgv: a view, or what `make_view` takes, of as many inputs as outputs.

  Returns:
    The view, and the placeholders that it reads then.
  """
  view = make_view(sgv)
  inputs = view.inputs
  view, placeholders = detach_inputs(view)
  reroute.reroute_ts(inputs, view.outputs)
  return view, placeholders
