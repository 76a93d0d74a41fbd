"""What goes over the wire: arrays by name, in a public message of TensorFlow.

A `NameAttrList` has a name, here that of a signature, and a map of values, here
tensors. Any program that has TensorFlow's protos can read and write it.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

SERVICE = "estimator_mp.Stage"
RUN = "Run"
DESCRIBE = "Describe"
# The messages are as large as what the model sends.
OPTIONS = (
  ("grpc.max_receive_message_length", -1),
  ("grpc.max_send_message_length", -1),
)


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
    message: What `encode` returned.

  Raises:
    ValueError: If it is something else.
  """
  decoded = tf.compat.v1.NameAttrList()
  try:
    decoded.ParseFromString(message)
    arrays = {
      key: tf.make_ndarray(value.tensor) for key, value in decoded.attr.items()
    }
  except Exception as error:  # Of protobuf, or of what is in a tensor.
    raise ValueError(f"the message has no tensors: {error}") from error
  return str(decoded.name), arrays


def one_line(error: object) -> str:
  """Returns the first words of an error, in one line.

  Args:
    error: It may have many lines.
  """
  text = " ".join(str(error).split())
  return text if len(text) <= 300 else f"{text[:297]}..."
