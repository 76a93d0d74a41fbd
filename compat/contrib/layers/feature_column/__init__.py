"""Feature columns of tf.contrib.layers, those before tf.feature_column."""

from typing import Any

from compat.contrib.layers.feature_column import dense, sparse
from compat.contrib.layers.feature_column.columns import (
  bucketized_column,
  crossed_column,
  embedding_column,
  one_hot_column,
  real_valued_column,
  scattered_embedding_column,
  shared_embedding_columns,
  sparse_column_with_hash_bucket,
  sparse_column_with_integerized_feature,
  sparse_column_with_keys,
  sparse_column_with_vocabulary_file,
  weighted_sparse_column,
)
from compat.contrib.layers.feature_column.models import (
  check_feature_columns,
  input_from_feature_columns,
  joint_weighted_sum_from_feature_columns,
  sequence_input_from_feature_columns,
  transform_features,
  weighted_sum_from_feature_columns,
)
from compat.contrib.layers.feature_column.parsing import (
  create_feature_spec_for_parsing,
  infer_real_valued_columns,
  make_place_holder_tensors_for_base_features,
  parse_feature_columns_from_examples,
  parse_feature_columns_from_sequence_examples,
)

__all__ = [
  "bucketized_column",
  "check_feature_columns",
  "create_feature_spec_for_parsing",
  "crossed_column",
  "embedding_column",
  "infer_real_valued_columns",
  "input_from_feature_columns",
  "joint_weighted_sum_from_feature_columns",
  "make_place_holder_tensors_for_base_features",
  "one_hot_column",
  "parse_feature_columns_from_examples",
  "parse_feature_columns_from_sequence_examples",
  "real_valued_column",
  "scattered_embedding_column",
  "sequence_input_from_feature_columns",
  "shared_embedding_columns",
  "sparse_column_with_hash_bucket",
  "sparse_column_with_integerized_feature",
  "sparse_column_with_keys",
  "sparse_column_with_vocabulary_file",
  "transform_features",
  "weighted_sparse_column",
  "weighted_sum_from_feature_columns",
]


def __getattr__(name: str) -> Any:
  # Programs told columns apart by 1.15's classes: _RealValuedColumn and others.
  for module in (dense, sparse):
    if name.endswith("Column") and hasattr(module, name.removeprefix("_")):
      return getattr(module, name.removeprefix("_"))
  raise AttributeError(f"{__name__} has no {name}.")
