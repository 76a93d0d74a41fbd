"""Embeddings whose elements are spread over one variable by a hash.

Chen et al., "Compressing Neural Networks with the Hashing Trick", 2015.
"""

from typing import Any

from compat.contrib.layers.crosses import sparse_feature_cross
from compat.private.contrib.partitions import parts

import tensorflow as tf

v1 = tf.compat.v1

# Stand for the missing values of an empty row.
_NO_WORD = "6ZxWzWOHxZ"
_NO_NUMBER = 1288896567

_COMBINERS = {
  "mean": tf.sparse.segment_mean,
  "sqrtn": tf.sparse.segment_sqrt_n,
  "sum": tf.sparse.segment_sum,
}


def scattered_embedding_lookup(
  params: Any,
  values: Any,
  dimension: int,
  name: str | None = None,
  hash_key: int | None = None,
) -> Any:
  """Returns the embedding of each value.

  Args:
    params: a variable of one dimension, or a list of its partitions.
    values: strings or integers, of any shape.
    dimension: the size of an embedding.
    name: of the operations.
    hash_key: of the hash; see sparse_feature_cross.

  Returns:
    The shape of the values, and then `dimension`.

  Raises:
    ValueError: if the dimension is not above 0, or a partition is not of the
      size that it should have.
  """
  if dimension is None or dimension <= 0:
    raise ValueError(f"dimension={dimension} must be above 0.")
  params = parts(params)
  sizes = [one.shape.as_list() for one in params]
  if any(len(size) != 1 or size[0] is None for size in sizes):
    raise ValueError(f"params have the shapes {sizes}; they must be vectors.")
  total = sum(size[0] for size in sizes)
  for place, (size,) in enumerate(sizes):
    expected = (total - place - 1) // len(params) + 1
    if size != expected:
      raise ValueError(
        f"partition {place} of params is of size {size}; it must be {expected}."
      )
  with v1.name_scope(name, "scattered_embedding_lookup", [*params, values]):
    values = tf.convert_to_tensor(values)
    shape = tf.shape(values)
    column = tf.reshape(values, [-1, 1])
    elements = tf.tile(tf.range(dimension)[tf.newaxis], tf.shape(column))
    ids = sparse_feature_cross(
      [elements, column],
      hashed_output=True,
      num_buckets=total,
      hash_key=hash_key,
    )
    found = v1.nn.embedding_lookup(
      params, tf.sparse.to_dense(ids), partition_strategy="div"
    )
    return tf.reshape(found, tf.concat([shape, [dimension]], 0))


def scattered_embedding_lookup_sparse(
  params: Any,
  sparse_values: Any,
  dimension: int,
  combiner: str | None = None,
  default_value: Any = None,
  name: str | None = None,
  hash_key: int | None = None,
) -> Any:
  """Returns the combined embeddings of each row's values.

  Args:
    params: a variable of one dimension, or a list of its partitions.
    sparse_values: a SparseTensor of strings or integers, [batch, values].
    dimension: the size of an embedding.
    combiner: "mean", which is the default, "sqrtn" or "sum".
    default_value: of a row without any.
    name: of the operations.
    hash_key: of the hash; see sparse_feature_cross.

  Returns:
    [batch, dimension].

  Raises:
    TypeError: if the values are not a SparseTensor.
    ValueError: if the combiner is not one of these.
  """
  combiner = "mean" if combiner is None else combiner
  if combiner not in _COMBINERS:
    raise ValueError(
      f"combiner={combiner!r} must be one of {', '.join(_COMBINERS)}."
    )
  if not isinstance(sparse_values, tf.SparseTensor):
    raise TypeError(f"sparse_values={sparse_values} must be a SparseTensor.")
  with v1.name_scope(
    name, "scattered_embedding_lookup_sparse", [*parts(params), sparse_values]
  ) as scope:
    if default_value is None:
      is_word = sparse_values.dtype == tf.string
      default_value = _NO_WORD if is_word else _NO_NUMBER
    filled, _ = tf.sparse.fill_empty_rows(sparse_values, default_value)
    different, places = tf.unique(filled.values)
    embeddings = scattered_embedding_lookup(
      params, different, dimension, hash_key=hash_key
    )
    rows = tf.cast(filled.indices[:, 0], tf.int32)
    return _COMBINERS[combiner](embeddings, places, rows, name=scope)
