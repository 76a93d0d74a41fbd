"""Input layers and weighted sums of columns."""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from compat.contrib import framework
from compat.contrib.layers import embedding_lookups
from compat.contrib.layers.feature_column import dense, sparse
from compat.contrib.layers.feature_column.column import (
  FeatureColumn,
  LinearLookup,
  Transformer,
  check_is_of_layers,
  of_rank,
)
from compat.private.contrib.partitions import parts

import tensorflow as tf

v1 = tf.compat.v1

_OF_SEQUENCES = (
  dense.OneHotColumn,
  dense.EmbeddingColumn,
  dense.RealValuedColumn,
)
_NOT_OF_SEQUENCES = (
  dense.ScatteredEmbeddingColumn,
  dense.BucketizedColumn,
  sparse.CrossedColumn,
)


def check_feature_columns(feature_columns: Iterable[Any]) -> None:
  """Checks that columns differ.

  Raises:
    ValueError: if two have the same key, or they are a dict.
    TypeError: if one is no column of tf.contrib.layers.
  """
  if isinstance(feature_columns, dict):
    raise ValueError("feature_columns is a dict; it must be a list or a set.")
  keys = set()
  for column in feature_columns:
    check_is_of_layers(column)
    if column.key in keys:
      raise ValueError(
        f"feature_columns has {column.name} twice, or two columns that are "
        "almost the same; leave one out."
      )
    keys.add(column.key)


def _sorted(feature_columns: Iterable[Any]) -> list[Any]:
  check_feature_columns(feature_columns)
  return sorted(set(feature_columns), key=lambda column: str(column.key))


def transform_features(
  features: Mapping[Any, Any], feature_columns: Iterable[Any]
) -> dict[Any, Any]:
  """Returns what each column makes of the features.

  Args:
    features: by name.
    feature_columns: what to compute.
  """
  tensors = dict(features)
  transformer = Transformer(tensors)
  return {
    column: transformer.get(column) for column in _sorted(feature_columns)
  }


def input_from_feature_columns(
  columns_to_tensors: Mapping[Any, Any],
  feature_columns: Iterable[Any],
  weight_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
  cols_to_outs: MutableMapping[Any, Any] | None = None,
) -> Any:
  """Returns one matrix of all columns, in the order of their keys.

  Args:
    columns_to_tensors: features by name.
    feature_columns: what it is made of.
    weight_collections: where its variables go.
    trainable: whether an optimizer may change them.
    scope: the variable scope; "input_from_feature_columns" by default.
    cols_to_outs: gets each column's part.

  Returns:
    [batch, size], float.

  Raises:
    ValueError: if a column cannot be in an input layer, or is there twice.
    TypeError: if one is no column of tf.contrib.layers.
  """
  if cols_to_outs is not None and not isinstance(cols_to_outs, dict):
    raise ValueError(f"cols_to_outs={cols_to_outs!r} must be a dict or None.")
  return _input_layer(
    columns_to_tensors,
    feature_columns,
    weight_collections,
    trainable,
    v1.variable_scope(
      scope, "input_from_feature_columns", columns_to_tensors.values()
    ),
    2,
    {} if cols_to_outs is None else cols_to_outs,
  )


def sequence_input_from_feature_columns(
  columns_to_tensors: Mapping[Any, Any],
  feature_columns: Iterable[Any],
  weight_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> Any:
  """Returns one sequence of all columns, in the order of their keys.

  Args:
    columns_to_tensors: features by name.
    feature_columns: real valued, one hot and embedding columns.
    weight_collections: where its variables go.
    trainable: whether an optimizer may change them.
    scope: the variable scope; "sequence_input_from_feature_columns" by default.

  Returns:
    [batch, steps, size], float.

  Raises:
    ValueError: if a column, or one that it is made of, is of another kind.
    TypeError: if one is no column of tf.contrib.layers.
  """
  for column in feature_columns:
    check_is_of_layers(column)
    if not isinstance(column, _OF_SEQUENCES):
      raise ValueError(f"{column.name} cannot be of sequences.")
    for parent in column.parents():
      if isinstance(parent, _NOT_OF_SEQUENCES):
        raise ValueError(
          f"{parent.name} of the column {column.name} cannot be of sequences."
        )
  return _input_layer(
    columns_to_tensors,
    feature_columns,
    weight_collections,
    trainable,
    v1.variable_scope(
      scope,
      "sequence_input_from_feature_columns",
      columns_to_tensors.values(),
    ),
    3,
    {},
  )


def _input_layer(
  features: Mapping[Any, Any],
  feature_columns: Iterable[Any],
  weight_collections: Any,
  trainable: bool,
  scope: Any,
  rank: int,
  outputs: MutableMapping[Any, Any],
) -> Any:
  columns = _sorted(feature_columns)
  collections = _with_global(weight_collections)
  transformer = Transformer(dict(features))
  found = []
  with scope:
    for column in columns:
      with v1.variable_scope(None, column.name, features.values()):
        transformed = transformer.get(column)
        if rank == 3:
          transformed = tf.nest.map_structure(
            lambda one, name=column.name: of_rank(one, 3, name), transformed
          )
        outputs[column] = column.layer(
          transformed, collections, trainable, rank
        )
        found.append(outputs[column])
    return tf.concat(found, rank - 1)


def _with_global(collections: Any) -> Any:
  if not collections:
    return collections
  return sorted({*collections, v1.GraphKeys.GLOBAL_VARIABLES})


def _weights(
  shape: list[Any],
  trainable: bool,
  collections: Any,
  name: str = "weights",
) -> Any:
  return framework.model_variable(
    name,
    shape,
    initializer=v1.zeros_initializer(),
    trainable=trainable,
    collections=collections,
  )


def weighted_sum_from_feature_columns(
  columns_to_tensors: Mapping[Any, Any],
  feature_columns: Iterable[Any],
  num_outputs: int,
  weight_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> tuple[Any, dict[Any, Any], Any]:
  """Returns a linear model of columns.

  Args:
    columns_to_tensors: features by name.
    feature_columns: what it is made of.
    num_outputs: how many outputs it has.
    weight_collections: where its variables go.
    trainable: whether an optimizer may change them.
    scope: the variable scope; "weighted_sum_from_feature_columns" by default.

  Returns:
    [batch, num_outputs], float; each column's variables, in a list; the bias.

  Raises:
    ValueError: if a column cannot be in a linear model, or is there twice.
  """
  columns = _sorted(feature_columns)
  features = columns_to_tensors
  transformer = Transformer(dict(features))
  sums = []
  variables = {}
  with v1.variable_scope(
    scope, "weighted_sum_from_feature_columns", features.values()
  ):
    for column in columns:
      transformed = transformer.get(column)
      lookup = column.linear_lookup(transformed)
      with v1.variable_scope(None, column.name, features.values()):
        if lookup is None:
          variables[column], one = _of_numbers(
            of_rank(transformed, 2, column.name),
            num_outputs,
            trainable,
            weight_collections,
          )
        else:
          variables[column], one = _of_ids(
            column, lookup, num_outputs, trainable, weight_collections
          )
      sums.append(tf.reshape(one, [-1, num_outputs]))
      dense.start_from(column.checkpoint, variables[column])
    return _with_bias(
      tf.add_n(sums), variables, num_outputs, weight_collections, trainable
    )


def _of_numbers(
  numbers: Any, num_outputs: int, trainable: bool, collections: Any
) -> tuple[list[Any], Any]:
  weight = _weights(
    [numbers.shape[1], num_outputs], trainable, collections, "weight"
  )
  return [weight], tf.matmul(numbers, weight)


def _of_ids(
  column: FeatureColumn,
  lookup: LinearLookup,
  num_outputs: int,
  trainable: bool,
  collections: Any,
) -> tuple[list[Any], Any]:
  weights = parts(
    _weights([lookup.num_ids, num_outputs], trainable, collections)
  )
  return weights, embedding_lookups.safe_embedding_lookup_sparse(
    weights,
    lookup.ids,
    lookup.weights,
    lookup.combiner,
    name=f"{column.name}_weights",
  )


def _with_bias(
  without: Any,
  variables: Any,
  num_outputs: int,
  collections: Any,
  trainable: bool,
) -> tuple[Any, Any, Any]:
  bias = _weights(
    [num_outputs], trainable, _with_global(collections), "bias_weight"
  )
  return tf.nn.bias_add(without, bias), variables, bias


def joint_weighted_sum_from_feature_columns(
  columns_to_tensors: Mapping[Any, Any],
  feature_columns: Iterable[Any],
  num_outputs: int,
  weight_collections: Any = None,
  trainable: bool = True,
  scope: Any = None,
) -> tuple[Any, Any, Any]:
  """Returns a linear model of columns of ids, in one variable.

  Args:
    columns_to_tensors: features by name.
    feature_columns: of ids, without weights, whose combiner is "sum".
    num_outputs: how many outputs it has.
    weight_collections: where its variables go.
    trainable: whether an optimizer may change them.
    scope: the variable scope; "joint_weighted_sum_from_feature_columns" by
      default.

  Returns:
    [batch, num_outputs], float; the variable's parts; the bias.

  Raises:
    ValueError: if a column has weights, another combiner, or is there twice.
    NotImplementedError: if a column is not of ids.
  """
  columns = _sorted(feature_columns)
  features = columns_to_tensors
  transformer = Transformer(dict(features))
  with v1.variable_scope(
    scope, "joint_weighted_sum_from_feature_columns", features.values()
  ):
    ids = []
    size = 0
    for column in columns:
      lookup = column.linear_lookup(transformer.get(column))
      _check_joint(column, lookup)
      values = lookup.ids.values + tf.cast(size, lookup.ids.dtype)
      ids.append(
        tf.SparseTensor(
          lookup.ids.indices,
          tf.cast(values, tf.int64),
          lookup.ids.dense_shape,
        )
      )
      size += lookup.num_ids
    with v1.variable_scope(None, "linear_weights", features.values()):
      weights = parts(
        _weights([size, num_outputs], trainable, weight_collections)
      )
      found = embedding_lookups.safe_embedding_lookup_sparse(
        weights, tf.sparse.concat(1, ids), combiner="sum", name="_weights"
      )
    return _with_bias(
      found, weights, num_outputs, weight_collections, trainable
    )


def _check_joint(column: Any, lookup: LinearLookup | None) -> None:
  if lookup is None:
    raise NotImplementedError(
      f"the column {column.name} is not of ids; bucketize it, or use "
      "weighted_sum_from_feature_columns."
    )
  if lookup.weights is not None or lookup.combiner != "sum":
    raise ValueError(
      f"the column {column.name} has weights, or another combiner than the sum;"
      " use weighted_sum_from_feature_columns."
    )
