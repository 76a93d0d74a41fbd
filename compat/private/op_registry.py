"""What TensorFlow knows of a type of op: definition, kernels, operations.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `kernels.get_registered_kernels_for_op` tells the devices that an op type has
  kernels for; without it only a failing session does.
- `c_api_util.ApiDefMap` lists all op types; `tf.raw_ops` has no definitions,
  and leaves some out.
- `ops.get_stats_for_node_def` is TensorFlow's FLOP count of one op; the public
  profiler prints, and walks the whole graph for each call.
- `deprecation.silence` keeps a name inside of that count, which TensorFlow
  itself calls, from warning the user, who does not.
"""

import contextlib
import functools
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import c_api_util, kernels, ops
from tensorflow.python.util import deprecation


def registered_ops() -> list[Any]:
  """Returns the definitions (`OpDef`) of all types of ops."""
  known = c_api_util.ApiDefMap()
  return [known.get_op_def(name) for name in known.op_names()]


def registered_ops_by_name() -> dict[str, Any]:
  """Returns the definitions (`OpDef`) of all types of ops, by their name."""
  return {definition.name: definition for definition in registered_ops()}


@functools.cache
def is_stateful(op_type: str) -> bool:
  """Whether ops of a type have a state: are variables, say, or random.

  Args:
    op_type: such as "MatMul"; False for one that is not registered.
  """
  known = c_api_util.ApiDefMap()
  return op_type in known.op_names() and known.get_op_def(op_type).is_stateful


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
