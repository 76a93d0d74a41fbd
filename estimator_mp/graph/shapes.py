"""Shapes: sizes of tensors, and numbers that a graph makes of shapes alone.

A graph knows only part of a shape: the batch is mostly open. Known sizes end
up in losses, divided by the number of their elements, in the orders of
transposes and in reshapes; `tf.get_static_value` stops at the first sum.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

# The assumed size of an unknown dimension, nearly always the batch. Sizes are
# compared with each other, so the number itself hardly matters.
NOMINAL_BATCH = 32
_MOST_ELEMENTS = 1 << 20

# By op type: from the values of inputs to that of the first output.
_VALUES: dict[str, Callable[..., Any]] = {
  "Add": np.add,
  "AddV2": np.add,
  "ConcatV2": lambda *read: np.concatenate(read[:-1], int(read[-1])),
  "DivNoNan": lambda x, y: np.divide(x, y) if np.all(y) else np.zeros_like(x),
  "Equal": np.equal,
  "ExpandDims": lambda x, axis: np.expand_dims(x, int(axis)),
  "FloorDiv": np.floor_divide,
  "FloorMod": np.mod,
  "Greater": np.greater,
  "Identity": np.asarray,
  "InvertPermutation": np.argsort,
  "ListDiff": lambda some, others: some[~np.isin(some, others)],
  "Maximum": np.maximum,
  "Minimum": np.minimum,
  "Mul": np.multiply,
  "NotEqual": np.not_equal,
  "OnesLike": np.ones_like,
  "Range": np.arange,
  "RealDiv": np.divide,
  "Reshape": np.reshape,
  "Select": np.where,
  "SelectV2": np.where,
  "Sub": np.subtract,
  "ZerosLike": np.zeros_like,
}
# Of an op and the values of its inputs.
_VALUES_BY_ATTRIBUTES: dict[str, Callable[..., Any]] = {
  "Cast": lambda op, x: np.asarray(x).astype(
    op.outputs[0].dtype.as_numpy_dtype
  ),
  "Fill": lambda op, shape, x: np.full(shape, x),
  "GatherV2": lambda op, x, ids, axis: (
    None if op.get_attr("batch_dims") else np.take(x, ids, int(axis))
  ),
  "Pack": lambda op, *read: np.stack(read, op.get_attr("axis")),
  "Prod": lambda op, x, over: np.prod(x, **_reduced(op, over)),
  "StridedSlice": lambda op, *read: _entry(op, *read),
  "Sum": lambda op, x, over: np.sum(x, **_reduced(op, over)),
}


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


def constant(tensor: tf.Tensor) -> Any:
  """Returns the value of a tensor that constants and known shapes make.

  Args:
    tensor: A tensor of a graph.

  Returns:
    Its value as an array; None if something else makes it, or it is large.
  """
  size = tensor.shape.num_elements()
  if size is not None and size > _MOST_ELEMENTS:
    return None
  value = tf.get_static_value(tensor)
  op = tensor.op
  is_known = op.type in _VALUES or op.type in _VALUES_BY_ATTRIBUTES
  if value is not None or tensor.value_index or not is_known:
    return value
  read = [constant(x) for x in op.inputs]
  if op.type == "StridedSlice" and op.inputs[0].op.type == "Shape":
    # Of a shape that is known in part the entry may be known.
    read[0] = _entries(op.inputs[0].op.inputs[0].shape)
  if any(x is None for x in read):
    return None
  if op.type in _VALUES:
    return _VALUES[op.type](*read)
  return _VALUES_BY_ATTRIBUTES[op.type](op, *read)


def _entries(shape: tf.TensorShape) -> np.ndarray | None:
  """Returns the dimensions of a shape of known rank; None for unknown ones."""
  return None if shape.rank is None else np.array(shape.as_list(), object)


def _reduced(op: tf.Operation, over: np.ndarray) -> dict[str, Any]:
  axes = tuple(np.atleast_1d(over).tolist())
  return {"axis": axes, "keepdims": op.get_attr("keep_dims")}


def _entry(
  op: tf.Operation,
  vector: np.ndarray,
  begin: np.ndarray,
  end: np.ndarray,
  stride: np.ndarray,
) -> np.ndarray | None:
  """Returns an entry, or a range of entries, of a vector."""
  if np.ndim(vector) != 1 or len(begin) != 1 or stride[0] != 1:
    return None
  if op.get_attr("shrink_axis_mask"):
    entry = vector[begin[0]]
  else:
    first = None if op.get_attr("begin_mask") else begin[0]
    last = None if op.get_attr("end_mask") else end[0]
    entry = vector[first:last]
  if None in np.atleast_1d(entry):
    return None
  return np.asarray(entry, op.outputs[0].dtype.as_numpy_dtype)
