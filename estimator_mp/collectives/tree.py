"""Tree all-reduce: few steps for a small tensor on many devices.

The devices form a binary tree, in which device i is below device (i - 1) // 2.
Sums go up, from the leaves to device 0, and the total comes down. That takes
2 log2(n) steps, and no device has more than three neighbours; but each link
between neighbours carries the whole tensor both ways.
"""

from collections.abc import Sequence

from estimator_mp.graph import placed_ops

import tensorflow as tf


def parent(rank: int) -> int:
  """Returns the device above a device, which is not device 0."""
  return (rank - 1) // 2


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices; the first is the root.
  """
  sums = list(tensors)
  for rank in reversed(range(1, len(devices))):
    above = parent(rank)
    sums[above] = placed_ops.add([sums[above], sums[rank]], devices[above])
  for rank in range(1, len(devices)):
    sums[rank] = placed_ops.copy_to(sums[parent(rank)], devices[rank])
  return sums


def traffic(
  num_elements: int, itemsize: int, devices: Sequence[str]
) -> dict[tuple[str, str], int]:
  """Returns the bytes that each device sends: a tensor up, and one down.

  Args:
    num_elements: The elements of one tensor.
    itemsize: The bytes of an element.
    devices: Canonical device names; the first is the root.

  Returns:
    A map from (source, destination) to bytes; pairs without bytes are left out.
  """
  num_bytes = num_elements * itemsize
  sent: dict[tuple[str, str], int] = {}
  if num_bytes:
    for rank, device in enumerate(devices[1:], 1):
      above = devices[parent(rank)]
      sent[device, above] = sent[above, device] = num_bytes
  return sent
