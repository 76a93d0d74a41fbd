"""Names of tf.contrib.feature_column: features that are sequences."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compat.contrib import absent
from compat.private.contrib import sequence_columns

import tensorflow as tf

v1 = tf.compat.v1

__getattr__ = absent.getter(__name__)

__all__ = [
  "sequence_categorical_column_with_hash_bucket",
  "sequence_categorical_column_with_identity",
  "sequence_categorical_column_with_vocabulary_file",
  "sequence_categorical_column_with_vocabulary_list",
  "sequence_input_layer",
  "sequence_numeric_column",
]


def sequence_input_layer(
  features: Mapping[str, Any],
  feature_columns: Any,
  weight_collections: Any = None,
  trainable: bool = True,
) -> tuple[Any, Any]:
  """Joins columns to one dense sequence.

  Args:
    features: tensors by name.
    feature_columns: sequence_numeric_column, and an embedding_column or
      indicator_column of a sequence_categorical_column.
    weight_collections: where the variables of embeddings go.
    trainable: whether an optimizer may change them.

  Returns:
    [batch, steps, size], and the lengths [batch], int64.

  Raises:
    ValueError: if a column is not of sequences.
  """
  try:
    every = sequence_columns.normalized(feature_columns)
  except ValueError as error:
    raise ValueError(
      f"{error} A sequence_numeric_column of tf.feature_column goes into "
      "tf.keras.experimental.SequenceFeatures."
    ) from error
  for column in every:
    if not sequence_columns.is_of_sequences(column):
      raise ValueError(
        f"feature_columns has {column}, which is not dense, or not of "
        "sequences; put a sequence_categorical_column into an embedding_column "
        "or an indicator_column, and what is not of sequences into "
        "tf.compat.v1.feature_column.input_layer."
      )
  with v1.variable_scope(None, "sequence_input_layer", features.values()):
    values, lengths = sequence_columns.dense_tensors(
      features,
      sorted(every, key=lambda column: column.name),
      weight_collections,
      trainable,
    )
    checks = [v1.assert_equal(lengths[0], other) for other in lengths[1:]]
    with tf.control_dependencies(checks):
      return tf.concat(values, -1), tf.identity(lengths[0])


def sequence_categorical_column_with_identity(
  key: str, num_buckets: int, default_value: int | None = None
) -> Any:
  """Returns a column of sequences of ids.

  Args:
    key: the name of the feature.
    num_buckets: ids are below it.
    default_value: the id of what is not; None for an error.
  """
  return sequence_columns.SequenceCategoricalColumn(
    sequence_columns.categorical_column_with_identity(
      key, num_buckets, default_value
    )
  )


def sequence_categorical_column_with_hash_bucket(
  key: str, hash_bucket_size: int, dtype: tf.DType = tf.string
) -> Any:
  """Returns a column of sequences of words, whose ids are hashes.

  Args:
    key: the name of the feature.
    hash_bucket_size: ids are below it.
    dtype: tf.string, or integers.
  """
  return sequence_columns.SequenceCategoricalColumn(
    sequence_columns.categorical_column_with_hash_bucket(
      key, hash_bucket_size, dtype
    )
  )


def sequence_categorical_column_with_vocabulary_file(
  key: str,
  vocabulary_file: str,
  vocabulary_size: int | None = None,
  num_oov_buckets: int = 0,
  default_value: int | None = None,
  dtype: tf.DType = tf.string,
) -> Any:
  """Returns a column of sequences of words, whose ids are lines of a file.

  Args:
    key: the name of the feature.
    vocabulary_file: a word a line.
    vocabulary_size: how many lines to read; all by default.
    num_oov_buckets: how many ids follow for words that are not in it.
    default_value: the id of such words without these; -1 by default.
    dtype: tf.string, or integers.
  """
  return sequence_columns.SequenceCategoricalColumn(
    sequence_columns.categorical_column_with_vocabulary_file(
      key,
      vocabulary_file,
      vocabulary_size,
      num_oov_buckets,
      default_value,
      dtype,
    )
  )


def sequence_categorical_column_with_vocabulary_list(
  key: str,
  vocabulary_list: Sequence[Any],
  dtype: tf.DType | None = None,
  default_value: int = -1,
  num_oov_buckets: int = 0,
) -> Any:
  """Returns a column of sequences of words, whose ids are places in a list.

  Args:
    key: the name of the feature.
    vocabulary_list: the words.
    dtype: theirs by default.
    default_value: the id of words that are not in it.
    num_oov_buckets: how many ids follow for these instead.
  """
  return sequence_columns.SequenceCategoricalColumn(
    sequence_columns.categorical_column_with_vocabulary_list(
      key, vocabulary_list, dtype, default_value, num_oov_buckets
    )
  )


def sequence_numeric_column(
  key: str,
  shape: Any = (1,),
  default_value: float = 0.0,
  dtype: tf.DType = tf.float32,
  normalizer_fn: Callable[[Any], Any] | None = None,
) -> Any:
  """Returns a column of sequences of numbers.

  Args:
    key: the name of the feature.
    shape: of one step.
    default_value: of what a shorter sequence has not.
    dtype: numbers.
    normalizer_fn: what to do with the sparse values first.

  Raises:
    TypeError: if the normalizer cannot be called, or the shape is none.
    ValueError: if the shape or the type is not one of numbers.
  """
  shape = sequence_columns.checked_shape(shape, key)
  if not (dtype.is_integer or dtype.is_floating):
    raise ValueError(f"dtype={dtype.name} of {key!r} must be one of numbers.")
  if normalizer_fn is not None and not callable(normalizer_fn):
    raise TypeError(f"normalizer_fn={normalizer_fn!r} must be a function.")
  return sequence_columns.SequenceNumericColumn(
    key, shape, default_value, dtype, normalizer_fn
  )
