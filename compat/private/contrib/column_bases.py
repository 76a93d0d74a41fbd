"""The first kind of feature columns of TensorFlow, whose classes are private.

Tested on TensorFlow 2.15.1 and 2.21.0, where they are in the module
`tensorflow.python.feature_column.feature_column` still. A column of tf.contrib
is one of them, so that tf.feature_column.input_layer and the canned estimators
take it: they ask for `_num_buckets`, `_variable_shape`, `_parse_example_spec`,
`_transform_feature`, `_get_sparse_tensors` and `_get_dense_tensor`. The classes
below have these, and ask a column of tf.contrib by public names instead.
"""

from typing import Any

import tensorflow as tf
from tensorflow.python.feature_column import feature_column as columns


class _Column:
  @property
  def _parse_example_spec(self: Any) -> Any:
    return self.config

  def _transform_feature(self: Any, inputs: Any) -> Any:
    return self.transformed(inputs)


class CategoricalColumn(_Column, columns._CategoricalColumn):
  """A column of ids that `length` is the number of."""

  @property
  def _num_buckets(self) -> int:
    return self.num_ids

  @property
  def num_ids(self: Any) -> int:
    """How many different ids there are."""
    return int(self.length)

  def _get_sparse_tensors(
    self, inputs: Any, weight_collections: Any = None, trainable: Any = None
  ) -> Any:
    found = inputs.get(self)
    return columns._CategoricalColumn.IdWeightPair(
      self.id_tensor(found), self.weight_tensor(found)
    )


class DenseColumn(_Column, columns._DenseColumn):
  """A column of `width` numbers."""

  @property
  def _variable_shape(self) -> tf.TensorShape:
    return tf.TensorShape([self.width])

  def _get_dense_tensor(
    self, inputs: Any, weight_collections: Any = None, trainable: Any = None
  ) -> Any:
    return self.dense(inputs.get(self), weight_collections, trainable)
