"""ZeRO shards: the replica that updates each variable.

With `optimizer_state="sharded"`, the replicas of a stage share the work of the
optimizer: each variable is in the shard of one of them, with its slots, and
with the ops on its gradient. Only that replica gets the sum of the gradients;
the new value goes to the others. So D replicas hold a D-th of the slots
each. That is the first stage of ZeRO (Rajbhandari et al., "ZeRO: Memory
Optimizations Toward Training Trillion Parameter Models", 2020,
arXiv:1910.02054), by whole variables.

Shard r is replica r's. Moves there are returned as a device for each op.
"""

from collections.abc import Callable, Mapping, Sequence

from estimator_mp.graph import colocation, op_types, savers, shapes
from estimator_mp.graph import variables as variables_lib
from estimator_mp.placement import propagation

import tensorflow as tf

# From devices of replica 0 to those of a replica, for each of them.
DevicesOfReplicas = Sequence[Callable[[str], str]]


def divide(
  variables: Sequence[tf.Operation], device_of: DevicesOfReplicas
) -> tuple[dict[tf.Operation, int], dict[tf.Operation, str]]:
  """Divides variables into shards, evenly by their bytes.

  Args:
    variables: The ops of variables, placed on their stages in replica 0. One
      that a function reads beside others (such as a functional loop) stays in
      replica 0, where that is. One that is colocated with another, such as its
      average, is in the same shard.
    device_of: For each replica, from devices of replica 0 to its own.

  Returns:
    The shard of each variable; and the devices of the variables that are not in
    replica 0, and of the ops that have to be where these are.
  """
  shards: dict[tf.Operation, int] = {}
  by_name: dict[str, int] = {}
  all_held: dict[str, list[int]] = {}  # Bytes of each shard.
  devices: dict[tf.Operation, str] = {}
  for variable, bound in colocation.ops_colocated_with(variables).items():
    device = devices.get(variable, variable.device)
    held = all_held.setdefault(device, [0] * len(device_of))
    shard = held.index(min(held)) if _is_movable(variable) else 0
    for name in colocation.colocated_with(variable):
      shard = by_name.get(name, shard)
    shards[variable] = by_name[variable.name] = shard
    held[shard] += shapes.variable_bytes(variable)
    if shard:
      place = device_of[shard](device)
      # With the users of its slots, which are bound to it.
      users = [
        user
        for slot in op_types.variables_of(bound)
        if slot.type == "VarHandleOp" and slot is not variable
        for user in variables_lib.users(slot.outputs[0])
        if not op_types.is_call(user)
      ]
      devices |= dict.fromkeys([*bound, *users], place)
  return shards, devices


def devices_of_updates(
  ops: Sequence[tf.Operation],
  shards: Mapping[tf.Operation, int],
  device_of: DevicesOfReplicas,
  sums: Mapping[tf.Operation, int],
) -> dict[tf.Operation, str]:
  """Returns where an update is computed: beside its variable.

  Args:
    ops: The ops that are not part of a forward or backward pass, in the order
      of the graph; all are placed in replica 0 or have moved already.
    shards: The shards of variables.
    device_of: For each replica, from devices of replica 0 to its own.
    sums: The shards that sums of gradients are for.

  Returns:
    The devices of those ops that move, slots with all that uses them.
  """
  inside = set(ops)
  # A function may hold variables of several shards, which it does not join:
  # its ops run where their variables are.
  simple = [op for op in ops if not op_types.is_call(op)]
  of_savers = savers.saver_ops(ops)
  movable = [op for op in simple if op not in of_savers]
  groups = colocation.ColocationGroups()
  # A slot is where its variable is, wherever its gradient is summed.
  groups.add([*(op for op in shards if op not in inside), *movable])
  shard_of = propagation.propagate(
    movable, groups, {**shards, **sums}, propagation.Follows.LARGEST_INPUT
  )
  devices = {
    op: device_of[shard](op.device)
    for op, shard in shard_of.items()
    if op.device and not _is_bound(op)
  }
  by_name = {op.name: device for op, device in devices.items()}
  slots = [
    op
    for op in op_types.variables_of(shard_of)
    if op not in shards and _is_movable(op)
  ]
  for slot, bound in colocation.ops_colocated_with(slots).items():
    device = device_of[shard_of[slot]](devices.get(slot, slot.device))
    devices |= dict.fromkeys(bound, device)
  for op in simple:
    for name in colocation.colocated_with(op):
      if name in by_name:
        devices[op] = by_name[name]
  return devices


def _is_movable(variable: tf.Operation) -> bool:
  """Whether all that uses a variable can be where it is.

  A call that uses other variables, too, cannot.
  """

  def follows(op: tf.Operation) -> bool:
    if not op_types.is_call(op):
      return op.type in op_types.STATE_READS or op_types.is_write(op)
    handles = [x for x in op.inputs if x.dtype == tf.resource]
    return {variables_lib.variable_of(x) for x in handles} == {variable}

  return variable.type == "VarHandleOp" and all(
    follows(op)
    for op in variables_lib.users(variable.outputs[0])
    if op.type not in op_types.PASSES_HANDLE
  )


def _is_bound(op: tf.Operation) -> bool:
  """Whether an op has to be where something else is."""
  return (
    op_types.is_variable(op)
    or any(name != op.name for name in colocation.colocated_with(op))
    or any(map(op_types.is_handle, op.inputs))
  )
