"""Private names of TensorFlow graphs that sharding cannot do without.

Tested on TensorFlow 2.15.1 and 2.21.0; compat's tests look for each name.

- `Operation._set_device` places an op after it was made; publicly that is
  possible only while it is made.
- `Operation._update_input` makes an op read a copy of a constant; inputs are
  public to read only.
- `Operation._control_flow_context` tells the loop that an op is in.
- `ops.get_stats_for_node_def` is TensorFlow's FLOP count of one op; the public
  profiler prints, and walks the whole graph for each call.
"""

import tensorflow as tf
from tensorflow.python.framework import ops


def set_device(op: tf.Operation, device: str) -> None:
  """Places an op of a graph that no session has run yet.

  Args:
    op: The op.
    device: A device name; "" leaves the choice to TensorFlow.
  """
  op._set_device(device)


def replace_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
  """Makes an op read another tensor of the same shape and dtype.

  Args:
    op: The op.
    index: Which of its inputs.
    tensor: What to read instead.
  """
  op._update_input(index, tensor)


def outermost_loop(op: tf.Operation) -> object | None:
  """Returns an object that stands for the v1 loop that an op is part of.

  Args:
    op: An op; functional `While` ops are no v1 loops.

  Returns:
    The same object for every op of the outermost loop; None outside of loops.
  """
  loop = None
  context = op._control_flow_context
  while context is not None:
    if context.IsWhileContext():
      loop = context
    context = context.outer_context
  return loop


def registered_flops(graph: tf.Graph, node: tf.compat.v1.NodeDef) -> int | None:
  """Returns TensorFlow's count of an op's floating-point operations.

  Args:
    graph: The graph of the op; the shapes of its tensors have to be known.
    node: The op's definition.

  Returns:
    The count, or None if TensorFlow has none for this op or these shapes.
  """
  try:
    value = ops.get_stats_for_node_def(graph, node, "flops").value
  except (AttributeError, AssertionError, LookupError, TypeError, ValueError):
    return None
  return None if value is None else int(value)
