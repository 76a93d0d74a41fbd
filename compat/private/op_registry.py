"""TensorFlow's registry of op types: definitions, kernels, operations.

Tested on TensorFlow 2.15.1 and 2.21.0.

- `kernels.get_registered_kernels_for_op` tells the devices that an op type has
  kernels for; without it only a failing session does.
- `c_api_util.ApiDefMap` lists all op types; `tf.raw_ops` has no definitions,
  and leaves some out. To make that list takes 20 ms;
  `op_def_registry.get` asks for one type.
- `ops.get_stats_for_node_def` is TensorFlow's FLOP count of one op; the public
  profiler prints, and walks the whole graph for each call.
- `deprecation.silence` keeps a name inside of that count, which TensorFlow
  itself calls, from warning the user, who does not.
"""

import contextlib
import functools
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import (
  c_api_util,
  kernels,
  op_def_registry,
  ops,
)
from tensorflow.python.util import deprecation

# The type of device that kernels are registered for which run on any, such as
# those of variables, and of shapes in the memory of a GPU's host.
_ANY_DEVICE = "DEFAULT"


def registered_ops() -> list[Any]:
  """Returns the definitions (`OpDef`) of all types of ops."""
  known = c_api_util.ApiDefMap()
  return [known.get_op_def(name) for name in known.op_names()]


def registered_ops_by_name() -> dict[str, Any]:
  """Returns the definitions (`OpDef`) of all types of ops, by their name."""
  return {definition.name: definition for definition in registered_ops()}


def definition_of(op: tf.Operation) -> Any:
  """Returns the definition (`OpDef`) of the type of an op.

  `op_def_registry` keeps it, and `Operation.op_def` parses it each time.

  Args:
    op: An op. That of a function of the graph is defined there.
  """
  return op_def_registry.get(op.type) or op.op_def


@functools.cache
def is_stateful(op_type: str) -> bool:
  """Whether ops of a type have a state: are variables, say, or random.

  Args:
    op_type: such as "MatMul"; False for one that is not registered.
  """
  definition = op_def_registry.get(op_type)
  return definition is not None and definition.is_stateful


def registered_flops(op: tf.Operation) -> int | None:
  """Returns TensorFlow's count of an op's floating-point operations.

  Args:
    op: The op; the shapes of its tensors have to be known.

  Returns:
    The count, or None if TensorFlow has none for this op or these shapes.
  """
  wrong = (AttributeError, AssertionError, LookupError, TypeError, ValueError)
  value = None
  # An exception may not leave the block: TensorFlow would stay silent.
  with deprecation.silence(), contextlib.suppress(*wrong):
    value = ops.get_stats_for_node_def(op.graph, op.node_def, "flops").value
  return None if value is None else int(value)


def has_kernel(node: tf.compat.v1.NodeDef, device_type: str) -> bool:
  """Whether this TensorFlow can run an op on a type of device.

  Args:
    node: The op's definition, in a graph or in a function.
    device_type: "CPU", "GPU", ...

  Returns:
    False if it has kernels for such devices, but none for the op with its
    dtypes. True if it has none at all, as a build for CPUs has none for GPUs:
    nothing is known then.
  """
  if not _kernels("MatMul", device_type):
    return True
  # A session takes a kernel for any device where the type has none of its own.
  return any(
    all(_allows(allowed, node, name) for name, allowed in constraints.items())
    for kind in (device_type, _ANY_DEVICE)
    for constraints in _kernels(node.op, kind)
  )


def _allows(
  allowed: frozenset[Any], node: tf.compat.v1.NodeDef, attribute: str
) -> bool:
  """Whether a kernel is for what an attribute of an op says.

  Some kernels name an attribute that the type of op does not have; a session
  never takes these.
  """
  if attribute not in node.attr:
    return False
  value = node.attr[attribute]
  if value.HasField("list"):
    return allowed >= _values(value.list)
  return getattr(value, value.WhichOneof("value")) in allowed


@functools.cache
def _kernels(op_type: str, device_type: str) -> list[dict[str, frozenset[Any]]]:
  """Returns what each kernel of an op type is for, by attribute; mostly dtypes.

  Those with a label are left out: an op has to ask for one by that.
  """
  found = kernels.get_registered_kernels_for_op(op_type).kernel
  return [
    {
      constraint.name: _values(constraint.allowed_values.list)
      for constraint in kernel.constraint
    }
    for kernel in found
    if kernel.device_type == device_type and not kernel.label
  ]


def _values(values: Any) -> frozenset[Any]:
  """Returns what a list of an attribute's has, which is all of one kind."""
  return frozenset([*values.type, *values.s, *values.i, *values.b])
