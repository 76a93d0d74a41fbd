"""Checks and reductions of tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def assert_scalar_int(tensor: Any, name: str | None = None) -> Any:
  """Returns a scalar of integers, after a check that it is one.

  Raises:
    ValueError: if it is of another type or shape.
  """
  with v1.name_scope(name, "assert_scalar_int", [tensor]) as scope:
    tensor = tf.convert_to_tensor(tensor)
    if not tensor.dtype.is_integer:
      raise ValueError(
        f"{tensor.name} is of {tensor.dtype.name}; it must be of integers."
      )
    return v1.assert_scalar(tensor, name=scope)


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> Any:
  """Returns the sum of all elements of all tensors.

  Args:
    tensors: of one numeric type, and at least one.
    name: of the operations.

  Raises:
    ValueError: if there are none.
  """
  if not tensors:
    raise ValueError("tensors is empty; reduce_sum_n needs at least one.")
  with v1.name_scope(name, "reduce_sum_n", tensors) as scope:
    sums = [tf.reduce_sum(one, name=f"{one.op.name}/sum") for one in tensors]
    return tf.add_n(sums, name=scope) if len(sums) > 1 else sums[0]


def remove_squeezable_dimensions(
  predictions: Any, labels: Any, name: str | None = None
) -> tuple[Any, Any]:
  """Drops the last dimension of what has one more than the other, if it is 1.

  Args:
    predictions: of any shape.
    labels: of the same shape, or with one dimension more or less.
    name: of the operations.

  Returns:
    Predictions and labels.
  """
  with v1.name_scope(
    name, "remove_squeezable_dimensions", [predictions, labels]
  ):
    predictions = tf.convert_to_tensor(predictions)
    labels = tf.convert_to_tensor(labels)
    return _without_last(predictions, labels), _without_last(
      labels, predictions
    )


def _without_last(tensor: Any, other: Any) -> Any:
  """Drops the last dimension of a tensor that has one more than the other."""
  rank, other_rank = tensor.shape.rank, other.shape.rank
  if rank is not None and other_rank is not None:
    return tf.squeeze(tensor, [-1]) if rank == other_rank + 1 else tensor
  if rank is not None and (not rank or tensor.shape[-1] not in (None, 1)):
    return tensor
  return tf.cond(
    tf.equal(tf.rank(tensor), tf.rank(other) + 1),
    lambda: tf.squeeze(tensor, [-1]),
    lambda: tensor,
  )


def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
  """Returns a tensor, after a check that it has the shape of another one."""
  with v1.name_scope(f"{tensor.op.name}/", values=[expected_tensor, tensor]):
    shape = expected_tensor.shape
    if shape.is_fully_defined():
      return with_shape(shape.as_list(), tensor)
    return with_shape(tf.shape(expected_tensor), tensor)


def with_shape(expected_shape: Any, tensor: Any) -> Any:
  """Returns a tensor, after a check of its shape.

  A shape not known while the graph is built is checked when it runs. Where no
  dimensions are expected, a tensor of one element becomes a scalar.

  Args:
    expected_shape: int32, one-dimensional: a list, an array or a tensor.
    tensor: not sparse.

  Raises:
    ValueError: if the shape is another one, or is not given so.
  """
  if isinstance(tensor, tf.SparseTensor):
    raise ValueError(f"{tensor} is sparse; with_shape takes dense tensors.")
  if not tf.is_tensor(expected_shape):
    expected_shape = _as_array(expected_shape)
  if expected_shape.dtype != np.int32 or expected_shape.ndim != 1:
    raise ValueError(
      f"the shape expected of {tensor.name} is {expected_shape}, of "
      f"{expected_shape.dtype}; it must be one-dimensional and of int32."
    )
  scope = f"{tensor.op.name}/"
  if tf.is_tensor(expected_shape):
    return _checked(expected_shape, tensor, scope)
  becomes_scalar = not expected_shape.size and (
    not tensor.shape.is_fully_defined() or tensor.shape == [1]
  )
  if becomes_scalar:
    with v1.name_scope(scope, values=[tensor]):
      return tf.reshape(tensor, [])
  if not tensor.shape.is_fully_defined():
    checked = _checked(expected_shape, tensor, scope)
    checked.set_shape([None if size < 0 else size for size in expected_shape])
    return checked
  if tensor.shape.as_list() != expected_shape.tolist():
    raise ValueError(
      f"{tensor.name} has the shape {tensor.shape}; {expected_shape.tolist()} "
      "is expected."
    )
  return tensor


def _as_array(shape: Any) -> Any:
  shape = np.asarray(shape)
  if not shape.size or shape.dtype == np.int64:
    shape = shape.astype(np.int32)
  return shape


def _checked(shape: Any, tensor: Any, scope: str) -> Any:
  """Returns the tensor, once it is seen to have the shape; -1 is any size."""
  with v1.name_scope(scope, values=[tensor]):
    actual = tf.shape(tensor)
    same_rank = tf.equal(tf.size(shape), tf.size(actual))
    # Not of the same rank: the second is not compared, which would fail.
    compared = tf.cond(same_rank, lambda: actual, lambda: tf.identity(shape))
    fits = tf.reduce_all(tf.equal(shape, -1) | tf.equal(shape, compared))
    message = f"Wrong shape of {tensor.name}: expected, actual."
    check = v1.Assert(same_rank & fits, [message, shape, actual])
    with tf.control_dependencies([check]):
      return tf.identity(tensor)


def zero_initializer(
  ref: Any, use_locking: bool = True, name: str = "zero_initializer"
) -> Any:
  """Returns an op that sets a variable without a value to zeros.

  Args:
    ref: the variable, which must not have a value when the op runs.
    use_locking: accepted, and always so.
    name: of the operation.

  Returns:
    The result of the assignment, as `tf.assign` returns it.
  """
  del use_locking
  with v1.name_scope(name):
    has_value = v1.is_variable_initialized(ref)
    check = v1.Assert(~has_value, ["The variable has a value:", ref.name])
    with tf.control_dependencies([check]):
      zeros = tf.zeros(ref.shape, ref.dtype.base_dtype)
      return v1.assign(ref, zeros)
