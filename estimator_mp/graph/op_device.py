"""The device of one op that is made inside a mesh position's block.

Most ops go to the position's device. Two kinds cannot:

- Ops that live in host memory (strings, datasets, lookup tables, queues,
  summaries) have no GPU kernel, and the resources behind them belong to the
  task's CPU. They go to the CPU of the position's task, as do ops that have no
  kernel for the position's device with their dtypes, such as many on integers.
- Ops that work on a resource, such as a variable that another position holds,
  run where the resource is; TensorFlow refuses any other device.
"""

import re
from collections.abc import Callable

from compat.private import op_registry
from estimator_mp import devices

import tensorflow as tf

_HOST_OP_TYPES = re.compile(
  r"Dataset|Iterator|HashTable|LookupTable|Queue|Reader|Summary"
)


def lives_on_host(op: tf.Operation, device_type: str) -> bool:
  """Whether an op has to run on the host of its device.

  Args:
    op: An op of a graph.
    device_type: The type of the device it would be placed on, such as "GPU".

  Returns:
    True if its type is one of the host's, it reads or makes strings, or it has
    no kernel for such a device.
  """
  if _HOST_OP_TYPES.search(op.type):
    return True
  tensors = [*op.inputs, *op.outputs]
  if any(tensor.dtype.base_dtype == tf.string for tensor in tensors):
    return True
  if device_type == "CPU":
    return False
  # Python functions run in host memory, but on any CPU device.
  is_python = op.type in ("PyFunc", "PyFuncStateless")
  return is_python or not op_registry.has_kernel(op, device_type)


def device_of_resource(op: tf.Operation) -> str:
  """Returns the device of the first resource that an op works on, or ""."""
  for tensor in op.inputs:
    if tensor.dtype == tf.resource and tensor.op.device:
      return tensor.op.device
  return ""


def placing_function(device: str) -> Callable[[tf.Operation], str]:
  """Returns a device function for `tf.compat.v1.device`.

  Args:
    device: The canonical name of the device that ops are placed on.

  Returns:
    A function from an op to its device name. What the op's own device already
    says is kept.
  """
  on_device = tf.compat.v1.DeviceSpec.from_string(device)
  on_host = tf.compat.v1.DeviceSpec.from_string(devices.host_of(device))

  def place(op: tf.Operation) -> str:
    resource_device = device_of_resource(op)
    if resource_device:
      return resource_device
    host = lives_on_host(op, on_device.device_type)
    default = on_host if host else on_device
    own = tf.compat.v1.DeviceSpec.from_string(op.device)
    return default.make_merged_spec(own).to_string()

  return place
