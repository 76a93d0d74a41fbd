"""Columns of numbers: real values, buckets, one hot, embeddings."""

import collections
from typing import Any

from compat.contrib import framework
from compat.contrib.layers import embedding_lookups, scattered
from compat.contrib.layers.feature_column.column import (
  FeatureColumn,
  LinearLookup,
  of_rank,
)
from compat.private.contrib import partitions
from compat.private.contrib.column_bases import CategoricalColumn, DenseColumn

import tensorflow as tf

v1 = tf.compat.v1


class RealValuedColumn(
  FeatureColumn,
  DenseColumn,
  collections.namedtuple(
    "_RealValuedColumn",
    ["column_name", "dimension", "default_value", "dtype", "normalizer"],
  ),
):
  """Numbers, as they are or normalized."""

  _not_in_key = ("normalizer",)

  @property
  def name(self) -> str:
    """The name of the feature."""
    return str(self.column_name)

  @property
  def width(self) -> int:
    """How many numbers an example has."""
    return int(self.dimension)

  @property
  def normalizer_fn(self) -> Any:
    """The normalizer."""
    return self.normalizer

  @property
  def config(self) -> dict[str, Any]:
    """How the feature is parsed."""
    default = self.default_value and list(self.default_value)
    return {
      self.column_name: tf.io.FixedLenFeature(
        [self.dimension], self.dtype, default
      )
    }

  def transformed(self, inputs: Any) -> Any:
    """Returns the numbers, normalized, as floats."""
    values = inputs.get(self.name)
    if self.normalizer is not None:
      values = self.normalizer(values)
    return tf.cast(values, tf.float32)

  def layer(
    self,
    transformed: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    output_rank: int = 2,
  ) -> Any:
    """Returns the numbers."""
    return of_rank(transformed, output_rank, self.name)

  def dense(self, transformed: Any, *args: Any) -> Any:
    """Returns the numbers."""
    del args
    return transformed


class BucketizedColumn(
  FeatureColumn,
  CategoricalColumn,
  DenseColumn,
  collections.namedtuple("_BucketizedColumn", ["source_column", "boundaries"]),
):
  """Numbers by the bucket that they fall into."""

  @property
  def name(self) -> str:
    """After the numbers' column."""
    return f"{self.source_column.name}_bucketized"

  @property
  def length(self) -> int:
    """How many buckets there are."""
    return len(self.boundaries) + 1

  @property
  def num_ids(self) -> int:
    """How many there are for all numbers of an example."""
    return self.length * int(self.source_column.dimension)

  @property
  def width(self) -> int:
    """The size of an example's vector."""
    return self.num_ids

  @property
  def config(self) -> dict[str, Any]:
    """How the numbers are parsed."""
    config: dict[str, Any] = self.source_column.config
    return config

  def transformed(self, inputs: Any) -> Any:
    """Returns each number's bucket, int32."""
    return tf.raw_ops.Bucketize(
      input=inputs.get(self.source_column), boundaries=list(self.boundaries)
    )

  def id_tensor(self, transformed: Any) -> Any:
    """Returns an id for each number; those of its place in the example."""
    size = int(self.source_column.dimension)
    batch = tf.shape(transformed)[0]
    rows = tf.repeat(tf.range(batch), size)
    places = tf.tile(tf.range(size), [batch])
    ids = tf.reshape(transformed, [-1]) + self.length * places
    return tf.SparseTensor(
      tf.cast(tf.stack([rows, places], 1), tf.int64),
      ids,
      tf.cast(tf.stack([batch, size]), tf.int64),
    )

  to_sparse_tensor = id_tensor

  def weight_tensor(self, transformed: Any) -> Any:
    """Returns the weights of the ids, which are none."""
    del transformed

  def linear_lookup(self, transformed: Any) -> LinearLookup | None:
    """Returns how a linear model reads it."""
    return LinearLookup(self.id_tensor(transformed), None, self.num_ids, "sum")

  def layer(
    self,
    transformed: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    output_rank: int = 2,
  ) -> Any:
    """Returns a 1 for each number's bucket."""
    if output_rank != 2:
      raise ValueError(f"the column {self.name} cannot be of sequences.")
    hot = tf.one_hot(tf.cast(transformed, tf.int64), self.length, 1.0, 0.0)
    return tf.reshape(hot, [-1, self.width])

  def dense(self, transformed: Any, *args: Any) -> Any:
    """Returns a 1 for each number's bucket."""
    del args
    return self.layer(transformed)

  def parents(self) -> Any:
    """The numbers' column."""
    return (self.source_column,)


class _OfIds(FeatureColumn, DenseColumn):
  """A dense column of the ids of another one."""

  sparse_id_column: Any

  @property
  def config(self) -> dict[str, Any]:
    """How the ids' features are parsed."""
    config: dict[str, Any] = self.sparse_id_column.config
    return config

  def transformed(self, inputs: Any) -> Any:
    """Returns what the other column gives."""
    return inputs.get(self.sparse_id_column)

  def dense(
    self, transformed: Any, weight_collections: Any, trainable: Any
  ) -> Any:
    """Returns the column's part of an input layer."""
    return self.layer(transformed, weight_collections, trainable)

  def parents(self) -> Any:
    """The column of the ids."""
    return (self.sparse_id_column,)


class OneHotColumn(
  _OfIds, collections.namedtuple("_OneHotColumn", ["sparse_id_column"])
):
  """A 1 for each id, or its weight."""

  @property
  def name(self) -> str:
    """After the ids' column."""
    return f"{self.sparse_id_column.name}_one_hot"

  @property
  def length(self) -> int:
    """How many different ids there are."""
    return int(self.sparse_id_column.length)

  @property
  def width(self) -> int:
    """The size of an example's vector."""
    return self.length

  def layer(
    self,
    transformed: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    output_rank: int = 2,
  ) -> Any:
    """Returns the sum of a row's ones or weights, by id."""
    column = self.sparse_id_column
    ids = of_rank(column.id_tensor(transformed), output_rank, self.name)
    weights = column.weight_tensor(transformed)
    if weights is not None:
      return self._weighted(ids, weights)
    known = tf.sparse.to_dense(ids, -1)
    hot = tf.one_hot(known, self.length, 1.0, 0.0)
    return tf.reduce_sum(hot, output_rank - 1)

  def _weighted(self, ids: Any, weights: Any) -> Any:
    placed = v1.sparse_merge(ids, weights, self.length)
    dense = tf.sparse.to_dense(placed)
    return tf.reshape(
      dense, tf.concat([tf.shape(dense)[:-1], [self.length]], 0)
    )


def _variable(
  name: str, shape: list[int], initializer: Any, trainable: bool, where: Any
) -> Any:
  return framework.model_variable(
    name,
    shape,
    tf.float32,
    initializer,
    trainable=trainable,
    collections=where,
  )


class EmbeddingColumn(
  _OfIds,
  collections.namedtuple(
    "_EmbeddingColumn",
    [
      "sparse_id_column",
      "dimension",
      "combiner",
      "initializer",
      "ckpt_to_load_from",
      "tensor_name_in_ckpt",
      "shared_embedding_name",
      "shared_vocab_size",
      "max_norm",
      "trainable",
    ],
  ),
):
  """A vector for each id, to be learnt."""

  _not_in_key = ("initializer",)

  @property
  def name(self) -> str:
    """After the ids' column."""
    shared = "" if self.shared_embedding_name is None else "_shared"
    return f"{self.sparse_id_column.name}{shared}_embedding"

  @property
  def length(self) -> int:
    """How many vectors there are."""
    if self.shared_vocab_size is not None:
      return int(self.shared_vocab_size)
    return int(self.sparse_id_column.length)

  @property
  def width(self) -> int:
    """The size of a vector."""
    return int(self.dimension)

  @property
  def checkpoint(self) -> tuple[str, str] | None:
    """The checkpoint and tensor that the vectors start from; None for none."""
    if self.ckpt_to_load_from is None:
      return None
    return self.ckpt_to_load_from, self.tensor_name_in_ckpt

  def linear_lookup(self, transformed: Any) -> LinearLookup | None:
    """Raises ValueError: a linear model cannot have it."""
    raise ValueError(
      f"the column {self.name} is an embedding; a linear model takes the "
      f"column {self.sparse_id_column.name} itself."
    )

  def layer(
    self,
    transformed: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    output_rank: int = 2,
  ) -> Any:
    """Returns the combined vectors of a row."""
    column = self.sparse_id_column
    ids = of_rank(column.id_tensor(transformed), output_rank, self.name)
    weights = column.weight_tensor(transformed)
    if weights is not None:
      weights = of_rank(weights, output_rank, self.name)
    vectors = self._vectors(weight_collections, trainable and self.trainable)
    start_from(self.checkpoint, vectors)
    return embedding_lookups.safe_embedding_lookup_sparse(
      vectors,
      ids,
      weights,
      self.combiner,
      name=f"{self.name}weights",
      max_norm=self.max_norm,
    )

  def _vectors(self, where: Any, trainable: bool) -> list[Any]:
    """Returns the variable's parts; that of a shared name is made once."""
    shape = [self.length, self.width]
    shared = self.shared_embedding_name
    if shared is None:
      return partitions.parts(
        _variable("weights", shape, self.initializer, trainable, where)
      )
    known = v1.get_collection_ref(
      f"SHARED_EMBEDDING_COLLECTION_{shared.upper()}"
    )
    if not known:
      known.append(_variable(shared, shape, self.initializer, trainable, where))
    if known[0].shape != shape:
      raise ValueError(
        f"shared_embedding_name={shared!r} is that of an embedding of shape "
        f"{known[0].shape}, not {shape}; give this one another name."
      )
    return partitions.parts(known[0])


def start_from(
  checkpoint: tuple[str, str] | None, variables: list[Any]
) -> None:
  """Makes a variable start from a checkpoint, if there is one.

  Args:
    checkpoint: its path, and the name in it.
    variables: the variable's parts.
  """
  if checkpoint is not None:
    path, name = checkpoint
    whole = variables if len(variables) > 1 else variables[0]
    v1.train.init_from_checkpoint(path, {name: whole})


class ScatteredEmbeddingColumn(
  FeatureColumn,
  DenseColumn,
  collections.namedtuple(
    "_ScatteredEmbeddingColumn",
    ["column_name", "size", "dimension", "hash_key", "combiner", "initializer"],
  ),
):
  """Vectors whose elements are spread over one variable by a hash."""

  _not_in_key = ("initializer",)

  @property
  def name(self) -> str:
    """After the feature."""
    return f"{self.column_name}_scattered_embedding"

  @property
  def width(self) -> int:
    """The size of a vector."""
    return int(self.dimension)

  @property
  def config(self) -> dict[str, Any]:
    """How the feature is parsed."""
    return {self.column_name: tf.io.VarLenFeature(tf.string)}

  def transformed(self, inputs: Any) -> Any:
    """Returns the words."""
    return inputs.get(self.column_name)

  def linear_lookup(self, transformed: Any) -> LinearLookup | None:
    """Raises ValueError: a linear model cannot have it."""
    raise ValueError(f"the column {self.name} is an embedding; use its words.")

  def layer(
    self,
    transformed: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    output_rank: int = 2,
  ) -> Any:
    """Returns the combined vectors of a row."""
    values = _variable(
      "weights", [self.size], self.initializer, trainable, weight_collections
    )
    return scattered.scattered_embedding_lookup_sparse(
      values,
      of_rank(transformed, output_rank, self.name),
      self.dimension,
      self.combiner,
      name="lookup",
      hash_key=self.hash_key,
    )

  def dense(
    self, transformed: Any, weight_collections: Any, trainable: Any
  ) -> Any:
    """Returns the column's part of an input layer."""
    return self.layer(transformed, weight_collections, trainable)
