"""One order of the collectives for all devices, so that none deadlocks.

An op that works with ops of other devices holds its device, or a thread or a
stream of it, until they come. If one device starts with collective A and
another one with B, both may wait for ever. So each device starts a collective
only when its part of the one before is done, and the order is the same on all.

A control dependency says that an op is done. That an op has started, which
would be enough, no edge of a graph can say.

NCCL needs this: its kernels wait on the device, one after the other. TensorFlow
runs its own collectives on CPUs in threads that it makes as they are needed: on
TensorFlow 2.15.1 and 2.21.0 no run without the order was seen to hang. Two
devices with orders that contradict each other do hang there.
"""

from collections.abc import Sequence
from typing import Any

from estimator_mp.collectives import collective
from estimator_mp.graph import op_types, traversal

import tensorflow as tf


def collectives_of(graph: tf.Graph) -> list[tuple[tf.Operation, ...]]:
  """Returns the collectives of a graph, in the order they were made.

  Args:
    graph: A graph, with all-reduces of the algorithms `collective` or `nccl`.

  Returns:
    The ops of each collective, one per device.

  Raises:
    ValueError: If an op has no group key that the graph knows.
  """
  by_identity: dict[tuple[Any, ...], list[tf.Operation]] = {}
  for op in graph.get_operations():
    if op.type in op_types.COLLECTIVES:
      by_identity.setdefault(_identity(op), []).append(op)
  return [tuple(members) for members in by_identity.values()]


def _identity(op: tf.Operation) -> tuple[Any, ...]:
  """Returns the key that the ops of one collective have in common."""
  if op.type == "NcclAllReduce":
    return op.type, op.get_attr("shared_name")
  return op.type, *collective.keys_of(op)


def waits_of_collectives(
  collectives: Sequence[Sequence[tf.Operation]],
) -> dict[tf.Operation, tf.Operation]:
  """Returns for each op of a collective that of the one before, on its device.

  Args:
    collectives: The ops of each collective, one per device, such as
      `collectives_of` returns; devices that take no part in one go on with
      the next.

  Raises:
    ValueError: If a collective has two ops on a device or one without a device,
      or if one reads the result of a later one.
  """
  for members in collectives:
    _check_devices(members)
  _check_order(collectives)
  waits: dict[tf.Operation, tf.Operation] = {}
  last: dict[str, tf.Operation] = {}
  for members in collectives:
    for op in members:
      if op.device in last:
        waits[op] = last[op.device]
      last[op.device] = op
  return waits


def _check_devices(members: Sequence[tf.Operation]) -> None:
  """Raises if the ops of a collective are not on a device each."""
  seen: dict[str, str] = {}
  for op in members:
    if not op.device:
      raise ValueError(
        f"{op.name} has no device, so it has no place in the order; place it "
        "with tf.device"
      )
    if op.device in seen:
      raise ValueError(
        f"{seen[op.device]} and {op.name} are of one collective, and both on "
        f"{op.device}; a collective has one op per device"
      )
    seen[op.device] = op.name


def _check_order(collectives: Sequence[Sequence[tf.Operation]]) -> None:
  """Raises if the order would close a circle, which only a session reports."""
  position = {
    op: index for index, members in enumerate(collectives) for op in members
  }
  seen: set[tf.Operation] = set()
  for index, members in enumerate(collectives):
    for op in traversal.walk(members, traversal.sources, seen):
      seen.add(op)
      if position.get(op, index) > index:
        raise ValueError(
          f"collective {index} ({members[0].name}) reads the result of "
          f"collective {position[op]} ({op.name}); put the one that is read "
          "first"
        )
