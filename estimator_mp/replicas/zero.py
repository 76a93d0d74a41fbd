"""Owners: which replica updates which variable.

With `optimizer_state="sharded"`, the replicas of a stage share the work of the
optimizer: each variable belongs to one of them, with its slots, and with what
is computed of its gradient. Only the owner gets the sum of the gradients; the
new value goes to the others. So D replicas hold a D-th of the slots each. That
is the first stage of ZeRO (Rajbhandari et al., "ZeRO: Memory Optimizations
Toward Training Trillion Parameter Models", 2020, arXiv:1910.02054), by whole
variables.
"""

from collections.abc import Callable, Mapping, Sequence

from compat.private import graph_edits
from estimator_mp.graph import (
  colocation,
  function_bodies,
  op_types,
  savers,
  tensor_size,
)
from estimator_mp.placement import propagation

import tensorflow as tf


class Owners:
  """Chooses the owners of variables, evenly by their bytes."""

  def __init__(self, num_replicas: int):
    """Starts without a variable.

    Args:
      num_replicas: How many replicas there are, D.
    """
    self._num_replicas = num_replicas
    self._held_bytes: dict[str, list[int]] = {}
    self._owners: dict[tf.Operation, int] = {}
    self._groups: dict[bytes, int] = {}

  def choose(self, variable: tf.Operation) -> int:
    """Returns the replica that a new variable shall belong to.

    Args:
      variable: The op of a variable, placed on its stage in replica 0. One
        that functions read (such as a functional loop) stays in replica 0,
        where these are. One that is colocated with another, such as its
        average, belongs to the same replica.
    """
    held = self._held_bytes.setdefault(
      variable.device, [0] * self._num_replicas
    )
    owner = held.index(min(held)) if _is_movable(variable) else 0
    for group in variable.colocation_groups():
      owner = self._groups.get(group, owner)
    self._groups[_group_of(variable)] = owner
    held[owner] += tensor_size.variable_bytes(variable)
    self._owners[variable] = owner
    return owner

  def of(self, variable: tf.Operation) -> int:
    """Returns the owner of a variable; 0 if it was never chosen.

    Args:
      variable: The op of a variable.
    """
    return self._owners.get(variable, 0)

  def move(
    self,
    ops: Sequence[tf.Operation],
    sums: Mapping[tf.Operation, int],
    device_of: Sequence[Callable[[str], str]],
  ) -> None:
    """Puts what is computed for an update beside its variable.

    Args:
      ops: What is not part of a forward or backward pass, in the order of the
        graph; all of it is placed in replica 0 or has moved already.
      sums: The owners that sums of gradients are for.
      device_of: For each replica, from devices of replica 0 to its own.
    """
    # A function may hold variables of several owners, which it does not join:
    # what is in it runs where its variables are.
    simple = [op for op in ops if not function_bodies.is_call(op)]
    known = {**self._owners, **sums}
    both = colocation.Units()
    of_savers = savers.saver_ops(ops)
    movable = [op for op in simple if op not in of_savers]
    both.add(movable)
    owners = propagation.spread(
      movable, both, known, propagation.Follows.LARGEST_INPUT
    )
    moved = {}
    for op, owner in owners.items():
      if op.device and not _is_bound(op):
        graph_edits.set_device(op, device_of[owner](op.device))
        moved[_group_of(op)] = op.device
    slots = [
      op
      for op in op_types.variables_of(list(owners))
      if op not in self._owners and _is_movable(op)
    ]
    for slot, bound in colocation.bound_to(slots).items():
      device = device_of[owners[slot]](slot.device)
      for op in bound:
        graph_edits.set_device(op, device)
    for op in simple:
      for group in op.colocation_groups():
        if group in moved:
          graph_edits.set_device(op, moved[group])


def _group_of(op: tf.Operation) -> bytes:
  """Returns what ops that are colocated with an op name."""
  return f"loc:@{op.name}".encode()


def _is_movable(variable: tf.Operation) -> bool:
  """Whether a variable is read and written by simple ops only."""
  return variable.type == "VarHandleOp" and all(
    op.type in op_types.STATE_READS or op_types.is_write(op)
    for op in variable.outputs[0].consumers()
  )


def _is_bound(op: tf.Operation) -> bool:
  """Whether an op has to be where something else is."""
  return (
    op_types.is_variable(op)
    or any(group != _group_of(op) for group in op.colocation_groups())
    or any(map(op_types.is_handle, op.inputs))
  )
