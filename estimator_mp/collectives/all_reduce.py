"""All-reduce: the sum of what several devices have, on each of them.

| algorithm | a tensor of b bytes on n devices |
| --- | --- |
| copy | one device adds all, and sends the sum to all; 2 steps |
| ring | each link carries 2 b (n - 1) / n; 2 (n - 1) steps |
| tree | sums go up a binary tree, the total comes down; 2 log2(n) steps |
| hierarchical | each task adds, a device of each goes on in a ring |
| collective | TensorFlow's own ring, `CollectiveReduceV2` |
| nccl | NVIDIA's, for the GPUs of one task, `NcclAllReduce` |

The first four are plain data flow, so TensorFlow itself sends their tensors,
and no order of execution can make them wait for ever. The collectives of a
graph need one: see collective_order.py.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from estimator_mp import devices as devices_lib
from estimator_mp.collectives import (
  collective,
  hierarchical,
  nccl,
  reduce_to_one,
  ring,
  tree,
)
from estimator_mp.config.sharding_options import ALGORITHMS
from estimator_mp.graph import placed_ops

import tensorflow as tf

DTYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)

# Up to here a tensor's way costs more time than its bytes: some 100
# microseconds per message between tasks, at 10 gigabits a second.
SMALL_BYTES = 128 * 1024

# The devices up to which one of them can serve all others one by one.
_FEW_DEVICES = 4

_Reduce: TypeAlias = Callable[
  [Sequence[tf.Tensor], Sequence[str]], list[tf.Tensor]
]
_Traffic: TypeAlias = Callable[
  [int, int, Sequence[str]], Mapping[tuple[str, str], int]
]

_REDUCE: Mapping[str, _Reduce] = MappingProxyType(
  {
    "copy": reduce_to_one.all_reduce,
    "ring": ring.all_reduce,
    "tree": tree.all_reduce,
    "hierarchical": hierarchical.all_reduce,
    "collective": collective.all_reduce,
    "nccl": nccl.all_reduce,
  }
)

_TRAFFIC: Mapping[str, _Traffic] = MappingProxyType(
  {
    "copy": reduce_to_one.traffic,
    "ring": ring.traffic,
    "tree": tree.traffic,
    "hierarchical": hierarchical.traffic,
  }
)


def all_reduce(
  tensors: Sequence[tf.Tensor],
  algorithm: str = "auto",
  devices: Sequence[str] | None = None,
  name: str = "all_reduce",
) -> list[tf.Tensor]:
  """Returns the sum of tensors on each of their devices.

  The results are the same bit for bit, and the same in each run. They are not
  the same for all algorithms, which add in different orders.

  The ops are placed by full device names, and inherit nothing from the blocks
  that the caller is in. They cannot be made inside a loop of TensorFlow 1.

  Args:
    tensors: n tensors of one shape, known or not, and one dtype: float16,
      bfloat16, float32 or float64. The sum is made in that dtype.
    algorithm: One of `ALGORITHMS`, or "auto" for what `choose_algorithm` says.
    devices: n different devices; a tensor that is elsewhere is sent there
      first. None for the devices of the tensors.
    name: A name for the ops.

  Returns:
    n tensors of the same shape and dtype, one on each device.

  Raises:
    ValueError: If the tensors cannot be added, a device is missing or given
      twice, or the algorithm is unknown or does not fit the devices.
    RuntimeError: If TensorFlow executes eagerly.
  """
  if tf.executing_eagerly():
    raise RuntimeError(
      "an all-reduce is made of ops of a graph, but TensorFlow is executing "
      "eagerly; call this inside a model_fn or under tf.Graph().as_default()"
    )
  if algorithm != "auto":
    _check_algorithm(algorithm, ("auto", *ALGORITHMS))
  shape = _common_shape(tensors)
  names = _check_devices(tensors, devices)
  dtype = tensors[0].dtype
  if algorithm == "auto":
    num_elements = shape.num_elements()
    num_bytes = None if num_elements is None else num_elements * dtype.size
    algorithm = choose_algorithm(num_bytes, names)
    if algorithm == "nccl" and dtype not in nccl.DTYPES:
      algorithm = "ring"
  if algorithm == "nccl":
    nccl.check(dtype, names)
  with placed_ops.apart_from_caller(name):
    own = [
      placed_ops.copy_to(tensor, device)
      for tensor, device in zip(tensors, names, strict=True)
    ]
    for tensor in own:
      tensor.set_shape(shape)
    return own if len(own) == 1 else _REDUCE[algorithm](own, names)


def choose_algorithm(num_bytes: int | None, devices: Sequence[str]) -> str:
  """Returns the algorithm that "auto" stands for.

  - In one task with CPUs there are no links: all devices share one memory, and
    sending is free. `copy` has the fewest ops, and neither cuts nor joins
    tensors: with 4 CPU devices on 2 cores and 4 megabytes of float32 it took
    0.5 ms, `tree` 0.9, `hierarchical` 1.5, `ring` 1.8, `collective` 3.4.
  - GPUs of one task have links, which NCCL knows: `nccl`. For a small tensor
    it costs more to start than is saved: `copy`.
  - Between tasks a small tensor costs time per step, not per byte, so the
    algorithm with the fewest steps wins: `copy`, or `tree` if there are so many
    devices that one cannot serve all.
  - Between tasks a large tensor costs time per byte on the busiest link: `ring`
    for one device per task. If tasks have several, `hierarchical` sends no
    more between them, in fewer steps, and whatever the order of devices.

  On real links nobody measured: `SMALL_BYTES` says what the limit assumes.

  Args:
    num_bytes: The bytes of one tensor; None, if the graph does not know, counts
      as large, as a large tensor loses more by the wrong choice.
    devices: The devices, with type and index.

  Returns:
    One of `ALGORITHMS`.
  """
  names = [devices_lib.canonical_device(device) for device in devices]
  tasks = {devices_lib.host_of(name) for name in names}
  is_small = num_bytes is not None and num_bytes < SMALL_BYTES
  if len(tasks) == 1:
    only_gpus = {devices_lib.device_type(name) for name in names} == {"GPU"}
    is_worth_it = only_gpus and len(names) > 1 and not is_small
    return "nccl" if is_worth_it else "copy"
  if is_small:
    return "copy" if len(names) <= _FEW_DEVICES else "tree"
  return "ring" if len(tasks) == len(names) else "hierarchical"


def traffic(
  algorithm: str, num_elements: int, itemsize: int, devices: Sequence[str]
) -> Mapping[tuple[str, str], int]:
  """Returns the bytes that each device sends to each other in one all-reduce.

  Args:
    algorithm: "copy", "ring", "tree" or "hierarchical". What `collective` and
      `nccl` send, they send inside of TensorFlow's ops.
    num_elements: The elements of one tensor.
    itemsize: The bytes of an element.
    devices: The devices, in the order of the tensors.

  Returns:
    A map from (source, destination), in canonical names, to bytes. Pairs that
    send nothing are left out.

  Raises:
    ValueError: If the algorithm has no formula, or a device is none.
  """
  if algorithm in ("collective", "nccl"):
    raise ValueError(
      f"algorithm {algorithm!r} sends inside of TensorFlow's ops, so there is "
      f"no formula for it; use one of {', '.join(_TRAFFIC)}"
    )
  _check_algorithm(algorithm, tuple(_TRAFFIC))
  names = [devices_lib.canonical_device(device) for device in devices]
  return MappingProxyType(
    dict(_TRAFFIC[algorithm](num_elements, itemsize, names))
  )


def _check_algorithm(algorithm: str, known: Sequence[str]) -> None:
  """Raises if an algorithm is unknown."""
  if algorithm not in known:
    raise ValueError(
      f"algorithm={algorithm!r} is unknown; use one of {', '.join(known)}"
    )


def _common_shape(tensors: Sequence[tf.Tensor]) -> tf.TensorShape:
  """Returns what is known of the shape of all tensors, if they can be added."""
  if not tensors:
    raise ValueError("all_reduce got no tensor; pass one per device")
  for index, tensor in enumerate(tensors):
    if not isinstance(tensor, tf.Tensor):
      raise ValueError(
        f"tensor {index} is of type {type(tensor).__name__}; all_reduce adds "
        "dense tensors, so pass a tf.Tensor, such as the values of "
        "IndexedSlices whose indices are the same on all devices"
      )
  first = tensors[0]
  if first.dtype not in DTYPES:
    raise ValueError(
      f"{first.name} has the dtype {first.dtype.name}; all_reduce adds "
      + ", ".join(dtype.name for dtype in DTYPES)
      + ", so cast it"
    )
  shape = first.shape
  for index, tensor in enumerate(tensors):
    if tensor.dtype != first.dtype:
      raise ValueError(
        f"tensors 0 and {index} have the dtypes {first.dtype.name} and "
        f"{tensor.dtype.name}; all need one dtype"
      )
    if not shape.is_compatible_with(tensor.shape):
      raise ValueError(
        f"tensor {index} has the shape {tensor.shape}, but those before it "
        f"have {shape}; all need one shape"
      )
    shape = shape.merge_with(tensor.shape)
  return shape


def _check_devices(
  tensors: Sequence[tf.Tensor], devices: Sequence[str] | None
) -> list[str]:
  """Returns the canonical devices of an all-reduce."""
  if devices is None:
    devices = [tensor.device for tensor in tensors]
    for tensor, device in zip(tensors, devices, strict=True):
      if not device:
        raise ValueError(
          f"{tensor.name} has no device; make it under tf.device, or give "
          "all_reduce the devices"
        )
  if len(devices) != len(tensors):
    raise ValueError(
      f"all_reduce got {len(tensors)} tensors and {len(devices)} devices; give "
      "one device per tensor"
    )
  names = [devices_lib.canonical_device(device) for device in devices]
  for index, name in enumerate(names):
    if name in names[:index]:
      raise ValueError(
        f"device {name} is given twice, for tensors {names.index(name)} and "
        f"{index}; add the tensors of one device first"
      )
  return names
