"""Edits of a graph that TensorFlow has no public names for.

Of estimator_mp, only the folders `graph` and `lower` use them. Tested on
TensorFlow 2.15.1 and 2.21.0.

- `Operation._set_device` places an op after it was made; publicly that is
  possible only while it is made.
- `Operation._set_attr` changes what an op is colocated with.
- `Operation._update_input` makes an op read a copy of a constant; inputs are
  public to read only.
- `Operation._remove_all_control_inputs` and `_add_control_inputs` change
  what an op waits for after it was made.
- `Operation._set_control_flow_context` says which branch of a v1 cond an op is
  in: the gradient of a switch follows from that.
- `Graph.finalize` is public, but nothing tells when somebody calls it.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf


def set_device(op: tf.Operation, device: str) -> None:
  """Places an op of a graph that no session has run yet.

  Args:
    op: The op.
    device: A device name; "" leaves the choice to TensorFlow.
  """
  op._set_device(device)


def set_colocation(op: tf.Operation, names: Sequence[str]) -> None:
  """Colocates an op with these ops, and with no others.

  Args:
    op: The op.
    names: The names of the ops that stand for colocation groups.
  """
  groups = [b"loc:@" + name.encode() for name in names]
  value = tf.compat.v1.AttrValue(
    list=tf.compat.v1.AttrValue.ListValue(s=groups)
  )
  op._set_attr("_class", value)


def set_check_of_shapes(op: tf.Operation) -> None:
  """Lets an `AssignVariableOp` refuse values of another shape than before.

  Args:
    op: The op.
  """
  op._set_attr("validate_shape", tf.compat.v1.AttrValue(b=True))


def replace_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
  """Makes an op read another tensor of the same shape and dtype.

  Args:
    op: The op.
    index: Which of its inputs.
    tensor: What to read instead.
  """
  op._update_input(index, tensor)


def set_control_inputs(
  op: tf.Operation, control_inputs: Sequence[tf.Operation]
) -> None:
  """Makes an op wait for these ops, and for no others but its inputs.

  Args:
    op: The op.
    control_inputs: What it waits for.
  """
  op._remove_all_control_inputs()
  op._add_control_inputs(list(control_inputs))


def add_control_inputs(
  op: tf.Operation, control_inputs: Sequence[tf.Operation]
) -> None:
  """Makes an op wait for more ops.

  Args:
    op: The op.
    control_inputs: What it waits for besides.
  """
  op._add_control_inputs(list(control_inputs))


def set_branch(op: tf.Operation, other: tf.Operation) -> None:
  """Says that an op is in the branch of a v1 cond that another op is in.

  Args:
    op: The op, made outside of branches.
    other: The other op, which may be outside of branches, too.
  """
  op._set_control_flow_context(other._get_control_flow_context())


def before_finalization(graph: tf.Graph, call: Callable[[], None]) -> None:
  """Calls a function when all ops of a graph have been made.

  Hooks may make ops until then, and a Scaffold makes its Saver at last. This
  one graph's `finalize`, which is public, is replaced, until it is called.

  Args:
    graph: A graph that is not finalized yet.
    call: What to call, once, before the graph is finalized.
  """
  finalize = graph.finalize

  def call_and_finalize() -> None:
    # What was there before: the class's own, or another that is to be called.
    setattr(graph, "finalize", finalize)  # noqa: B010
    call()
    finalize()

  setattr(graph, "finalize", call_and_finalize)  # noqa: B010
