"""The feature columns of TensorFlow 1 that can be of sequences.

Tested on TensorFlow 2.15.1 and 2.21.0. `tensorflow.python.feature_column` has
them still, in the file `feature_column` (that of the first kind of columns), in
private classes and functions: `_SequenceCategoricalColumn` and what makes the
columns that it wraps, `_SequenceDenseColumn`, the base of the dense ones, with
its method `_get_sequence_dense_tensor`, and `_LazyBuilder`, the cache of what
columns have computed. The columns of today's tf.feature_column have these
methods, too.
"""

import collections
from typing import Any

import tensorflow as tf
from tensorflow.python.feature_column import feature_column as columns
from tensorflow.python.feature_column import utils

SequenceCategoricalColumn = columns._SequenceCategoricalColumn
categorical_column_with_hash_bucket = (
  columns._categorical_column_with_hash_bucket
)
categorical_column_with_identity = columns._categorical_column_with_identity
categorical_column_with_vocabulary_file = (
  columns._categorical_column_with_vocabulary_file
)
categorical_column_with_vocabulary_list = (
  columns._categorical_column_with_vocabulary_list
)
checked_shape = columns._check_shape
normalized = columns._normalize_feature_columns


class SequenceNumericColumn(
  columns._SequenceDenseColumn,
  columns._DenseColumn,  # So that it is asked, and says what to use.
  collections.namedtuple(  # The columns are compared and sorted as tuples.
    "SequenceNumericColumn",
    ["key", "shape", "default_value", "dtype", "normalizer_fn"],
  ),
):
  """Numbers per step, of one shape; what is missing has the default value."""

  @property
  def name(self) -> str:
    """The key of the feature."""
    return str(self.key)

  @property
  def _parse_example_spec(self) -> dict[str, Any]:
    return {self.key: tf.io.VarLenFeature(self.dtype)}

  @property
  def _variable_shape(self) -> tf.TensorShape:
    return tf.TensorShape(self.shape)

  def _transform_feature(self, inputs: Any) -> Any:
    values = inputs.get(self.key)
    return self.normalizer_fn(values) if self.normalizer_fn else values

  def _get_dense_tensor(
    self, inputs: Any, weight_collections: Any = None, trainable: Any = None
  ) -> Any:
    raise ValueError(
      f"The column {self.name!r} is of sequences. Put it into "
      "tf.contrib.feature_column.sequence_input_layer."
    )

  def _get_sequence_dense_tensor(
    self, inputs: Any, weight_collections: Any = None, trainable: Any = None
  ) -> Any:
    values = inputs.get(self)
    dense = tf.sparse.to_dense(values, self.default_value)
    steps = tf.reshape(
      dense, tf.concat([tf.shape(dense)[:1], [-1], self.shape], 0)
    )
    # A matrix has the numbers of all steps in a row.
    per_step = (
      self._variable_shape.num_elements() if values.shape.rank == 2 else 1
    )
    length = utils.sequence_length_from_sparse_tensor(values, per_step)
    return columns._SequenceDenseColumn.TensorSequenceLengthPair(steps, length)


def dense_tensors(
  features: Any, feature_columns: Any, weight_collections: Any, trainable: bool
) -> tuple[list[Any], list[Any]]:
  """Returns what each column gives: [batch, steps, size], and the lengths.

  Each column's variables are in a scope that is called after it.

  Args:
    features: tensors by name.
    feature_columns: of sequences, and dense.
    weight_collections: where its variables go.
    trainable: whether an optimizer may change them.
  """
  builder = columns._LazyBuilder(features)
  values = []
  lengths = []
  for column in feature_columns:
    with tf.compat.v1.variable_scope(None, column._var_scope_name):
      value, length = column._get_sequence_dense_tensor(
        builder, weight_collections=weight_collections, trainable=trainable
      )
      size = column._variable_shape.num_elements()
      shape = tf.shape(value)
      values.append(tf.reshape(value, [shape[0], shape[1], size]))
      lengths.append(length)
  for results in (values, lengths):
    columns._verify_static_batch_size_equality(results, feature_columns)
  return values, lengths


def is_of_sequences(column: Any) -> bool:
  """Returns whether a column can be in a layer of sequences."""
  return isinstance(column, columns._SequenceDenseColumn)
