"""Towers: from the features of a query, or of an item, to a vector."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

v1 = tf.compat.v1
Features: TypeAlias = Mapping[str, Any]


class AnyTower(Protocol):
  """The interface of a tower; `Tower` and `OwnTower` have it."""

  @property
  def features(self) -> tuple[str, ...]:
    """The names of the features that it reads."""

  def net(self, features: Features, is_training: bool) -> tf.Tensor:
    """Returns float32 [batch, width], in the current variable scope."""


@dataclasses.dataclass(frozen=True)
class Tower:
  """Embeddings of ids, and dense features, and layers on top of both.

  Attributes:
    ids: How many ids there are of each feature of ids, by its name. Such a
      feature is an integer tensor [batch], or [batch, n] for several ids of an
      example, of which the mean counts; ids below 0 are padding.
    dense: The names of float features, [batch] or [batch, width].
    id_size: The width of each embedding.
    hidden: The widths of the layers between the features and the vector.
  """

  ids: Mapping[str, int] = dataclasses.field(default_factory=dict)
  dense: tuple[str, ...] = ()
  id_size: int = 32
  hidden: tuple[int, ...] = (64,)

  def __post_init__(self) -> None:
    """Raises ValueError if it has no feature, or a size is not above 0."""
    sizes = {
      **{f"ids[{name!r}]": size for name, size in self.ids.items()},
      "id_size": self.id_size,
      **{f"hidden[{i}]": size for i, size in enumerate(self.hidden)},
    }
    for name, size in sizes.items():
      if size < 1:
        raise ValueError(
          f"{name}={size} of a tower is too small; use 1 or more"
        )
    if not self.features:
      raise ValueError("a tower has neither ids nor dense features; name some")

  @property
  def features(self) -> tuple[str, ...]:
    """The names of the features that it reads."""
    return (*self.ids, *self.dense)

  def net(self, features: Features, is_training: bool) -> tf.Tensor:
    """Returns the last hidden layer, float32 [batch, width].

    Args:
      features: The features of a batch.
      is_training: It is the same in training and without.
    """
    del is_training
    parts = [
      self._embedded(name, size, features[name])
      for name, size in self.ids.items()
    ]
    parts += [_rows(features[name]) for name in self.dense]
    net = tf.concat(parts, axis=1)
    for number, units in enumerate(self.hidden):
      net = layer(net, units, f"hidden_{number}", tf.nn.relu)
    return net

  def _embedded(self, name: str, size: int, ids: tf.Tensor) -> tf.Tensor:
    """Returns the embeddings of ids, or their means, float32 [batch, width]."""
    with v1.variable_scope(name):
      table = v1.get_variable(
        "table",
        [size, self.id_size],
        initializer=v1.truncated_normal_initializer(stddev=self.id_size**-0.5),
      )
    if ids.shape.rank == 1:
      return tf.nn.embedding_lookup(table, ids)
    rows = tf.nn.embedding_lookup(table, tf.maximum(ids, 0))
    counts = tf.cast(ids >= 0, tf.float32)
    total = tf.reduce_sum(rows * counts[..., tf.newaxis], axis=1)
    return tf.math.divide_no_nan(
      total, tf.reduce_sum(counts, axis=1, keepdims=True)
    )


@dataclasses.dataclass(frozen=True)
class OwnTower:
  """A tower that a function of yours builds.

  Attributes:
    function: From features, and whether the model is being trained, to
      float32 [batch, width]. It makes its variables in the current variable
      scope, and is called once for each graph.
    features: The names of the features that it reads.
  """

  function: Callable[[Features, bool], tf.Tensor]
  features: tuple[str, ...]

  def net(self, features: Features, is_training: bool) -> tf.Tensor:
    """Returns what the function makes of its features.

    Args:
      features: The features of a batch.
      is_training: Whether the model is being trained.
    """
    return self.function({x: features[x] for x in self.features}, is_training)


@dataclasses.dataclass(frozen=True)
class Encoder:
  """A tower with the layer that makes its vectors.

  Attributes:
    name: The scope of its variables: "query" or "item".
    tower: The tower.
    size: The length of the vectors.
    normalize: Whether vectors have the length 1.
  """

  name: str
  tower: AnyTower
  size: int
  normalize: bool

  def can_encode(self, features: Features) -> bool:
    """Whether all of its features are there.

    Args:
      features: Features of a batch.
    """
    return all(name in features for name in self.tower.features)

  def encode(self, features: Features, is_training: bool) -> tf.Tensor:
    """Returns the vectors of examples, float32 [batch, size].

    Args:
      features: Features of a batch.
      is_training: Whether the model is being trained.

    Raises:
      ValueError: If a feature is missing.
    """
    missing = [x for x in self.tower.features if x not in features]
    if missing:
      raise ValueError(
        f"the {self.name} tower reads the feature {missing[0]!r}, which is not "
        f"among {sorted(features)}; let input_fn return it"
      )
    with v1.variable_scope(self.name):
      net = self.tower.net(features, is_training)
      vectors = layer(net, self.size, "vector", None)
    return tf.math.l2_normalize(vectors, 1) if self.normalize else vectors


def layer(
  inputs: tf.Tensor,
  units: int,
  name: str,
  activation: Callable[[tf.Tensor], tf.Tensor] | None,
) -> tf.Tensor:
  """Returns what a layer makes of rows, float32 [rows, units].

  Args:
    inputs: float32 [rows, width].
    units: The width of the result.
    name: The scope of its variables.
    activation: The function of each entry; None for the identity.
  """
  with v1.variable_scope(name):
    kernel = v1.get_variable(
      "kernel",
      [int(inputs.shape[1]), units],
      initializer=v1.glorot_uniform_initializer(),
    )
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
  net = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
  return net if activation is None else activation(net)


def _rows(values: tf.Tensor) -> tf.Tensor:
  """Returns a dense feature as float32 [batch, width]."""
  values = tf.cast(values, tf.float32)
  return values[:, tf.newaxis] if values.shape.rank == 1 else values
