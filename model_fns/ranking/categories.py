"""Categorical features: the rows of a table that an example has.

A feature comes in one of three forms, of integers or of text:

- a tensor [batch]: each example has one value;
- a tensor [batch, k]: each has up to k values, and the rest is padding, which
  is negative, or an empty text;
- a `tf.SparseTensor` [batch, k]: each has the values that it lists.

An example may have no value. It then has no row, and pools to zeros.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

Values: TypeAlias = tf.Tensor | tf.SparseTensor

_KINDS = ("hash", "rows")


@dataclasses.dataclass(frozen=True)
class Bags:
  """The rows that the examples of a batch have.

  Attributes:
    rows: Rows of a table, an integer tensor [n].
    example: Which example has each row, int64 [n]; None if example i has row i
      and no other.
    num_examples: How many examples there are, an integer scalar; None with
      `example`.
  """

  rows: tf.Tensor
  example: tf.Tensor | None = None
  num_examples: tf.Tensor | None = None

  def sum_of(self, table: tf.Variable) -> tf.Tensor:
    """Returns the sum of the rows that each example has.

    Rows that no example has are not touched, nor do they get a gradient.

    Args:
      table: A variable [num_rows, width].

    Returns:
      A tensor [batch, width].
    """
    found = tf.nn.embedding_lookup(table, self.rows)
    if self.example is None:
      return found
    return tf.math.unsorted_segment_sum(found, self.example, self.num_examples)


def check_tables(tables: Mapping[str, int], ids: str) -> None:
  """Raises if tables cannot be made.

  Args:
    tables: The number of rows by the name of the feature.
    ids: The kind of the features' values, "hash" or "rows".

  Raises:
    ValueError: If there is no table, one has no row, or there is no such kind
      of ids.
  """
  if not tables:
    raise ValueError(
      "tables is empty; name a categorical feature and the rows of its table, "
      "such as tables={'item': 1000}"
    )
  for name, rows in tables.items():
    if rows < 1:
      raise ValueError(
        f"tables[{name!r}]={rows} is too few; a table needs at least 1 row"
      )
  if ids not in _KINDS:
    raise ValueError(f"ids={ids!r} is not known; use one of: {_KINDS}")


def feature(features: Any, name: str) -> Any:
  """Returns a feature by its name.

  Args:
    features: The features that the input_fn returns.
    name: The name.

  Raises:
    ValueError: If there is none, or features are no dict.
  """
  if not isinstance(features, Mapping) or name not in features:
    names = (
      ", ".join(map(repr, features))
      if isinstance(features, Mapping)
      else f"a single {type(features).__name__}"
    )
    raise ValueError(
      f"feature {name!r} is not among the features ({names}); add it to what "
      "the input_fn returns, or leave it out of the model"
    )
  return features[name]


def find_bags(
  features: Any, tables: Mapping[str, int], ids: str
) -> dict[str, Bags]:
  """Returns the rows that the examples have of each table.

  Args:
    features: Features by name, of the forms that this module names.
    tables: The number of rows by the name of the feature.
    ids: "hash" for values of which the row is a hash, that of
      `tf.feature_column.categorical_column_with_hash_bucket`; "rows" for values
      that are rows.

  Raises:
    ValueError: If a feature is missing, or of another form.
  """
  return {
    name: _bags(name, feature(features, name), num_rows, ids)
    for name, num_rows in tables.items()
  }


def find_crossed(features: Any, names: Sequence[str], num_rows: int) -> Bags:
  """Returns the rows that combinations of several features have.

  An example has a row for each combination of its values, the row that
  `tf.feature_column.crossed_column` gives it.

  Args:
    features: Features by name.
    names: The features, at least two.
    num_rows: The rows of the table.

  Raises:
    ValueError: If a feature is missing, or of another form.
  """
  values = [_without_padding(name, feature(features, name)) for name in names]
  return _of_sparse(tf.sparse.cross_hashed(values, num_rows))


def _bags(name: str, values: Values, num_rows: int, ids: str) -> Bags:
  if not isinstance(values, tf.SparseTensor) and values.shape.rank == 1:
    return Bags(_rows(name, values, num_rows, ids))
  sparse = _without_padding(name, values)
  return _of_sparse(
    sparse.with_values(_rows(name, sparse.values, num_rows, ids))
  )


def _of_sparse(rows: tf.SparseTensor) -> Bags:
  return Bags(rows.values, rows.indices[:, 0], rows.dense_shape[0])


def _rows(name: str, values: tf.Tensor, num_rows: int, ids: str) -> tf.Tensor:
  """Returns the rows of values."""
  if ids == "hash":
    text = values if values.dtype == tf.string else tf.as_string(values)
    return tf.strings.to_hash_bucket_fast(text, num_rows)
  if not values.dtype.is_integer:
    raise ValueError(
      f"feature {name!r} is of {values.dtype.name}, but ids='rows' takes "
      "integers; use ids='hash'"
    )
  return values


def _without_padding(name: str, values: Values) -> tf.SparseTensor:
  """Returns the values of each example, without what stands for none."""
  if isinstance(values, tf.SparseTensor):
    return values
  if values.dtype != tf.string and not values.dtype.is_integer:
    raise ValueError(
      f"feature {name!r} is of {values.dtype.name}; a categorical feature is "
      "of integers or text"
    )
  if values.shape.rank not in (1, 2):
    raise ValueError(
      f"feature {name!r} has the shape {values.shape}; pass [batch], "
      "[batch, k] with padding, or a SparseTensor"
    )
  if values.shape.rank == 1:
    count = tf.shape(values, out_type=tf.int64)[0]
    where = tf.stack([tf.range(count), tf.zeros([count], tf.int64)], axis=1)
    return tf.SparseTensor(where, values, tf.stack([count, 1]))
  is_text = values.dtype == tf.string
  where = tf.where(tf.not_equal(values, "") if is_text else values >= 0)
  return tf.SparseTensor(
    where, tf.gather_nd(values, where), tf.shape(values, out_type=tf.int64)
  )
