"""The functions that make columns of tf.contrib.layers."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from compat.contrib.layers.feature_column import dense, sparse

import tensorflow as tf

v1 = tf.compat.v1

_COMBINERS = ("mean", "sqrtn", "sum")


def sparse_column_with_integerized_feature(
  column_name: str,
  bucket_size: int,
  combiner: str = "sum",
  dtype: tf.DType = tf.int64,
) -> Any:
  """Returns a column of integers that are ids.

  Args:
    column_name: of the feature.
    bucket_size: ids are below it; larger ones are taken modulo it.
    combiner: "sum", "mean" or "sqrtn": how a linear model joins a row's ids.
    dtype: of the feature.

  Raises:
    ValueError: if the size is not above 0, or the type not of integers.
  """
  return sparse.SparseColumnIntegerized(
    column_name,
    is_integerized=True,
    bucket_size=bucket_size,
    combiner=combiner,
    dtype=dtype,
  )


def sparse_column_with_hash_bucket(
  column_name: str,
  hash_bucket_size: int,
  combiner: str = "sum",
  dtype: tf.DType = tf.string,
  hash_keys: list[list[int]] | None = None,
) -> Any:
  """Returns a column of words whose hashes are their ids.

  Args:
    column_name: of the feature.
    hash_bucket_size: ids are below it.
    combiner: how a linear model joins a row's ids.
    dtype: strings or integers.
    hash_keys: pairs of integers; a word has an id by each.

  Raises:
    ValueError: if the size is not above 0, or the keys are no such pairs.
  """
  if hash_keys is not None:
    are_pairs = isinstance(hash_keys, list) and all(
      isinstance(pair, list)
      and len(pair) == 2
      and all(isinstance(number, int) for number in pair)
      for pair in hash_keys
    )
    if not hash_keys or not are_pairs:
      raise ValueError(
        f"hash_keys={hash_keys!r} must be a list of pairs of integers, such as "
        "[[1, 2]]."
      )
  column = sparse.SparseColumnHashed(
    column_name, bucket_size=hash_bucket_size, combiner=combiner, dtype=dtype
  )
  column.hash_keys = hash_keys
  return column


def sparse_column_with_keys(
  column_name: str,
  keys: Iterable[Any],
  default_value: int = -1,
  combiner: str = "sum",
  dtype: tf.DType = tf.string,
) -> Any:
  """Returns a column of words whose places among the keys are their ids.

  Args:
    column_name: of the feature.
    keys: the words.
    default_value: the id of any other word; -1 does not count.
    combiner: how a linear model joins a row's ids.
    dtype: strings or integers.
  """
  keys = tuple(keys)
  return sparse.SparseColumnKeys(
    column_name,
    lookup_config=sparse.SparseIdLookupConfig(
      keys=keys, vocab_size=len(keys), default_value=default_value
    ),
    combiner=combiner,
    dtype=dtype,
  )


def sparse_column_with_vocabulary_file(
  column_name: str,
  vocabulary_file: str,
  num_oov_buckets: int = 0,
  vocab_size: int | None = None,
  default_value: int = -1,
  combiner: str = "sum",
  dtype: tf.DType = tf.string,
) -> Any:
  """Returns a column of words whose places among a file's lines are their ids.

  Args:
    column_name: of the feature.
    vocabulary_file: a word a line.
    num_oov_buckets: how many ids follow for words that are not in it.
    vocab_size: how many lines to read; it has to be given.
    default_value: the id of any other word without these.
    combiner: how a linear model joins a row's ids.
    dtype: strings or integers.

  Raises:
    ValueError: if the size is not given.
  """
  if vocab_size is None:
    raise ValueError(f"vocab_size of the column {column_name} must be given.")
  return sparse.SparseColumnVocabulary(
    column_name,
    lookup_config=sparse.SparseIdLookupConfig(
      vocabulary_file=vocabulary_file,
      num_oov_buckets=num_oov_buckets,
      vocab_size=vocab_size,
      default_value=default_value,
    ),
    combiner=combiner,
    dtype=dtype,
  )


def weighted_sparse_column(
  sparse_id_column: Any,
  weight_column_name: str,
  dtype: tf.DType = tf.float32,
) -> Any:
  """Returns a column of ids with weights.

  Args:
    sparse_id_column: the ids.
    weight_column_name: of the feature with the weights.
    dtype: of the weights.

  Raises:
    ValueError: if the weights are not numbers.
  """
  _check_numbers(weight_column_name, dtype)
  return sparse.WeightedSparseColumn(
    sparse_id_column, weight_column_name, dtype
  )


def _check_numbers(name: str, dtype: tf.DType) -> None:
  if not (dtype.is_integer or dtype.is_floating):
    raise ValueError(
      f"dtype={dtype.name} of the column {name} must be one of numbers."
    )


def crossed_column(
  columns: Iterable[Any],
  hash_bucket_size: int,
  combiner: str = "sum",
  ckpt_to_load_from: str | None = None,
  tensor_name_in_ckpt: str | None = None,
  hash_key: int | None = None,
) -> Any:
  """Returns a column of all combinations of the values of some columns.

  Args:
    columns: at least two of sparse, bucketized and crossed ones.
    hash_bucket_size: ids are below it; at least 2.
    combiner: how a linear model joins a row's ids.
    ckpt_to_load_from: the checkpoint that the weights start from, if any.
    tensor_name_in_ckpt: their name in it.
    hash_key: of the hash; None for that which 1.15 had by default.

  Raises:
    TypeError: if a column is of another kind.
    ValueError: if there are too few columns or ids, or only one of checkpoint
      and name is given.
  """
  columns = tuple(columns)
  crossable = (
    sparse.SparseColumn,
    sparse.CrossedColumn,
    dense.BucketizedColumn,
  )
  for column in columns:
    if not isinstance(column, crossable):
      raise TypeError(
        f"{column} cannot be crossed; only sparse columns, crosses and "
        "bucketized columns can."
      )
  if len(columns) < 2:
    raise ValueError(f"columns={columns} must be at least 2.")
  if hash_bucket_size < 2:
    raise ValueError(f"hash_bucket_size={hash_bucket_size} must be at least 2.")
  _check_checkpoint(ckpt_to_load_from, tensor_name_in_ckpt)
  return sparse.CrossedColumn(
    tuple(sorted(columns, key=lambda column: str(column.name))),
    hash_bucket_size,
    hash_key,
    combiner,
    ckpt_to_load_from,
    tensor_name_in_ckpt,
  )


def _check_checkpoint(path: str | None, name: str | None) -> None:
  if (path is None) != (name is None):
    raise ValueError(
      f"ckpt_to_load_from={path!r} and tensor_name_in_ckpt={name!r} must both "
      "be given, or none."
    )


def real_valued_column(
  column_name: str,
  dimension: int = 1,
  default_value: Any = None,
  dtype: tf.DType = tf.float32,
  normalizer: Callable[[Any], Any] | None = None,
) -> Any:
  """Returns a column of numbers.

  Args:
    column_name: of the feature.
    dimension: how many numbers an example has.
    default_value: of what an example lacks: one, or a list of them.
    dtype: of the feature.
    normalizer: called with the feature.

  Raises:
    TypeError: if the dimension is no integer, or the default is of another
      type.
    ValueError: if the dimension is not above 0, the feature not of numbers, or
      there is another number of defaults.
  """
  if not isinstance(dimension, int):
    raise TypeError(
      f"dimension={dimension!r} of the column {column_name} must be an integer."
    )
  if dimension < 1:
    raise ValueError(
      f"dimension={dimension} of the column {column_name} must be at least 1."
    )
  _check_numbers(column_name, dtype)
  return dense.RealValuedColumn(
    column_name,
    dimension,
    _defaults(column_name, default_value, dimension, dtype),
    dtype,
    normalizer,
  )


def _defaults(
  name: str, value: Any, dimension: int, dtype: tf.DType
) -> tuple[Any, ...] | None:
  """Returns a default for each number, of the feature's type."""
  if value is None:
    return None
  values = value if isinstance(value, list) else [value] * dimension
  if len(values) != dimension:
    raise ValueError(
      f"default_value={value} of the column {name} must have {dimension} "
      "values."
    )
  fitting = (int,) if dtype.is_integer else (int, float)
  if not all(isinstance(one, fitting) for one in values):
    raise TypeError(
      f"default_value={value!r} of the column {name} must be of {dtype.name}."
    )
  return tuple(one if dtype.is_integer else float(one) for one in values)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
  """Returns a column of the buckets that numbers fall into.

  Args:
    source_column: a real_valued_column.
    boundaries: of the buckets, in their order; each belongs to the bucket above
      it.

  Raises:
    TypeError: if the source is another column.
    ValueError: if there are no boundaries, or they are in another order.
  """
  if not isinstance(source_column, dense.RealValuedColumn):
    raise TypeError(f"{source_column} is no real_valued_column.")
  if not isinstance(boundaries, (list, tuple)) or not boundaries:
    raise ValueError(f"boundaries={boundaries!r} must be a list of numbers.")
  if list(boundaries) != sorted(boundaries):
    raise ValueError(f"boundaries={boundaries} must be sorted.")
  return dense.BucketizedColumn(source_column, tuple(dict.fromkeys(boundaries)))


def one_hot_column(sparse_id_column: Any) -> Any:
  """Returns a column with a 1 for each id of another one, or its weight."""
  return dense.OneHotColumn(sparse_id_column)


def embedding_column(
  sparse_id_column: Any,
  dimension: int,
  combiner: str = "mean",
  initializer: Any = None,
  ckpt_to_load_from: str | None = None,
  tensor_name_in_ckpt: str | None = None,
  max_norm: float | None = None,
  trainable: bool = True,
) -> Any:
  """Returns a column of a learnt vector for each id of another one.

  Args:
    sparse_id_column: the ids.
    dimension: the size of a vector.
    combiner: "mean", "sqrtn" or "sum": how a row's vectors are joined.
    initializer: of the vectors; normal, of deviation 1 / sqrt(number of ids),
      by default.
    ckpt_to_load_from: the checkpoint that they start from instead.
    tensor_name_in_ckpt: their name in it.
    max_norm: what a vector's l2 norm is cut to.
    trainable: whether an optimizer may change them.

  Raises:
    ValueError: if the initializer cannot be called, or only one of checkpoint
      and name is given.
  """
  return _embedding(
    sparse_id_column,
    dimension,
    combiner,
    initializer,
    ckpt_to_load_from,
    tensor_name_in_ckpt,
    None,
    None,
    max_norm,
    trainable,
  )


def _embedding(column: Any, dimension: int, combiner: str, *more: Any) -> Any:
  initializer, path, name, *rest = more
  if initializer is not None and not callable(initializer):
    raise ValueError(
      f"initializer={initializer!r} of the embedding of {column.name} must be "
      "a function."
    )
  _check_checkpoint(path, name)
  if initializer is None:
    initializer = v1.truncated_normal_initializer(
      stddev=1 / math.sqrt(column.length)
    )
  return dense.EmbeddingColumn(
    column, dimension, combiner, initializer, path, name, *rest
  )


def shared_embedding_columns(
  sparse_id_columns: Sequence[Any],
  dimension: int,
  combiner: str = "mean",
  shared_embedding_name: str | None = None,
  initializer: Any = None,
  ckpt_to_load_from: str | None = None,
  tensor_name_in_ckpt: str | None = None,
  max_norm: float | None = None,
  trainable: bool = True,
) -> Any:
  """Returns embedding columns that have the same vectors.

  Args:
    sparse_id_columns: of the same ids, with weights or without.
    dimension: the size of a vector.
    combiner: how a row's vectors are joined.
    shared_embedding_name: of the variable; made of the columns' names by
      default.
    initializer: of the vectors; see embedding_column.
    ckpt_to_load_from: the checkpoint that they start from instead.
    tensor_name_in_ckpt: their name in it.
    max_norm: what a vector's l2 norm is cut to.
    trainable: whether an optimizer may change them.

  Raises:
    TypeError: if it is no list of such columns.
    ValueError: if it is empty, or their ids are not the same.
  """
  if isinstance(sparse_id_columns, str) or not isinstance(
    sparse_id_columns, Sequence
  ):
    raise TypeError(f"{sparse_id_columns!r} must be a list or a tuple.")
  if not sparse_id_columns:
    raise ValueError("sparse_id_columns must have at least one column.")
  kinds = (sparse.SparseColumn, sparse.WeightedSparseColumn)
  for column in sparse_id_columns:
    if not isinstance(column, kinds):
      raise TypeError(f"{column} is no sparse column, weighted or not.")
  first = sparse_id_columns[0]
  size = None
  if len(sparse_id_columns) > 1:
    for column in sparse_id_columns[1:]:
      weighted = isinstance(first, sparse.WeightedSparseColumn)
      one, other = (first, column) if weighted else (column, first)
      if not one.is_compatible(other):
        raise ValueError(
          f"{first.name} and {column.name} do not have the same ids."
        )
    size = first.length
    shared_embedding_name = shared_embedding_name or _shared_name(
      sparse_id_columns
    )
  made = [
    _embedding(
      column,
      dimension,
      combiner,
      initializer,
      ckpt_to_load_from,
      tensor_name_in_ckpt,
      shared_embedding_name,
      size,
      max_norm,
      trainable,
    )
    for column in sparse_id_columns
  ]
  return made if len(made) == 1 else tuple(made)


def _shared_name(columns: Sequence[Any]) -> str:
  """Names the first three columns, those without weights first."""
  names = [
    column.name
    for column in sorted(
      columns,
      key=lambda column: (
        isinstance(column, sparse.WeightedSparseColumn),
        column.name,
      ),
    )
  ]
  name = "_".join(names[:3])
  if len(names) > 3:
    name += f"_plus_{len(names) - 3}_others"
  return f"{name}_shared_embedding"


def scattered_embedding_column(
  column_name: str,
  size: int,
  dimension: int,
  hash_key: int,
  combiner: str = "mean",
  initializer: Any = None,
) -> Any:
  """Returns a column of vectors whose elements a hash spreads over a variable.

  Args:
    column_name: of the feature, words.
    size: of the variable.
    dimension: the size of a vector.
    hash_key: of the hash.
    combiner: how a row's vectors are joined.
    initializer: of the variable; normal, of deviation 0.1, by default.

  Raises:
    ValueError: if a size is not above 0, the combiner is unknown, or the
      initializer cannot be called.
  """
  if dimension < 1 or size < 1:
    raise ValueError(
      f"dimension={dimension} and size={size} of the column {column_name} must "
      "be at least 1."
    )
  if combiner not in _COMBINERS:
    raise ValueError(
      f"combiner={combiner!r} of the column {column_name} must be one of "
      f"{', '.join(_COMBINERS)}."
    )
  if initializer is not None and not callable(initializer):
    raise ValueError(f"initializer={initializer!r} must be a function.")
  initializer = initializer or v1.truncated_normal_initializer(stddev=0.1)
  return dense.ScatteredEmbeddingColumn(
    column_name, size, dimension, hash_key, combiner, initializer
  )
