"""The wire format: arrays by name, in a public message of TensorFlow.

A `NameAttrList` has a name, here that of a signature, and a map of values, here
tensors. Any program that has TensorFlow's protos can read and write it.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

SERVICE = "estimator_mp.Stage"
RUN = "Run"
DESCRIBE = "Describe"

# How much more than the bytes of a message its tensors may take, and how much
# more a message than its tensors.
_MOST_MORE_BYTES = 64 * 1024 * 1024
_POINTER_BYTES = 8
# No protobuf message is longer.
_LONGEST_BYTES = 2**31 - 1


def channel_options(received: int = _LONGEST_BYTES) -> list[tuple[str, int]]:
  """Returns gRPC's options for messages as large as the model's.

  Args:
    received: The bytes of the longest message that is taken.
  """
  return [
    ("grpc.max_receive_message_length", received),
    ("grpc.max_send_message_length", _LONGEST_BYTES),
  ]


def longest_request(signatures: Iterable[Any]) -> int:
  """Returns the bytes of the longest request that signatures allow.

  Args:
    signatures: SignatureDefs. If one takes a dimension that is not known, or
      texts, it is as long as a message can be.
  """
  return max(map(_longest_of, signatures), default=_LONGEST_BYTES)


def _longest_of(signature: Any) -> int:
  """Returns the bytes of the longest request that a signature allows."""
  total = _MOST_MORE_BYTES
  for info in signature.inputs.values():
    shape = tf.TensorShape(info.tensor_shape)
    size = tf.dtypes.as_dtype(info.dtype).size
    if not size or not shape.is_fully_defined():
      return _LONGEST_BYTES
    total += size * shape.num_elements()
  return min(total, _LONGEST_BYTES)


def encode(name: str, arrays: Mapping[str, Any]) -> bytes:
  """Returns a message.

  Args:
    name: The name of a signature.
    arrays: Arrays by name; of texts they have bytes.

  Raises:
    ValueError: If an array has more than 2 GB.
  """
  message = tf.compat.v1.NameAttrList(name=name)
  for key, array in arrays.items():
    message.attr[key].tensor.CopyFrom(tf.make_tensor_proto(array))
  return bytes(message.SerializeToString())


def decode(message: bytes) -> tuple[str, dict[str, Any]]:
  """Returns the name and the arrays of a message.

  Args:
    message: The result of `encode`.

  Raises:
    ValueError: If it is something else, or has far more bytes once it is
      expanded than it is long.
  """
  decoded = tf.compat.v1.NameAttrList()
  try:
    decoded.ParseFromString(message)
    tensors = {key: value.tensor for key, value in decoded.attr.items()}
    sizes = {key: _expanded_bytes(key, x) for key, x in tensors.items()}
    _check_sizes(sizes, len(message) + _MOST_MORE_BYTES)
    arrays = {key: tf.make_ndarray(x) for key, x in tensors.items()}
  except Exception as error:  # Of protobuf, or of a tensor's contents.
    raise ValueError(f"the message has no tensors: {error}") from error
  return str(decoded.name), arrays


def _expanded_bytes(name: str, tensor: Any) -> int:
  """Returns how many bytes a tensor of a message takes as an array.

  Where all elements are equal the message has one of them, so that the shape
  alone says how large it is.

  Args:
    name: Its name.
    tensor: The TensorProto.

  Raises:
    ValueError: If it has no shape.
  """
  shape = [x.size for x in tensor.tensor_shape.dim]
  if tensor.tensor_shape.unknown_rank or any(x < 0 for x in shape):
    raise ValueError(f"{name!r} has no shape")
  # Of texts an array has pointers.
  size: int = tf.dtypes.as_dtype(tensor.dtype).size or _POINTER_BYTES
  return size * int(math.prod(shape))


def _check_sizes(sizes: Mapping[str, int], most: int) -> None:
  """Raises if tensors would take more bytes than they may."""
  total = sum(sizes.values())
  if total > most:
    largest = max(sizes, key=lambda name: sizes[name])
    raise ValueError(
      f"they would take {total:,} bytes, most of them {largest!r}, and may "
      f"take {most:,}, which are {_MOST_MORE_BYTES:,} more than the message "
      "has; send all elements, or a smaller request"
    )


def one_line(error: object) -> str:
  """Returns the first words of an error, in one line.

  Args:
    error: It may have many lines.
  """
  text = " ".join(str(error).split())
  return text if len(text) <= 300 else f"{text[:297]}..."
