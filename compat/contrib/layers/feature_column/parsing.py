"""How examples are parsed for columns."""

from collections.abc import Iterable, Mapping
from typing import Any

from compat.contrib.layers.feature_column import columns, models
from compat.contrib.layers.feature_column.column import (
  Transformer,
  check_is_of_layers,
)

import tensorflow as tf

v1 = tf.compat.v1


def create_feature_spec_for_parsing(
  feature_columns: Mapping[Any, Any] | Iterable[Any],
) -> dict[str, Any]:
  """Returns what tf.parse_example needs to know for columns.

  Args:
    feature_columns: the columns, or a dict whose values they are.

  Raises:
    TypeError: if one is no column of tf.contrib.layers.
  """
  if isinstance(feature_columns, Mapping):
    feature_columns = feature_columns.values()
  spec: dict[str, Any] = {}
  for column in feature_columns:
    check_is_of_layers(column)
    spec.update(column.config)
  return spec


def make_place_holder_tensors_for_base_features(
  feature_columns: Mapping[Any, Any] | Iterable[Any],
) -> dict[str, Any]:
  """Returns a placeholder for each feature of columns, by its name."""
  return {
    name: v1.sparse_placeholder(feature.dtype, name=f"Placeholder_{name}")
    if isinstance(feature, tf.io.VarLenFeature)
    else v1.placeholder(
      feature.dtype, [None, feature.shape[0]], f"Placeholder_{name}"
    )
    for name, feature in create_feature_spec_for_parsing(
      feature_columns
    ).items()
  }


def parse_feature_columns_from_examples(
  serialized: Any,
  feature_columns: Iterable[Any],
  name: str | None = None,
  example_names: Any = None,
) -> dict[Any, Any]:
  """Parses examples, and transforms them.

  Args:
    serialized: strings [batch], tf.train.Examples.
    feature_columns: what to take of them.
    name: of the operation.
    example_names: of the examples, for errors.

  Returns:
    The features by name, and what each column makes of them by the column.
  """
  ordered = sorted(set(feature_columns), key=lambda column: str(column.key))
  models.check_feature_columns(feature_columns)
  tensors: dict[Any, Any] = v1.parse_example(
    serialized,
    create_feature_spec_for_parsing(feature_columns),
    name,
    example_names,
  )
  transformer = Transformer(tensors)
  for column in ordered:
    transformer.get(column)
  return tensors


def parse_feature_columns_from_sequence_examples(
  serialized: Any,
  context_feature_columns: Iterable[Any] | None,
  sequence_feature_columns: Iterable[Any] | None,
  name: str | None = None,
  example_name: Any = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
  """Parses one example with sequences.

  Args:
    serialized: a string, a tf.train.SequenceExample.
    context_feature_columns: what to take of its context.
    sequence_feature_columns: what to take of its sequences.
    name: of the operation.
    example_name: of the example, for errors.

  Returns:
    The features of the context and those of the sequences, by name.

  Raises:
    ValueError: if it is not known to be one string.
  """
  serialized = tf.reshape(serialized, [])
  context = list(context_feature_columns or [])
  sequence = list(sequence_feature_columns or [])
  for some in (context, sequence):
    models.check_feature_columns(some)
  context_features, sequence_features = v1.io.parse_single_sequence_example(
    serialized,
    create_feature_spec_for_parsing(context),
    {
      key: _of_steps(feature)
      for key, feature in create_feature_spec_for_parsing(sequence).items()
    },
    example_name,
    name,
  )
  return context_features, sequence_features


def _of_steps(feature: Any) -> Any:
  """Returns how a feature is parsed that has a value per step."""
  if isinstance(feature, tf.io.VarLenFeature):
    return feature
  # A default stands for a sequence that may be missing.
  return tf.io.FixedLenSequenceFeature(
    feature.shape, feature.dtype, feature.default_value is not None
  )


def infer_real_valued_columns(features: Any) -> list[Any]:
  """Returns columns of numbers for features that are numbers.

  Args:
    features: [batch, ...] by name, or one without a name.

  Raises:
    ValueError: if one is sparse, or not of numbers.
  """
  if not isinstance(features, Mapping):
    features = {"": features}
  return [_inferred(name, tensor) for name, tensor in features.items()]


def _inferred(name: str, tensor: Any) -> Any:
  is_dense = not isinstance(tensor, tf.SparseTensor)
  if not is_dense or not (tensor.dtype.is_integer or tensor.dtype.is_floating):
    raise ValueError(
      f"the feature {name!r}, {tensor}, is sparse or not of numbers; make its "
      "column yourself."
    )
  dimension = 1
  for size in tensor.shape.as_list()[1:]:
    dimension *= size
  return columns.real_valued_column(
    name, dimension=dimension, dtype=tensor.dtype
  )
