"""All-reduce: the sum of what several devices have, on each of them.

The algorithms are in config/algorithms.py, a row for each. Most are plain data
flow: TensorFlow itself sends their tensors, and no order of execution can make
them wait for ever. Those that are sent by an op of TensorFlow's need one order
for all devices of a graph: see plan/collective_order.py.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from estimator_mp import devices as devices_lib
from estimator_mp.config.algorithms import (
  ALGORITHMS,
  check_algorithm,
  choose_algorithm,
)
from estimator_mp.graph import placed_ops

import tensorflow as tf

DTYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


def all_reduce(
  tensors: Sequence[tf.Tensor],
  algorithm: str = "auto",
  devices: Sequence[str] | None = None,
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
    _check_known(algorithm, ("auto", *ALGORITHMS))
  shape = _common_shape(tensors)
  names = _check_devices(tensors, devices)
  dtype = tensors[0].dtype
  if algorithm == "auto":
    num_elements = shape.num_elements()
    num_bytes = None if num_elements is None else num_elements * dtype.size
    algorithm = choose_algorithm(num_bytes, names, dtype.name)
  check_algorithm(algorithm, names, dtype.name)
  with placed_ops.apart_from_caller("all_reduce"):
    own = [
      placed_ops.copy_to(tensor, device)
      for tensor, device in zip(tensors, names, strict=True)
    ]
    for tensor in own:
      tensor.set_shape(shape)
    if len(own) == 1:
      return own
    sums: list[tf.Tensor] = ALGORITHMS[algorithm].load().all_reduce(own, names)
    return sums


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

  Raises:
    ValueError: If the algorithm has no formula, or a device is none.
  """
  known = [name for name, row in ALGORITHMS.items() if not row.is_sent_by_op]
  if algorithm in ALGORITHMS and algorithm not in known:
    raise ValueError(
      f"algorithm {algorithm!r} sends inside of TensorFlow's ops, so there is "
      f"no formula for it; use one of {', '.join(known)}"
    )
  _check_known(algorithm, known)
  names = [devices_lib.canonical_device(device) for device in devices]
  formula = ALGORITHMS[algorithm].load().traffic
  return MappingProxyType(dict(formula(num_elements, itemsize, names)))


def _check_known(algorithm: str, known: Sequence[str]) -> None:
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
