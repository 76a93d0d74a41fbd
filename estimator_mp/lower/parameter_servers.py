"""Parameter servers: other tasks hold the variables of a worker's graph.

Between-graph replicas (Abadi et al., 2016, arXiv:1605.08695): each worker has a
graph of its own, all of these name their variables on the same tasks, and the
updates of a variable run there.

    /job:ps/task:0                     /job:worker/task:1
      dense/kernel                       /device:CPU:0  stage 0: MatMul, Relu
      ResourceApplyAdam                  /device:CPU:1  stage 1: MatMul, loss
      ResourceGather of a table

An Estimator's device function, `tf.compat.v1.train.replica_device_setter`, says
job and task of an op, and stages say the rest. TensorFlow would ask it when an
op is made, and a variable that a stage is marked for would stay on the worker.
So it is asked here, in the order in which ops were made. That order is the same
in each worker, and so are the answers.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from compat.private import graph_edits
from estimator_mp import devices as devices_lib
from estimator_mp.graph import colocation, op_types, variables

import tensorflow as tf

DeviceFunction = Callable[[tf.Operation], str | None]


class NoServers:
  """A graph whose variables are where its stages are.

  Attributes:
    exist: Whether there are servers.
  """

  exist = False

  def building(self) -> AbstractContextManager[None]:
    """Returns a context for the graph to be built in."""
    return contextlib.nullcontext()

  def complete_devices(self, ops: Iterable[tf.Operation]) -> None:
    """Does nothing: a device name without a task is this process's."""

  def place_variables(self, ops: Sequence[tf.Operation]) -> None:
    """Does nothing: variables are on the devices of their stages."""

  def place_others(self, ops: Iterable[tf.Operation]) -> None:
    """Does nothing: there is no other task."""


NO_SERVERS = NoServers()


class ParameterServers(NoServers):
  """Which ops of one graph are on other tasks than its stages."""

  exist = True

  def __init__(self, task: str, device_function: DeviceFunction):
    """Starts with no op.

    Args:
      task: That of the stages' devices, as "/job:worker/task:1".
      device_function: Returns a device for an op. Only its job and task count,
        and only for an op whose own device says neither.
    """
    self._task = tf.compat.v1.DeviceSpec.from_string(task)
    self._device_function = device_function

  def building(self) -> AbstractContextManager[None]:
    """Returns a context in which TensorFlow does not ask the device function.

    Inside of it ops have the devices that model_fn says.
    """
    context: AbstractContextManager[None] = tf.compat.v1.device(None)
    return context

  def complete_devices(self, ops: Iterable[tf.Operation]) -> None:
    """Says the task of ops whose device does not: "/cpu:0" is this task's.

    Args:
      ops: Ops of a graph that no session has run yet. Those without a device
        stay without one.
    """
    for op in ops:
      if op.device:
        graph_edits.set_device(op, self._completed(op.device))

  def place_variables(self, ops: Sequence[tf.Operation]) -> None:
    """Puts variables on other tasks, and with them the ops on their handles.

    Local variables, which each worker has for itself, stay.

    Args:
      ops: Ops, in the order in which they were made.
    """
    local = {variable.op for variable in tf.compat.v1.local_variables()}
    bound: dict[tf.Operation, list[tf.Operation]] = {}
    for op in ops:
      states = _states_of(op)
      if states and self._is_elsewhere(op.device):
        # The last write of a SyncReplicasOptimizer is this worker's.
        graph_edits.set_device(op, "")
      others = states or _colocated_with(op)
      if self._is_elsewhere(op.device):
        graph_edits.set_device(op, _full(op.device))
      elif others:
        bound[op] = others
      elif op not in local:
        self._ask(op)
    # A slot goes to its variable, and its initializer, which is made before it,
    # to the slot.
    for op in sorted(bound, key=lambda op: not op_types.is_variable(op)):
      for other in bound[op]:
        if self._is_elsewhere(other.device):
          self._put_beside(op, other)
          break

  def place_others(self, ops: Iterable[tf.Operation]) -> None:
    """Puts ops without a task on this one, as an Estimator's would be.

    Args:
      ops: Ops of a graph that no session has run yet.
    """
    for op in ops:
      graph_edits.set_device(op, self._completed(op.device))

  def _ask(self, op: tf.Operation) -> None:
    """Puts an op where the device function says, if that is another task."""
    device = op.device
    spec = tf.compat.v1.DeviceSpec.from_string(device)
    if None not in (spec.job, spec.device_type, spec.device_index):
      # It is marked for a stage.
      graph_edits.set_device(op, "")
    asked = self._device_function(op) or ""
    elsewhere = self._is_elsewhere(asked)
    graph_edits.set_device(op, _full(asked) if elsewhere else device)

  def _put_beside(self, op: tf.Operation, other: tf.Operation) -> None:
    """Puts an op where another one is, and no more where a third one is."""
    device = _full(other.device)
    graph_edits.set_device(op, device)
    if any(x.device != device for x in _colocated_with(op)):
      # The shape of a loop's input, say, is colocated with the loop.
      graph_edits.set_colocation(op, [other.name])

  def _is_elsewhere(self, device: str) -> bool:
    """Whether a device name says another task."""
    spec = tf.compat.v1.DeviceSpec.from_string(device)
    here = self._task.job, self._task.task
    return spec.job is not None and (spec.job, spec.task) != here

  def _completed(self, device: str) -> str:
    spec = tf.compat.v1.DeviceSpec.from_string(device)
    return str(self._task.make_merged_spec(spec).to_string())


def _states_of(op: tf.Operation) -> list[tf.Operation]:
  """Returns the variables, or other states, that an op has to be beside."""
  if op_types.is_call(op):
    return []
  states = filter(op_types.is_handle, op.inputs)
  return [variables.variable_of(x) for x in states]


def _colocated_with(op: tf.Operation) -> list[tf.Operation]:
  """Returns the ops that an op is colocated with by name."""
  names = colocation.colocated_with(op)
  others = (name for name in names if name != op.name)
  return [op.graph.get_operation_by_name(name) for name in others]


def _full(device: str) -> str:
  """Returns a device of a server: its first CPU, unless it says which."""
  first = tf.compat.v1.DeviceSpec(device_type="CPU", device_index=0)
  spec = tf.compat.v1.DeviceSpec.from_string(device)
  return devices_lib.canonical_device(first.make_merged_spec(spec).to_string())
