"""Device assignment: from the stages of ops to devices, and back.

Most ops of a stage go to the stage's device. Two kinds cannot:

- Ops that live in host memory (strings, datasets, lookup tables, queues,
  summaries) have no GPU kernel, and the resources behind them belong to the
  task's CPU. They go to the CPU of the device's task, as do ops that have no
  kernel for the device with their dtypes, such as many on integers.
- Ops that work on a resource, such as a variable that another device holds,
  run where the resource is; TensorFlow refuses any other device.
"""

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence

from compat.private import graph_edits, op_registry
from estimator_mp import devices as devices_lib
from estimator_mp.graph import op_types, variables

import tensorflow as tf


def lives_on_host(op: tf.Operation, device_type: str) -> bool:
  """Whether an op has to run on the host of its device.

  Args:
    op: An op of a graph.
    device_type: The type of the device it would be placed on, such as "GPU".

  Returns:
    True if its type is one of the host's, it reads or makes strings, or it has
    no kernel for such a device.
  """
  if any(word in op.type for word in op_types.HOST_WORDS):
    return True
  tensors = [*op.inputs, *op.outputs]
  if any(tensor.dtype.base_dtype == tf.string for tensor in tensors):
    return True
  if device_type == "CPU":
    return False
  is_python = op.type in op_types.PYTHON_FUNCTIONS
  return is_python or not op_registry.has_kernel(op, device_type)


def device_function(device: str) -> Callable[[tf.Operation], str]:
  """Returns a device function for `tf.compat.v1.device`.

  Args:
    device: The canonical name of the device that ops are placed on.

  Returns:
    A function from an op to its device name. What the op's own device already
    says is kept.
  """
  on_device = tf.compat.v1.DeviceSpec.from_string(device)
  on_host = tf.compat.v1.DeviceSpec.from_string(devices_lib.host_of(device))

  def device_of(op: tf.Operation) -> str:
    for tensor in op.inputs:
      if tensor.dtype == tf.resource:
        variable = variables.variable_of(tensor)
        if variable.device:
          return str(variable.device)
    host = lives_on_host(op, on_device.device_type)
    default = on_host if host else on_device
    own = tf.compat.v1.DeviceSpec.from_string(op.device)
    return str(default.make_merged_spec(own).to_string())

  return device_of


def assign(stages: Mapping[tf.Operation, int], devices: Sequence[str]) -> None:
  """Puts ops without a device on the device of their stage, or its host.

  Args:
    stages: The stages of ops of a graph that no session has run yet.
    devices: The device of each stage.
  """
  functions = [device_function(device) for device in devices]
  for op, stage in stages.items():
    if not op.device:
      graph_edits.set_device(op, functions[stage](op))


def follow_variables(ops: Iterable[tf.Operation]) -> None:
  """Puts ops that read or assign a variable on its device.

  Args:
    ops: Ops of a graph that no session has run yet.
  """
  for op in ops:
    graph_edits.set_device(op, op.inputs[0].device)


def stages_of_devices(
  ops: Sequence[tf.Operation], devices: Sequence[Sequence[str]]
) -> dict[tf.Operation, int]:
  """Returns the stages of ops that have a device of one.

  Args:
    ops: Ops of a graph; those without a device, or with one that no stage has,
      or that several stages share, are left out.
    devices: The devices of each stage.
  """
  counts = collections.Counter(
    name for of_stage in devices for name in of_stage
  )
  stage_of = {
    name: k
    for k, of_stage in enumerate(devices)
    for name in of_stage
    if counts[name] == 1
  }
  canonical: dict[str, int | None] = {"": None}
  stages = {}
  for op in ops:
    if op.device not in canonical:
      spec = tf.compat.v1.DeviceSpec.from_string(op.device)
      is_full = None not in (spec.device_type, spec.device_index)
      name = devices_lib.canonical_device(op.device) if is_full else ""
      canonical[op.device] = stage_of.get(name)
    stage = canonical[op.device]
    if stage is not None:
      stages[op] = stage
  return stages
