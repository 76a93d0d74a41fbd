"""Private names of TensorFlow graphs that sharding cannot do without.

Tested on TensorFlow 2.15.1 and 2.21.0; compat's tests look for each name.

- `Operation._set_device` places an op after it was made; publicly that is
  possible only while it is made.
- `Operation._update_input` makes an op read a copy of a constant; inputs are
  public to read only.
- `Operation._remove_all_control_inputs` and `_add_control_inputs` change
  what an op waits for after it was made.
- `Operation._control_flow_context` tells the loop that an op is in.
- `function_def_to_graph` knows the shapes of the ops in a function.
- `Graph._get_function` and its result's `cached_definition` tell what is in a
  function of a graph; publicly one gets all functions with the whole graph.
- `kernels.get_registered_kernels_for_op` tells the devices that an op type has
  kernels for; without it only a failing session does.
- `c_api_util.ApiDefMap` lists all op types; `tf.raw_ops` has no definitions,
  and leaves some out.
- `ops.get_stats_for_node_def` is TensorFlow's FLOP count of one op; the public
  profiler prints, and walks the whole graph for each call.
- `deprecation.silence` keeps a name inside of that count, which TensorFlow
  itself calls, from warning the user, who does not.
- `ag_pass_through` on an exception keeps AutoGraph, through which distribution
  strategies call a model_fn, from putting its frames into the message.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import (
  c_api_util,
  function_def_to_graph,
  kernels,
  ops,
)
from tensorflow.python.util import deprecation


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


def without_frames(error: Exception) -> Exception:
  """Returns an error whose message stays as it is within AutoGraph.

  Args:
    error: The error; it is marked.
  """
  vars(error)["ag_pass_through"] = True
  return error


def shapes_in_function(
  function: Any, graph: tf.Graph
) -> dict[str, tf.TensorShape]:
  """Returns the shapes of the first outputs of the ops of a function.

  Args:
    function: Its definition (`FunctionDef`).
    graph: The graph that has it, and the functions that it calls.
  """
  with graph.as_default():
    body = function_def_to_graph.function_def_to_graph(
      function, include_library_functions=True
    )
  ops_of_body = body.get_operations()
  return {op.name: op.outputs[0].shape for op in ops_of_body if op.outputs}


def registered_ops() -> list[Any]:
  """Returns the definitions (`OpDef`) of all types of ops."""
  known = c_api_util.ApiDefMap()
  return [known.get_op_def(name) for name in known.op_names()]


def function_definition(graph: tf.Graph, name: str) -> Any:
  """Returns the definition (a `FunctionDef`) of a function.

  Args:
    graph: A graph that has it in its library.
    name: Its name, as the attributes of an op have it.
  """
  return graph._get_function(name).cached_definition


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


def registered_flops(graph: tf.Graph, node: tf.compat.v1.NodeDef) -> int | None:
  """Returns TensorFlow's count of an op's floating-point operations.

  Args:
    graph: The graph of the op; the shapes of its tensors have to be known.
    node: The op's definition.

  Returns:
    The count, or None if TensorFlow has none for this op or these shapes.
  """
  wrong = (AttributeError, AssertionError, LookupError, TypeError, ValueError)
  value = None
  # An exception may not leave the block: TensorFlow would stay silent.
  with deprecation.silence(), contextlib.suppress(*wrong):
    value = ops.get_stats_for_node_def(graph, node, "flops").value
  return None if value is None else int(value)


def has_kernel(op: tf.Operation, device_type: str) -> bool:
  """Whether this TensorFlow can run an op on a type of device.

  Args:
    op: The op.
    device_type: "CPU", "GPU", ...

  Returns:
    False if it has kernels for such devices, but none for the op with its
    dtypes. True if it has none at all, as a build for CPUs has none for GPUs:
    nothing is known then.
  """
  if not _kernels("MatMul", device_type):
    return True
  return any(
    all(op.get_attr(attribute) in allowed for attribute, allowed in constraints)
    for constraints in _kernels(op.type, device_type)
  )


@functools.cache
def _kernels(
  op_type: str, device_type: str
) -> list[list[tuple[str, set[tf.DType]]]]:
  """Returns the dtypes that each kernel of an op type is for, by attribute."""
  found = kernels.get_registered_kernels_for_op(op_type).kernel
  return [
    [
      (
        constraint.name,
        {tf.dtypes.as_dtype(t) for t in constraint.allowed_values.list.type},
      )
      for constraint in kernel.constraint
    ]
    for kernel in found
    if kernel.device_type == device_type
  ]
