"""All-reduce by NVIDIA's NCCL, for the GPUs of one task.

TensorFlow's op `NcclAllReduce` is in its builds for CUDA. Each device has one
op, and ops of one name wait for each other inside TensorFlow; what they send
is no send of the graph.
"""

from collections.abc import Sequence

from estimator_mp import devices as devices_lib
from estimator_mp.graph import placed_ops

import tensorflow as tf

DTYPES = (tf.float16, tf.float32, tf.float64)


def check(dtype: tf.DType, devices: Sequence[str]) -> None:
  """Raises if NCCL cannot add tensors.

  Args:
    dtype: The dtype of the tensors.
    devices: Their canonical devices.

  Raises:
    ValueError: If a device is no GPU, devices are of several tasks, or
      TensorFlow's op does not take the dtype.
  """
  for device in devices:
    if devices_lib.device_type(device) != "GPU":
      raise ValueError(
        f"algorithm 'nccl' cannot run on {device}, which is no GPU; use "
        "algorithm='copy', or 'auto', which chooses by the devices"
      )
  tasks = sorted({devices_lib.host_of(device) for device in devices})
  if len(tasks) > 1:
    raise ValueError(
      "algorithm 'nccl' works inside one task, but the devices are of "
      f"{len(tasks)} tasks, with the hosts {', '.join(tasks)}; use "
      "algorithm='hierarchical'"
    )
  if dtype not in DTYPES:
    names = ", ".join(known.name for known in DTYPES)
    raise ValueError(
      f"algorithm 'nccl' has no {dtype.name}, only {names}; use "
      "algorithm='ring'"
    )


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices.

  Raises:
    ValueError: As `check` does.
  """
  check(tensors[0].dtype, devices)
  # The graph gives each all-reduce a name scope of its own.
  graph = tf.compat.v1.get_default_graph()
  shared_name = graph.get_name_scope()
  members = []
  for tensor, device in zip(tensors, devices, strict=True):
    with tf.compat.v1.device(device):
      members.append(
        tf.raw_ops.NcclAllReduce(
          input=tensor,
          reduction="sum",
          num_devices=len(devices),
          shared_name=shared_name,
          name="member",
        )
      )
  return placed_ops.pass_together(members, devices)
