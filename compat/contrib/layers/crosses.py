"""Crosses of sparse features, with both hashes that 1.15 had for them."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY = 0xDECAFCAFFE

_JOINT = "_X_"  # What the operation puts between the parts of a cross.
_LARGEST = tf.int64.max


def sparse_feature_cross(
  inputs: list[Any],
  hashed_output: bool = False,
  num_buckets: int = 0,
  name: str | None = None,
  hash_key: int | None = None,
) -> Any:
  """Makes, of each row, all combinations of one value of each feature.

  Args:
    inputs: strings or integers of shape [batch, values], sparse or dense. The
      dense ones come last in a cross.
    hashed_output: whether a cross is a number, and not the parts joined.
    num_buckets: crosses are below it; below 2 ** 63 if it is 0.
    name: of the operation.
    hash_key: of the hash; None for that which 1.15 had by default.

  Returns:
    A SparseTensor [batch, crosses] of strings, or of int64.

  Raises:
    TypeError: if the inputs are not a list of tensors.
  """
  if not isinstance(inputs, list) or not all(
    isinstance(one, tf.SparseTensor) or tf.is_tensor(one) for one in inputs
  ):
    raise TypeError(f"inputs={inputs!r} must be a list of tensors.")
  # In the order of the parts of a cross.
  inputs = sorted(inputs, key=lambda one: not isinstance(one, tf.SparseTensor))
  inputs = [
    one if _values(one).dtype == tf.string else tf.cast(one, tf.int64)
    for one in inputs
  ]
  with tf.compat.v1.name_scope(name, "SparseFeatureCross"):
    if not hashed_output:
      return _cross(inputs, out_type=tf.string)
    if hash_key:
      return _cross(
        inputs,
        out_type=tf.int64,
        hashed_output=True,
        num_buckets=num_buckets,
        hash_key=hash_key,
      )
    return _hashed_without_key(inputs, num_buckets)


def _values(one: Any) -> Any:
  return one.values if isinstance(one, tf.SparseTensor) else one


def _cross(
  inputs: Sequence[Any],
  out_type: tf.DType,
  hashed_output: bool = False,
  num_buckets: int = 0,
  hash_key: int = SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY,
) -> Any:
  sparse = [one for one in inputs if isinstance(one, tf.SparseTensor)]
  has_numbers = any(_values(one).dtype == tf.int64 for one in inputs)
  return tf.SparseTensor(
    *tf.raw_ops.SparseCross(
      indices=[one.indices for one in sparse],
      values=[one.values for one in sparse],
      shapes=[one.dense_shape for one in sparse],
      dense_inputs=inputs[len(sparse) :],
      hashed_output=hashed_output,
      num_buckets=num_buckets,
      hash_key=hash_key,
      out_type=out_type,
      internal_type=tf.int64 if has_numbers else tf.string,
    )
  )


def _hashed_without_key(inputs: Sequence[Any], num_buckets: int) -> Any:
  """Returns crosses by the hash that TensorFlow has lost.

  The operation crosses places of values. Of those the hashes are combined.
  """
  crossed = _cross([_places(one) for one in inputs], out_type=tf.string)
  parts = tf.strings.split(crossed.values, _JOINT).values
  places = tf.reshape(tf.strings.to_number(parts, tf.int64), [-1, len(inputs)])
  hashes = [
    tf.gather(_hashes(_values(one)), places[:, column])
    for column, one in enumerate(inputs)
  ]
  first = tf.fill(
    [tf.shape(places)[0]],
    tf.constant(SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY, tf.uint64),
  )
  combined = functools.reduce(_combine, hashes, first)
  limit = tf.constant(num_buckets or _LARGEST, tf.uint64)
  return tf.SparseTensor(
    crossed.indices, tf.cast(combined % limit, tf.int64), crossed.dense_shape
  )


def _places(one: Any) -> Any:
  """Returns each value's place among all values, in the shape of the values."""
  values = _values(one)
  places = tf.reshape(
    tf.range(tf.size(values, tf.int64), dtype=tf.int64), tf.shape(values)
  )
  if not isinstance(one, tf.SparseTensor):
    return places
  return tf.SparseTensor(one.indices, places, one.dense_shape)


def _hashes(values: Any) -> Any:
  """Returns a uint64 for each value, in one dimension."""
  flat = tf.reshape(values, [-1, 1])
  if values.dtype == tf.string:
    return tf.bitcast(tf.fingerprint(flat), tf.uint64)
  return tf.bitcast(flat[:, 0], tf.uint64)


def _combine(hashed: Any, more: Any) -> Any:
  number = functools.partial(tf.constant, dtype=tf.uint64)
  # This one shift keeps the sign, although the rest has none.
  signed = tf.bitwise.right_shift(tf.bitcast(hashed, tf.int64), np.int64(4))
  mixed = (
    more
    + number(0x9E3779B97F4A7800)
    + tf.bitwise.left_shift(hashed, number(10))
    + tf.bitcast(signed, tf.uint64)
  )
  return tf.bitwise.bitwise_xor(hashed, mixed)
