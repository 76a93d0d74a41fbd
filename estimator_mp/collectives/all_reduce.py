"""All-reduce: the sum of tensors on several devices, on each of them.

The algorithms are in config/algorithms.py, a row for each. Most are plain data
flow: TensorFlow itself sends their tensors, and no order of execution can make
them wait for ever. Those that are sent by an op of TensorFlow's need one order
for all devices of a graph: see planning/collective_order.py.
"""

from collections.abc import Mapping, Sequence

from estimator_mp import devices as devices_lib
from estimator_mp.config.algorithms import ALGORITHMS, check_algorithm
from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import placed_ops

import tensorflow as tf

DTYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


def all_reduce(
  tensors: Sequence[tf.Tensor], algorithm: str, devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each of their devices.

  The results are the same bit for bit, and the same in each run. They are not
  the same for all algorithms, which add in different orders.

  The ops are placed by full device names, and inherit nothing from the blocks
  that the caller is in. They cannot be made inside a loop of TensorFlow 1.

  Args:
    tensors: n tensors of one shape, known or not, and one dtype: float16,
      bfloat16, float32 or float64. The sum is made in that dtype.
    algorithm: One of `ALGORITHMS`.
    devices: n different devices; a tensor that is elsewhere is sent there
      first.

  Returns:
    n tensors of the same shape and dtype, one on each device.

  Raises:
    ValueError: If the tensors cannot be added, or the algorithm does not fit
      the devices.
  """
  shape = gradient_lib.common_shape(0, tensors)
  dtype = tensors[0].dtype
  if dtype not in DTYPES:
    raise ValueError(
      f"{tensors[0].name} has the dtype {dtype.name}; all_reduce adds "
      + ", ".join(x.name for x in DTYPES)
      + ", so cast it"
    )
  names = [devices_lib.canonical_device(device) for device in devices]
  check_algorithm(algorithm, names, dtype.name)
  with placed_ops.apart_from_caller("all_reduce"):
    copies = [
      placed_ops.copy_to(tensor, device)
      for tensor, device in zip(tensors, names, strict=True)
    ]
    for tensor in copies:
      tensor.set_shape(shape)
    if len(copies) == 1:
      return copies
    return list(ALGORITHMS[algorithm].load().all_reduce(copies, names))


def traffic(
  algorithm: str, num_elements: int, itemsize: int, devices: Sequence[str]
) -> Mapping[tuple[str, str], int]:
  """Returns the bytes that each device sends to each other in one all-reduce.

  Args:
    algorithm: One of `ALGORITHMS` that is not sent by TensorFlow's own op.
    num_elements: The elements of one tensor.
    itemsize: The bytes of an element.
    devices: The devices, in the order of the tensors.

  Returns:
    A map from (source, destination), in canonical names, to bytes. Pairs that
    send nothing are left out.
  """
  names = [devices_lib.canonical_device(device) for device in devices]
  traffic_of = ALGORITHMS[algorithm].load().traffic
  return dict(traffic_of(num_elements, itemsize, names))
