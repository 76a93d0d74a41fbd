"""Device assignment: from the stages of ops to devices, and back.

Most ops of a stage go to the stage's device. Two kinds cannot:

- Ops that live in host memory (strings, datasets, lookup tables, queues,
  summaries) have no GPU kernel, and the resources behind them belong to the
  task's CPU. They go to the CPU of the device's task, as do ops that have no
  kernel for the device with their dtypes, such as many on integers.
  Ops that a session keeps in one place then go there together: a variable with
  its reads and updates.
- Ops that work on a resource, such as a variable that another device holds,
  run where the resource is; TensorFlow refuses any other device. An op that
  calls a function that works on a resource of another task need not:
  TensorFlow takes the call apart before a session places its ops.
"""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from compat.private import graph_edits, graph_reads, op_registry
from estimator_mp import devices as devices_lib
from estimator_mp.graph import colocation, op_types, variables
from estimator_mp.graph.calls import functions

import tensorflow as tf


def lives_on_host(op: tf.Operation, device_type: str) -> bool:
  """Whether an op has to run on the host of its device.

  Args:
    op: An op of a graph.
    device_type: The type of the device it would be placed on, such as "GPU".

  Returns:
    True if its type is one of the host's, it reads or makes strings, or it has
    no kernel for such a device, or an op in its branches or its body has none.
  """
  if _is_of_host(op.type):
    return True
  if any(op_types.is_text(tensor) for tensor in (*op.inputs, *op.outputs)):
    return True
  if device_type == "CPU":
    return False
  if op.type in op_types.PYTHON_FUNCTIONS:
    return True
  node = op.node_def
  return not op_registry.has_kernel(node, device_type) or any(
    _is_of_host(inner.op)
    or inner.op in op_types.PYTHON_FUNCTIONS
    or not op_registry.has_kernel(inner, device_type)
    for inner in _inlined(op.graph, node)
  )


@functools.cache
def _is_of_host(op_type: str) -> bool:
  """Whether the type of an op is one of the host's."""
  return any(word in op_type for word in op_types.HOST_WORDS)


def _inlined(
  graph: tf.Graph, node: tf.compat.v1.NodeDef
) -> Iterator[tf.compat.v1.NodeDef]:
  """Yields the ops that a session puts in the place of a branch or a loop.

  Each gets the device of the op whose body it is in, unless it has its own. The
  body of a called function is placed op by op, wherever each can run.
  """
  if node.op in op_types.FUNCTIONAL_BRANCHES | op_types.FUNCTIONAL_LOOPS:
    for function in functions.functions_of(node):
      definition = graph_reads.function_definition(graph, function.name)
      for inner in definition.node_def if definition is not None else ():
        if not inner.device:
          yield inner
        yield from _inlined(graph, inner)


@functools.cache
def device_function(device: str) -> Callable[[tf.Operation], str]:
  """Returns a device function for `tf.compat.v1.device`.

  Args:
    device: The canonical name of the device that ops are placed on.

  Returns:
    A function from an op to its device name, which keeps all fields of the op's
    own device.
  """
  on_device = tf.compat.v1.DeviceSpec.from_string(device)
  on_host = tf.compat.v1.DeviceSpec.from_string(devices_lib.host_of(device))
  is_away = on_device != on_host
  names = [str(spec.to_string()) for spec in (on_device, on_host)]

  def device_of(op: tf.Operation) -> str:
    for tensor in op.inputs:
      if op_types.is_resource(tensor):
        variable = variables.variable_of(tensor)
        if variable.device and not calls_other_task(op, variable, device):
          return str(variable.device)
    host = is_away and lives_on_host(op, on_device.device_type)
    default = on_host if host else on_device
    place = op.device
    if not place:
      return names[host]
    spec = tf.compat.v1.DeviceSpec.from_string(place)
    return str(default.make_merged_spec(spec).to_string())

  return device_of


def calls_other_task(
  op: tf.Operation, variable: tf.Operation, device: str
) -> bool:
  """Whether an op runs functions that work on a variable of another task.

  Args:
    op: An op that gets the variable's handle.
    variable: The variable, which has a device.
    device: The canonical name of the device that the op is placed on.
  """
  return op_types.is_call(op) and devices_lib.task_of(
    variable.device
  ) != devices_lib.task_of(device)


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


def leave_other_devices(ops: Iterable[tf.Operation]) -> None:
  """Colocates each op with those on its own device only.

  The shape of a gathered tensor is colocated with the gather and a variable
  of TensorFlow 1, and these may be on two devices: no place would suit both.

  Args:
    ops: Ops of a graph that no session has run yet, on their devices.
  """
  for op in ops:
    if not (place := op.device):
      continue
    names = colocation.colocated_with(op)
    if names == [op.name]:
      continue
    devices = [_device_of(op.graph, name) for name in names]
    if any(device not in ("", place) for device in devices):
      near = zip(names, devices, strict=True)
      graph_edits.set_colocation(
        op, [name for name, device in near if device == place]
      )


def _device_of(graph: tf.Graph, name: str) -> str:
  """Returns the device of an op, "" if it has none or does not exist."""
  try:
    return str(graph.get_operation_by_name(name).device)
  except KeyError:
    return ""


def settle_on_hosts(graph: tf.Graph, devices: Iterable[str]) -> None:
  """Puts ops that have to share a device with one of the host there, too.

  A variable of integers has no kernel for GPUs, but the ops around it do; of
  many optimizers the update of a table has none, which is made long after the
  table. TensorFlow itself would put all of them on the host, if its placement
  were soft; a hard one is an error.

  Args:
    graph: A graph that no session has run yet.
    devices: The devices of the mesh that it is for; it stays as it is if all
      are CPUs.
  """
  if {devices_lib.device_type(name) for name in devices} == {"CPU"}:
    return
  ops = graph.get_operations()
  places = {op: op.device for op in ops if op.device}
  types = {name: _type_of(name) for name in set(places.values())}
  colocations = _Colocations(ops)
  hosts: dict[tf.Operation, str] = {}
  for op, place in places.items():
    kind = types[place]
    if kind == "CPU":
      hosts.setdefault(colocations.root(op), place)
    elif kind is not None and lives_on_host(op, kind):
      hosts[colocations.root(op)] = devices_lib.host_of(place)
  for op, place in places.items():
    host = hosts.get(colocations.root(op))
    if host is not None and types[place] not in ("CPU", None):
      graph_edits.set_device(op, host)
  leave_other_devices(ops)


def _type_of(name: str) -> str | None:
  """Returns the type that a device name has, if it has one."""
  kind: str | None = tf.compat.v1.DeviceSpec.from_string(name).device_type
  return kind


class _Colocations:
  """Ops that TensorFlow lets be on one device only, by union and find.

  They are fewer than those of one stage (`colocation`), which has a loop as a
  whole.
  """

  def __init__(self, ops: Sequence[tf.Operation]):
    self._parents = {op: op for op in ops}
    by_name = {op.name: op for op in ops}
    for op in ops:
      for tensor in op.inputs:
        if op_types.is_handle(tensor) and op.type not in op_types.SAVES:
          self._join(op, variables.variable_of(tensor))
      for name in colocation.colocated_with(op):
        if name in by_name:
          self._join(op, by_name[name])

  def root(self, op: tf.Operation) -> tf.Operation:
    """Returns the op that stands for those that an op is together with."""
    while self._parents[op] is not op:
      self._parents[op] = self._parents[self._parents[op]]
      op = self._parents[op]
    return op

  def _join(self, op: tf.Operation, other: tf.Operation) -> None:
    if other in self._parents:
      self._parents[self.root(op)] = self.root(other)


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
    place = op.device
    if place not in canonical:
      spec = tf.compat.v1.DeviceSpec.from_string(place)
      is_full = None not in (spec.device_type, spec.device_index)
      name = devices_lib.canonical_device(place) if is_full else ""
      canonical[place] = stage_of.get(name)
    stage = canonical[place]
    if stage is not None:
      stages[op] = stage
  return stages
