"""All-reduce by NVIDIA's NCCL, for the GPUs of one task.

TensorFlow's op `NcclAllReduce` is in its builds for CUDA. Each device has one
op, and ops of one name wait for each other inside TensorFlow; their messages
are no sends of the graph.
"""

from collections.abc import Sequence

from estimator_mp.graph import placed_ops

import tensorflow as tf


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices.
  """
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
