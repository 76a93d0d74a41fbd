"""Hierarchical all-reduce: one device of each group speaks for it.

Devices of one task reach each other faster than those of other tasks. So each
group adds its tensors on its first device, these leaders make an all-reduce in
a ring, and each sends the sum to its group. A task so sends less than two
tensors to others, however many devices it has, and the steps in the ring are
twice the number of tasks less 1.

Goyal et al. (2017, arXiv:1706.02677) reduce in three such phases.
"""

import collections
import math
from collections.abc import Sequence

from estimator_mp import devices as devices_lib
from estimator_mp.collectives import reduce_to_one, ring
from estimator_mp.graph import placed_ops

import tensorflow as tf


def groups_of(devices: Sequence[str]) -> list[list[int]]:
  """Returns the groups of devices, as their positions, the leader first.

  The devices of each task are a group. If there is one task, groups have about
  the square root of the number of devices.

  Args:
    devices: Canonical device names.
  """
  ranks = range(len(devices))
  tasks: dict[str, list[int]] = {}
  for rank in ranks:
    tasks.setdefault(devices_lib.host_of(devices[rank]), []).append(rank)
  if len(tasks) > 1:
    return list(tasks.values())
  size = math.ceil(math.sqrt(len(devices)))
  return [list(ranks[start : start + size]) for start in ranks[::size]]


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices.
  """
  groups = groups_of(devices)
  leaders = [devices[group[0]] for group in groups]
  sums = [
    placed_ops.add([tensors[rank] for rank in group], leader)
    for group, leader in zip(groups, leaders, strict=True)
  ]
  if len(groups) > 1:
    sums = ring.all_reduce(sums, leaders)
  by_rank: dict[int, tf.Tensor] = {}
  for group, total in zip(groups, sums, strict=True):
    on_group = reduce_to_one.broadcast(total, [devices[rank] for rank in group])
    by_rank.update(zip(group, on_group, strict=True))
  return [by_rank[rank] for rank in range(len(devices))]


def traffic(
  num_elements: int, itemsize: int, devices: Sequence[str]
) -> dict[tuple[str, str], int]:
  """Returns the bytes that devices send inside groups, and between leaders.

  Args:
    num_elements: The elements of one tensor.
    itemsize: The bytes of an element.
    devices: Canonical device names.

  Returns:
    A map from (source, destination) to bytes; pairs without bytes are left out.
  """
  groups = groups_of(devices)
  leaders = [devices[group[0]] for group in groups]
  sent = collections.Counter(ring.traffic(num_elements, itemsize, leaders))
  for group in groups:
    names = [devices[rank] for rank in group]
    sent.update(reduce_to_one.traffic(num_elements, itemsize, names))
  return dict(sent)
