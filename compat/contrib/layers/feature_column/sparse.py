"""Columns of ids: of words, of integers, with weights, and crosses of them."""

import collections
from typing import Any

from compat.contrib import lookup
from compat.contrib.layers import crosses
from compat.contrib.layers.feature_column.column import (
  FeatureColumn,
  LinearLookup,
  of_rank,
)
from compat.private.contrib.column_bases import CategoricalColumn

import tensorflow as tf

v1 = tf.compat.v1


class SparseIdLookupConfig(
  collections.namedtuple(
    "_SparseIdLookupConfig",
    [
      "vocabulary_file",
      "keys",
      "num_oov_buckets",
      "vocab_size",
      "default_value",
    ],
    defaults=[None, None, 0, None, -1],
  )
):
  """Where the ids of words come from: a file, or a tuple of keys."""


class SparseColumn(
  FeatureColumn,
  CategoricalColumn,
  collections.namedtuple(
    "_SparseColumn",
    [
      "column_name",
      "is_integerized",
      "bucket_size",
      "lookup_config",
      "combiner",
      "dtype",
    ],
    defaults=[False, None, None, "sum", tf.string],
  ),
):
  """Words or integers, and an id for each."""

  def __new__(cls, *args: Any, **kwargs: Any) -> "SparseColumn":
    """Makes a column, after checks of its sizes and type."""
    made = super().__new__(cls, *args, **kwargs)
    if made.dtype != tf.string and not made.dtype.is_integer:
      raise ValueError(
        f"dtype={made.dtype.name} of the column {made.name} must be a string "
        "or an integer."
      )
    if made.is_integerized and not made.dtype.is_integer:
      raise ValueError(
        f"dtype={made.dtype.name} of the column {made.name} must be an integer."
      )
    if made.lookup_config is None and (made.bucket_size or 0) < 1:
      raise ValueError(
        f"bucket_size={made.bucket_size} of the column {made.name} must be at "
        "least 1."
      )
    return made

  @property
  def name(self) -> str:
    """The name of the feature."""
    return str(self.column_name)

  @property
  def length(self) -> int:
    """How many different ids there are."""
    if self.bucket_size is not None:
      return int(self.bucket_size)
    config = self.lookup_config
    return int(config.vocab_size + config.num_oov_buckets)

  @property
  def config(self) -> dict[str, Any]:
    """How the feature is parsed."""
    return {self.column_name: tf.io.VarLenFeature(self.dtype)}

  def id_tensor(self, transformed: Any) -> Any:
    """Returns the ids."""
    return transformed

  def weight_tensor(self, transformed: Any) -> Any:
    """Returns the weights of the ids, which are none."""
    del transformed

  def linear_lookup(self, transformed: Any) -> LinearLookup | None:
    """Returns how a linear model reads it."""
    return LinearLookup(transformed, None, self.length, self.combiner)

  def layer(self, *args: Any, **kwargs: Any) -> Any:
    """Raises ValueError: an input layer cannot have it."""
    raise ValueError(
      f"the column {self.name} is sparse; put it into an embedding_column or a "
      "one_hot_column."
    )

  def transformed(self, inputs: Any) -> Any:
    """Returns the ids, a SparseTensor."""
    values = inputs.get(self.name)
    if not isinstance(values, tf.SparseTensor):
      values = of_rank(values, 2, self.name)
      missing: Any = "" if values.dtype == tf.string else -1
      places = tf.where(tf.not_equal(values, missing))
      values = tf.SparseTensor(
        places, tf.gather_nd(values, places), tf.shape(values, tf.int64)
      )
    return self.ids_of(values)

  def ids_of(self, values: Any) -> Any:
    """Returns the ids of words or integers, both SparseTensors."""
    raise NotImplementedError

  def is_compatible(self, other: "SparseColumn") -> bool:
    """Returns whether another column may have the same embedding."""
    if self.lookup_config and other.lookup_config:
      return bool(self.lookup_config == other.lookup_config)
    same_type = self.dtype == other.dtype or (
      self.dtype.is_integer and other.dtype.is_integer
    )
    return bool(self.length == other.length and same_type)


def _with_values(sparse: Any, values: Any) -> Any:
  return tf.SparseTensor(sparse.indices, values, sparse.dense_shape)


def _as_words(sparse: Any) -> Any:
  if sparse.dtype == tf.string:
    return sparse
  return _with_values(sparse, tf.strings.as_string(sparse.values))


class SparseColumnIntegerized(SparseColumn):
  """Integers that are ids already."""

  def ids_of(self, values: Any) -> Any:
    """Returns the integers, modulo the number of ids."""
    size = tf.cast(self.bucket_size, values.dtype)
    return _with_values(values, tf.math.floormod(values.values, size))


class SparseColumnHashed(SparseColumn):
  """Words whose hashes are their ids."""

  hash_keys: list[list[int]] | None = None

  def ids_of(self, values: Any) -> Any:
    """Returns the hashes; with more than one key, one after another."""
    words = _as_words(values).values if self.dtype.is_integer else values.values
    if not self.hash_keys:
      return _with_values(
        values, tf.strings.to_hash_bucket_fast(words, self.bucket_size)
      )
    return tf.sparse.concat(
      1,
      [
        _with_values(
          values, tf.strings.to_hash_bucket_strong(words, self.bucket_size, key)
        )
        for key in self.hash_keys
      ],
    )


class SparseColumnKeys(SparseColumn):
  """Words whose places among the keys are their ids."""

  def ids_of(self, values: Any) -> Any:
    """Returns the places."""
    table = lookup.index_table_from_tensor(
      self.lookup_config.keys,
      default_value=self.lookup_config.default_value,
      dtype=self.dtype,
      name="lookup",
    )
    return table.lookup(values)


class SparseColumnVocabulary(SparseColumn):
  """Words whose places among the lines of a file are their ids."""

  def ids_of(self, values: Any) -> Any:
    """Returns the places."""
    config = self.lookup_config
    table = lookup.index_table_from_file(
      config.vocabulary_file,
      config.num_oov_buckets,
      config.vocab_size,
      config.default_value,
      name=f"{self.name}_lookup",
    )
    return table.lookup(_as_words(values) if self.dtype.is_integer else values)


class WeightedSparseColumn(
  FeatureColumn,
  CategoricalColumn,
  collections.namedtuple(
    "_WeightedSparseColumn",
    ["sparse_id_column", "weight_column_name", "dtype"],
  ),
):
  """Ids of another column, and a feature that is their weights."""

  @property
  def name(self) -> str:
    """Of both features."""
    return f"{self.sparse_id_column.name}_weighted_by_{self.weight_column_name}"

  @property
  def length(self) -> int:
    """How many different ids there are."""
    return int(self.sparse_id_column.length)

  @property
  def combiner(self) -> str:
    """That of the ids."""
    return str(self.sparse_id_column.combiner)

  @property
  def lookup_config(self) -> Any:
    """That of the ids."""
    return self.sparse_id_column.lookup_config

  @property
  def config(self) -> dict[str, Any]:
    """How both features are parsed."""
    return {
      **self.sparse_id_column.config,
      self.weight_column_name: tf.io.VarLenFeature(self.dtype),
    }

  def id_tensor(self, transformed: Any) -> Any:
    """Returns the ids."""
    return transformed[0]

  def weight_tensor(self, transformed: Any) -> Any:
    """Returns the weights."""
    return transformed[1]

  def linear_lookup(self, transformed: Any) -> LinearLookup | None:
    """Returns how a linear model reads it."""
    ids, weights = transformed
    return LinearLookup(ids, weights, self.length, self.combiner)

  def layer(self, *args: Any, **kwargs: Any) -> Any:
    """Raises ValueError: an input layer cannot have it."""
    raise ValueError(
      f"the column {self.name} is sparse; put it into an embedding_column or a "
      "one_hot_column."
    )

  def transformed(self, inputs: Any) -> Any:
    """Returns ids and weights, SparseTensors."""
    weights = inputs.get(self.weight_column_name)
    if not isinstance(weights, tf.SparseTensor):
      weights = tf.sparse.from_dense(weights)
    if not self.dtype.is_floating:
      weights = tf.cast(weights, tf.float32)
    return inputs.get(self.sparse_id_column), weights

  def is_compatible(self, other: Any) -> bool:
    """Returns whether another column may have the same embedding."""
    if isinstance(other, WeightedSparseColumn):
      other = other.sparse_id_column
    return bool(self.sparse_id_column.is_compatible(other))

  def parents(self) -> Any:
    """The column of the ids."""
    return (self.sparse_id_column,)


class CrossedColumn(
  FeatureColumn,
  CategoricalColumn,
  collections.namedtuple(
    "_CrossedColumn",
    [
      "columns",
      "hash_bucket_size",
      "hash_key",
      "combiner",
      "ckpt_to_load_from",
      "tensor_name_in_ckpt",
    ],
  ),
):
  """All combinations of the values of some columns, hashed."""

  @property
  def name(self) -> str:
    """Of all columns."""
    return "_X_".join(sorted(column.name for column in self.columns))

  @property
  def length(self) -> int:
    """How many different ids there are."""
    return int(self.hash_bucket_size)

  @property
  def config(self) -> dict[str, Any]:
    """How the features of all columns are parsed."""
    return {
      name: feature
      for column in self.columns
      for name, feature in column.config.items()
    }

  def id_tensor(self, transformed: Any) -> Any:
    """Returns the ids."""
    return transformed

  def weight_tensor(self, transformed: Any) -> Any:
    """Returns the weights of the ids, which are none."""
    del transformed

  def linear_lookup(self, transformed: Any) -> LinearLookup | None:
    """Returns how a linear model reads it."""
    return LinearLookup(transformed, None, self.length, self.combiner)

  def layer(self, *args: Any, **kwargs: Any) -> Any:
    """Raises ValueError: an input layer cannot have it."""
    raise ValueError(
      f"the column {self.name} is sparse; put it into an embedding_column."
    )

  @property
  def checkpoint(self) -> tuple[str, str] | None:
    """The checkpoint and tensor that its weights start from; None for none."""
    if self.ckpt_to_load_from is None:
      return None
    return self.ckpt_to_load_from, self.tensor_name_in_ckpt

  def transformed(self, inputs: Any) -> Any:
    """Returns the ids, a SparseTensor."""
    return crosses.sparse_feature_cross(
      [
        inputs.get(one.name)
        if isinstance(one, SparseColumn)
        else one.id_tensor(inputs.get(one))
        for one in self._leaves()
      ],
      hashed_output=True,
      num_buckets=self.hash_bucket_size,
      hash_key=self.hash_key,
      name="cross",
    )

  def _leaves(self) -> list[Any]:
    """The columns, with those of a cross in its place."""
    leaves: list[Any] = []
    for one in self.columns:
      leaves += one._leaves() if isinstance(one, CrossedColumn) else [one]
    return leaves

  def parents(self) -> Any:
    """The columns that are crossed."""
    return self.columns
