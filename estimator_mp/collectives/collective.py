"""All-reduce by TensorFlow's collective op, `CollectiveReduceV2`.

Each device has one op. Ops with the same group key and instance key find each
other when they run, and TensorFlow sends chunks around in a ring of its own,
which is no send of the graph. Tested on TensorFlow 2.15.1 and 2.21.0, on CPU
devices:

- A plain session in one process needs no setting, and no ordering token.
- Devices of several tasks need a leader (`collective_session_config`) in the
  configuration of each server; in that of a session it has no effect.
- An op that a session leaves out makes the others wait, so each result needs
  all (`placed_ops.pass_together`).
- An instance key stands for one shape: a run with another one fails, and so
  does each run after it. So where the graph does not know the number of
  elements, the session makes the instance key of it.
- A tensor without elements ends the process (a segmentation fault), so such a
  tensor is not sent, or has one element more where the graph cannot know.
- A server keeps the keys of all graphs that it ran, so they are made of what
  has to be the same for all who use one: devices, dtype and elements.
"""

import weakref
import zlib
from collections.abc import Sequence

from estimator_mp import devices as devices_lib
from estimator_mp.graph import placed_ops

import tensorflow as tf

_MOST_KEYS = 2**31 - 1

# What each key of a graph stands for.
_keys: weakref.WeakKeyDictionary[tf.Graph, dict[int, str]] = (
  weakref.WeakKeyDictionary()
)


def collective_session_config(
  devices: Sequence[str], base: tf.compat.v1.ConfigProto | None = None
) -> tf.compat.v1.ConfigProto:
  """Returns a configuration under which devices can do collective ops.

  Devices of one process need nothing. Those of several tasks need a leader: the
  task of the first device. The configuration has to be that of each server
  (`tf.distribute.Server(..., config=...)`); a session's comes too late, and the
  ops then wait for each other until the session's timeout.

  Args:
    devices: The devices of the all-reduces.
    base: Settings to start from; not changed. None for TensorFlow's defaults.

  Returns:
    A new `ConfigProto`.

  Raises:
    ValueError: If a device is none, or `base` names another leader.
  """
  names = [devices_lib.canonical_device(device) for device in devices]
  proto = tf.compat.v1.ConfigProto()
  if base is not None:
    proto.CopyFrom(base)
  if len({devices_lib.host_of(name) for name in names}) < 2:
    return proto
  spec = tf.compat.v1.DeviceSpec.from_string(names[0])
  task = spec.replace(
    replica=spec.replica or 0, device_type=None, device_index=None
  )
  leader = task.to_string()
  given = proto.experimental.collective_group_leader
  if given not in ("", leader):
    raise ValueError(
      f"the configuration has collective_group_leader={given!r}, but the first "
      f"device is of {leader}; leave it out, or name that task's device first"
    )
  proto.experimental.collective_group_leader = leader
  return proto


def all_reduce(
  tensors: Sequence[tf.Tensor], devices: Sequence[str]
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each device.

  Args:
    tensors: One tensor on each device, of one shape and dtype.
    devices: Their canonical devices.

  Raises:
    ValueError: If devices are of several types.
  """
  kinds = {devices_lib.device_type(device): device for device in devices}
  if len(kinds) > 1:
    raise ValueError(
      "algorithm 'collective' needs devices of one type, but "
      f"{' and '.join(kinds.values())} differ; use algorithm='copy'"
    )
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


def _group_and_instance(
  tensor: tf.Tensor, devices: Sequence[str]
) -> tuple[int, int | tf.Tensor]:
  """Returns the keys of the graph's next collective.

  The number of elements is an instance key that differs from others only in a
  group of its own.
  """
  keys = _keys.setdefault(tensor.graph, {})
  group = f"{','.join(devices)} {tensor.dtype.name}"
  number = f"collective {len(keys)} of {group}"
  num_elements = tensor.shape.num_elements()
  if num_elements is not None:
    return _key(keys, group), _key(keys, f"{number} {num_elements}")
  with tf.compat.v1.device(devices[0]):
    # All devices get the first one's: should their shapes differ, TensorFlow
    # says so; with different keys they would wait for each other.
    return _key(keys, number), tf.size(tensor) + 1


def _key(keys: dict[int, str], meaning: str) -> int:
  """Returns a graph's key for a text: the same in each process."""
  key = zlib.crc32(meaning.encode()) % _MOST_KEYS
  while keys.setdefault(key, meaning) != meaning:
    key = (key + 1) % _MOST_KEYS
  return key
