"""All-reduce by TensorFlow's collective op, `CollectiveReduceV2`.

Each device has one op. Ops with the same group key and instance key find each
other when they run, and TensorFlow sends chunks around in a ring of its own,
which is no send of the graph. Tested on TensorFlow 2.15.1 and 2.21.0, on CPU
devices:

- A plain session in one process needs no setting, and no ordering token.
- Devices of several tasks need a leader, the task of the first device, as
  `experimental.collective_group_leader` in the configuration of each server;
  in that of a session it has no effect.
- An op that a session leaves out makes the others wait, so each result needs
  all (`placed_ops.pass_together`).
- An instance key stands for one shape: a run with another one fails, and so
  does each run after it. So where the graph does not know the number of
  elements, the session makes the instance key of it.
- A tensor without elements ends the process (a segmentation fault), so such a
  tensor is not sent, or has one element more where the graph cannot know.
- A server keeps the keys of all graphs that it ran, so they are made of facts
  that have to be the same for all who use one: devices, dtype and elements.
"""

import zlib
from collections.abc import Collection, Sequence

from estimator_mp.graph import placed_ops

import tensorflow as tf

_OP_TYPE = "CollectiveReduceV2"

_MOST_KEYS = 2**31 - 1


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices, of one type.
  """
  num_elements = tensors[0].shape.num_elements()
  if num_elements == 0:
    return list(tensors)
  group_key, instance_key = _group_and_instance(tensors[0], devices)
  sums = []
  for tensor, device in zip(tensors, devices, strict=True):
    flat = placed_ops.flatten(tensor, device)
    with tf.compat.v1.device(device):
      if num_elements is None:
        flat = tf.concat([flat, tf.zeros([1], flat.dtype)], axis=0)
      total = tf.raw_ops.CollectiveReduceV2(
        input=flat,
        group_size=tf.constant(len(devices), name="group_size"),
        group_key=tf.constant(group_key, name="group_key"),
        instance_key=tf.identity(instance_key, name="instance_key"),
        ordering_token=[],
        merge_op="Add",
        final_op="Id",
        name="member",
      )
    sums.append(total)
  results = []
  for total, tensor, device in zip(
    placed_ops.pass_together(sums, devices), tensors, devices, strict=True
  ):
    if num_elements is None:
      with tf.compat.v1.device(device):
        total = total[:-1]
    results.append(placed_ops.reshape_like(total, tensor, device))
  return results


def keys_of(op: tf.Operation) -> tuple[int, int | None]:
  """Returns the group key and the instance key of an op of a collective.

  Args:
    op: A `CollectiveReduceV2`.

  Returns:
    The keys; None for an instance key that only the session knows, which is in
    a group of its own.

  Raises:
    ValueError: If only the session knows the group key.
  """
  _, _, group_key, instance_key = list(op.inputs)[:4]
  group = tf.get_static_value(_source(group_key))
  if group is None:
    raise ValueError(
      f"{op.name} gets its group key from {group_key.name} only when the "
      "session runs, so its group is not known before; order it by "
      "order_collectives([...]), with the ops of each collective"
    )
  instance = tf.get_static_value(_source(instance_key))
  return int(group), None if instance is None else int(instance)


def _source(tensor: tf.Tensor) -> tf.Tensor:
  """Returns the tensor that identities pass on."""
  while tensor.op.type == "Identity":
    tensor = tensor.op.inputs[0]
  return tensor


def _group_and_instance(
  tensor: tf.Tensor, devices: Sequence[str]
) -> tuple[int, int | tf.Tensor]:
  """Returns the keys of the graph's next collective.

  The number of elements is an instance key that differs from others only in a
  group of its own.
  """
  members: dict[tuple[int, int | None], list[tf.Operation]] = {}
  for op in tensor.graph.get_operations():
    if op.type == _OP_TYPE:
      members.setdefault(keys_of(op), []).append(op)
  taken = {key for keys in members for key in keys if key is not None}
  meaning = f"{','.join(devices)} {tensor.dtype.name}"
  number = f"collective {len(taken)} of {meaning}"
  num_elements = tensor.shape.num_elements()
  if num_elements is None:
    with tf.compat.v1.device(devices[0]):
      # All devices get the first one's: should their shapes differ, TensorFlow
      # says so; with different keys they would wait for each other.
      return _new_key(taken, number), tf.size(tensor) + 1
  groups = {
    (*(op.device for op in ops), ops[0].outputs[0].dtype): group
    for (group, instance), ops in members.items()
    if instance is not None
  }
  group = groups.get((*devices, tensor.dtype))
  if group is None:
    group = _new_key(taken, meaning)
  return group, _new_key(taken | {group}, f"{number} {num_elements}")


def _new_key(taken: Collection[int], meaning: str) -> int:
  """Returns a key that is not taken: for a text the same in each process."""
  key = zlib.crc32(meaning.encode()) % _MOST_KEYS
  while key in taken:
    key = (key + 1) % _MOST_KEYS
  return key
