"""The parts that all columns of tf.contrib.layers share."""

import dataclasses
from collections.abc import Iterable, MutableMapping
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class LinearLookup:
  """How a linear model reads a column: one weight per id and output.

  Attributes:
    ids: a SparseTensor.
    weights: a SparseTensor of the same places, or None.
    num_ids: ids are below it.
    combiner: of the ids of a row.
  """

  ids: Any
  weights: Any
  num_ids: int
  combiner: str


class FeatureColumn:
  """A column is also a tuple of what it was made of; its key is that as text.

  It is transformed once: what it has made of the features is kept with them,
  under the column itself.
  """

  _not_in_key: tuple[str, ...] = ()

  @property
  def name(self) -> str:
    """The name of its variables' scope."""
    raise NotImplementedError

  @property
  def config(self) -> dict[str, Any]:
    """How its features are parsed, by their names."""
    raise NotImplementedError

  @property
  def key(self: Any) -> str:
    """The key that tells it from other columns, and sorts them."""
    if not self._not_in_key:
      return str(self)
    values = [
      f"{field}={getattr(self, field)}"
      for field in self._fields
      if field not in self._not_in_key
    ]
    return f"{type(self).__name__}({', '.join(values)})"

  def transformed(self, inputs: Any) -> Any:
    """Returns what the column makes of features.

    Args:
      inputs: its `get` returns a feature by name, or what another column makes.
    """
    raise NotImplementedError

  def insert_transformed_feature(
    self, columns_to_tensors: MutableMapping[Any, Any]
  ) -> None:
    """Puts what it makes of the features with these, under itself."""
    columns_to_tensors[self] = self.transformed(Transformer(columns_to_tensors))

  def linear_lookup(self, transformed: Any) -> LinearLookup | None:
    """Returns how a linear model reads it; None for a matrix of numbers.

    Raises:
      ValueError: if a linear model cannot have it.
    """
    del transformed
    return None

  def layer(
    self,
    transformed: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    output_rank: int = 2,
  ) -> Any:
    """Returns its part of an input layer, in which each example is a vector.

    Args:
      transformed: what it has made of the features.
      weight_collections: where its variables go.
      trainable: whether an optimizer may change them.
      output_rank: 2, or 3 for sequences.

    Raises:
      ValueError: if an input layer cannot have it.
    """
    raise NotImplementedError

  @property
  def checkpoint(self) -> tuple[str, str] | None:
    """The checkpoint, and the name in it, that its variable starts from."""
    return None

  def parents(self) -> Iterable["FeatureColumn"]:
    """The columns that it is made of."""
    return ()


def check_is_of_layers(column: Any) -> None:
  """Checks that a column is of this kind.

  Raises:
    TypeError: if it is of another, which other input layers take.
  """
  if not isinstance(column, FeatureColumn):
    raise TypeError(
      f"{column!r} is no column of tf.contrib.layers; those of "
      "tf.feature_column go into tf.compat.v1.feature_column.input_layer, and "
      "those of sequences into tf.contrib.feature_column.sequence_input_layer."
    )


class Transformer:
  """Features by name, and what columns make of them, each once."""

  def __init__(self, columns_to_tensors: MutableMapping[Any, Any]):
    """Keeps what columns make in the mapping that is given."""
    self._tensors = columns_to_tensors

  def get(self, key: Any) -> Any:
    """Returns a feature by name, or what a column makes of the features.

    Raises:
      ValueError: if there is no such feature.
      TypeError: if the key is neither a name nor a column.
    """
    if key in self._tensors:
      return self._tensors[key]
    if isinstance(key, str):
      names = sorted(one for one in self._tensors if isinstance(one, str))
      raise ValueError(f"there is no feature {key!r} among {names}.")
    check_is_of_layers(key)
    key.insert_transformed_feature(self._tensors)
    return self._tensors[key]


def of_rank(tensor: Any, rank: int, name: str) -> Any:
  """Returns a tensor with the dimensions after the last one joined to it.

  Args:
    tensor: dense or sparse, of this rank, of more, or of one less.
    rank: of the result.
    name: of the column, for the error.

  Raises:
    ValueError: if the tensor has too few dimensions.
  """
  now = tensor.shape.rank
  if now is not None and rank > now + 1:
    raise ValueError(
      f"the column {name} is of rank {now}; it needs {rank}: sequences are "
      "[batch, steps, size], all others [batch, size]."
    )
  if now == rank:
    return tensor
  is_sparse = isinstance(tensor, tf.SparseTensor)
  if now is not None and now < rank:
    if is_sparse:
      return tf.sparse.reshape(tensor, tf.concat([tensor.dense_shape, [1]], 0))
    return tf.expand_dims(tensor, -1)
  if is_sparse:
    start = tensor.dense_shape[: rank - 1]
    return tf.sparse.reshape(tensor, tf.concat([start, [-1]], 0))
  sizes = tensor.shape.as_list() if now is not None else None
  flat = tf.reshape(tensor, tf.concat([tf.shape(tensor)[: rank - 1], [-1]], 0))
  if sizes is not None:
    rest = sizes[rank - 1 :]
    last = None if None in rest else int(tf.TensorShape(rest).num_elements())
    flat.set_shape([*sizes[: rank - 1], last])
  return flat
