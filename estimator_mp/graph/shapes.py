"""Shapes: sizes of tensors, and numbers that a graph makes of shapes alone.

A graph knows only part of a shape: the batch is mostly open. And a loss is
divided by the number of its elements, which Keras takes from a shape, and
tf.losses counts in a tensor of ones; `tf.get_static_value` stops at sums.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

# What an unknown dimension, nearly always the batch, is taken for. Sizes are
# compared with each other, so the number itself hardly matters.
NOMINAL_BATCH = 32
_MOST_ELEMENTS = 1 << 20

ShapeOf = Callable[[tf.Tensor], Sequence[int | None] | None]

# By op type: from the values of inputs to that of the output.
_EVALUATED: dict[str, Callable[..., np.ndarray]] = {
  "Add": np.add,
  "AddV2": np.add,
  "DivNoNan": lambda x, y: np.divide(x, y) if np.all(y) else np.zeros_like(x),
  "Equal": np.equal,
  "ExpandDims": lambda x, axis: np.expand_dims(x, int(axis)),
  "Fill": lambda shape, value: np.full(shape, value),
  "FloorDiv": np.floor_divide,
  "Greater": np.greater,
  "Identity": np.asarray,
  "Maximum": np.maximum,
  "Minimum": np.minimum,
  "Mul": np.multiply,
  "NotEqual": np.not_equal,
  "OnesLike": np.ones_like,
  "RealDiv": np.divide,
  "Select": np.where,
  "SelectV2": np.where,
  "Sub": np.subtract,
  "ZerosLike": np.zeros_like,
}
_REDUCTIONS: dict[str, Callable[..., np.ndarray]] = {
  "Prod": np.prod,
  "Sum": np.sum,
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


def evaluate(tensor: tf.Tensor, shape_of: ShapeOf) -> np.ndarray | None:
  """Returns the value of a tensor that only shapes and constants make.

  Args:
    tensor: A tensor of a graph.
    shape_of: Returns the shape of a tensor, or None if it is not known.

  Returns:
    Its value, or None if something else makes it, or it is large.
  """
  op = tensor.op
  if op.type == "Const":
    return tf.get_static_value(tensor)
  if op.type in ("Shape", "Size"):
    shape = shape_of(op.inputs[0])
    if shape is None or None in shape:
      return None
    return np.array(shape) if op.type == "Shape" else np.prod(shape)
  if op.type == "Rank":
    shape = shape_of(op.inputs[0])
    return None if shape is None else np.array(len(shape))
  if op.type not in (*_EVALUATED, *_REDUCTIONS, "Cast", "Pack", "StridedSlice"):
    return None
  values = [evaluate(x, shape_of) for x in op.inputs]
  known = [value for value in values if value is not None]
  if len(known) < len(values):
    return None
  if op.type == "Fill" and np.prod(known[0], dtype=float) > _MOST_ELEMENTS:
    return None
  if op.type == "Cast":
    return np.asarray(known[0]).astype(tensor.dtype.as_numpy_dtype)
  if op.type == "Pack":
    return np.stack(known, op.get_attr("axis"))
  if op.type == "StridedSlice":
    return _entry(op, known)
  if op.type in _REDUCTIONS:
    axes = tuple(np.atleast_1d(known[1]).tolist())
    return _REDUCTIONS[op.type](
      known[0], axis=axes, keepdims=op.get_attr("keep_dims")
    )
  return _EVALUATED[op.type](*known)


def _entry(op: tf.Operation, values: Sequence[np.ndarray]) -> np.ndarray | None:
  """Returns an entry, or a range of entries, of a vector."""
  vector, begin, end, stride = values
  if np.ndim(vector) != 1 or len(begin) != 1 or stride[0] != 1:
    return None
  if op.get_attr("shrink_axis_mask"):
    return vector[begin[0]]
  first = None if op.get_attr("begin_mask") else begin[0]
  last = None if op.get_attr("end_mask") else end[0]
  return vector[first:last]


def static_shape(tensor: tf.Tensor) -> list[int | None] | None:
  """Returns the shape that the graph knows of a tensor, for `evaluate`."""
  return None if tensor.shape.rank is None else tensor.shape.as_list()
