"""Sizes of tensors, where a graph knows only part of a shape."""

import tensorflow as tf

# What an unknown dimension, nearly always the batch, is taken for. Sizes are
# compared with each other, so the number itself hardly matters.
NOMINAL_BATCH = 32


def tensor_bytes(tensor: tf.Tensor) -> int:
  """Returns the bytes of a tensor, its unknown dimensions taken as nominal.

  Args:
    tensor: A tensor of a graph.

  Returns:
    The bytes; of strings, resources and tensors of unknown rank the bytes of
    one scalar of 8 bytes.
  """
  return max(num_elements(tensor.shape), 1) * (tensor.dtype.size or 8)


def num_elements(shape: tf.TensorShape) -> int:
  """Returns the elements of a shape, unknown dimensions taken as nominal."""
  if shape.rank is None:
    return 1
  product = 1
  for dimension in shape.as_list():
    product *= NOMINAL_BATCH if dimension is None else dimension
  return product


def variable_bytes(variable: tf.Operation) -> int:
  """Returns the bytes of a variable's value.

  Args:
    variable: The op of a variable: a resource handle, or a v1 reference.
  """
  shape = tf.TensorShape(variable.get_attr("shape"))
  dtype = tf.dtypes.as_dtype(variable.get_attr("dtype"))
  return num_elements(shape) * int(dtype.size)
