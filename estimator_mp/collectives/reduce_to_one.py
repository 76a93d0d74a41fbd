"""All-reduce through one device: it adds all tensors and sends the sum out.

The fewest ops and two steps, whatever the number of devices. But everything
goes through the links of one device: (n - 1) tensors in, and as many out.
"""

from collections.abc import Sequence

from estimator_mp.graph import placed_ops

import tensorflow as tf


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device, added in their order.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices; the first one adds.
  """
  return broadcast(placed_ops.add(tensors, devices[0]), devices)


def broadcast(tensor: tf.Tensor, devices: Sequence[str]) -> list[tf.Tensor]:
  """Returns a tensor on each device.

  Args:
    tensor: A tensor on the first device.
    devices: The devices.
  """
  return [
    tensor,
    *(placed_ops.copy_to(tensor, device) for device in devices[1:]),
  ]


def traffic(
  num_elements: int, itemsize: int, devices: Sequence[str]
) -> dict[tuple[str, str], int]:
  """Returns the bytes that each device sends: the tensor to and from the first.

  Args:
    num_elements: The elements of one tensor.
    itemsize: The bytes of an element.
    devices: Canonical device names.

  Returns:
    A map from (source, destination) to bytes; pairs without bytes are left out.
  """
  num_bytes = num_elements * itemsize
  sent: dict[tuple[str, str], int] = {}
  if num_bytes:
    for device in devices[1:]:
      sent[device, devices[0]] = sent[devices[0], device] = num_bytes
  return sent
