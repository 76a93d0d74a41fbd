"""Ring all-reduce: every link carries the same, and as little as is possible.

A tensor is cut into as many chunks as there are devices, and the devices are
arranged in a ring. Each chunk makes the round twice. First it is summed
(reduce-scatter): chunk c starts on device c, each device adds its own, and
device c - 1 has the sum in the end. Then the sum goes around (all-gather). All
chunks move at the same time:

    4 devices     chunk 0           chunk 1           chunk 2 ...
    sum           0 > 1 > 2 > 3     1 > 2 > 3 > 0     2 > 3 > 0 > 1
    copy          3 > 0 > 1 > 2     0 > 1 > 2 > 3     1 > 2 > 3 > 0

Each link so carries 2 (n - 1) of the n chunks of a tensor, which no
all-reduce can better: Patarasuk and Yuan, "Bandwidth optimal all-reduce
algorithms for clusters of workstations", 2009 (doi:10.1016/j.jpdc.2008.09.002).
It takes 2 (n - 1) steps, which is many for a small tensor.
"""

import collections
from collections.abc import Sequence

from estimator_mp.graph import placed_ops

import tensorflow as tf


def chunk_sizes(num_elements: int, num_devices: int) -> list[int]:
  """Returns the elements of each chunk, which differ by at most 1.

  There are as many chunks as devices, or as elements, if these are fewer.

  Args:
    num_elements: The elements of a tensor, at least 0.
    num_devices: The devices of the ring.
  """
  count = max(min(num_elements, num_devices), 1)
  return [(num_elements + count - 1 - chunk) // count for chunk in range(count)]


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices, in the order of the ring.
  """
  count = len(devices)
  parts = [
    _chunks(tensor, count, device)
    for tensor, device in zip(tensors, devices, strict=True)
  ]
  sums: list[list[tf.Tensor]] = [[] for _ in devices]
  for chunk in range(len(parts[0])):
    total = parts[chunk][chunk]
    for step in range(1, count):
      rank = (chunk + step) % count
      total = placed_ops.add([total, parts[rank][chunk]], devices[rank])
    sums[(chunk - 1) % count].append(total)
    for step in range(count - 1):
      rank = (chunk + step) % count
      total = placed_ops.copy_to(total, devices[rank])
      sums[rank].append(total)
  results = []
  for chunks, tensor, device in zip(sums, tensors, devices, strict=True):
    with tf.compat.v1.device(device):
      flat = tf.concat(chunks, axis=0)
    results.append(placed_ops.reshape_like(flat, tensor, device))
  return results


def _chunks(
  tensor: tf.Tensor, num_devices: int, device: str
) -> list[tf.Tensor]:
  """Returns the chunks of a tensor."""
  flat = placed_ops.flatten(tensor, device)
  num_elements = tensor.shape.num_elements()
  with tf.compat.v1.device(device):
    if num_elements is not None:
      return list(tf.split(flat, chunk_sizes(num_elements, num_devices)))
    # As `chunk_sizes` has it; some chunks may be empty.
    more = list(range(num_devices - 1, -1, -1))
    sizes = (tf.size(flat) + tf.constant(more)) // num_devices
    return list(tf.split(flat, sizes, num=num_devices))


def traffic(
  num_elements: int, itemsize: int, devices: Sequence[str]
) -> dict[tuple[str, str], int]:
  """Returns the bytes that each device sends to the next one.

  If the number of devices n divides the elements, that is 2 (n - 1) / n of the
  tensor. Otherwise a link may carry up to 2 elements more or less than that.

  Args:
    num_elements: The elements of one tensor.
    itemsize: The bytes of an element.
    devices: Canonical device names, in the order of the ring.

  Returns:
    A map from (source, destination) to bytes; pairs without bytes are left out.
  """
  count = len(devices)
  sent: collections.Counter[tuple[str, str]] = collections.Counter()
  for chunk, size in enumerate(chunk_sizes(num_elements, count)):
    for start in (chunk, chunk - 1):
      for rank in range(start, start + count - 1):
        link = devices[rank % count], devices[(rank + 1) % count]
        sent[link] += size * itemsize
  return {link: num_bytes for link, num_bytes in sent.items() if num_bytes}
