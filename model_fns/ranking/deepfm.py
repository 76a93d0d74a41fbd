"""deepfm: a factorization machine and a perceptron on the same tables.

H. Guo et al., 2017, DeepFM: A Factorization-Machine based Neural Network for
CTR Prediction, arXiv:1703.04247.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from model_fns import sharded, training
from model_fns.ranking import (
  categories,
  click_head,
  dense,
  embeddings,
  linear,
)

import tensorflow as tf


def deepfm(
  tables: Mapping[str, int],
  num_dense: int = 0,
  *,
  embedding_size: int = 16,
  hidden_units: Sequence[int] = (64, 32),
  ids: str = "hash",
  dense_key: str = "dense",
  config: sharded.Config = None,
  optimizer: training.OptimizerOrFn = lambda: (
    tf.compat.v1.train.AdagradOptimizer(0.05)
  ),
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn of a DeepFM.

  The logit is the sum of three: weights of values (order 1), dot products of
  all pairs of the features' vectors (order 2), and a perceptron over the same
  vectors. A dense feature's vector is its number times a vector that is
  learned.

  Args:
    tables: The rows of the tables of each categorical feature, by the name of
      the feature: one of weights, and one of vectors.
      `model_fns.ranking.categories` lists the forms of features.
    num_dense: Number of dense features.
    embedding_size: The size of vectors.
    hidden_units: The widths of the perceptron's hidden layers.
    ids: "hash" if the row of a value is a hash of it, as
      `categorical_column_with_hash_bucket` has it; "rows" if values are rows.
    dense_key: The name of the dense features, [batch, num_dense].
    config: The devices: a mesh, its text, or an `estimator_mp.ShardingConfig`;
      None for one device. `split=[("tables/", "div")]` splits the tables.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns one.

  Returns:
    A model_fn with the arguments features, labels, mode and config. Variables
    are `linear/...`, `tables/FEATURE`, `dense_vectors`, `deep/...` and
    `logits/...`.

  Raises:
    ValueError: If a size is too small, or `ids` or the mesh is not known.
    TypeError: If the optimizer or the config is of another type.
  """
  categories.check_tables(tables, ids)
  dense.check_num_dense(num_dense)
  dense.check_units(embedding_size=[embedding_size], hidden_units=hidden_units)
  training.check_optimizer(optimizer)

  def model_fn(
    features: Any, labels: Any, mode: str
  ) -> tf.estimator.EstimatorSpec:
    numbers = dense.optional_numbers(features, dense_key, num_dense)
    bags = categories.find_bags(features, tables, ids)
    first_order = linear.logit(numbers, bags, tables, "linear")
    vectors = tf.stack(embeddings.embed(bags, tables, embedding_size), axis=1)
    if numbers is not None:
      vectors = tf.concat(
        [vectors, _dense_vectors(numbers, embedding_size)], axis=1
      )
    width = (len(tables) + num_dense) * embedding_size
    net = tf.reshape(vectors, [-1, width])
    net = dense.hidden_layers(net, hidden_units, "deep")
    return click_head.create_spec(
      features,
      labels,
      mode,
      first_order + _second_order(vectors) + dense.layer(net, 1, "logits"),
      lambda loss: training.make_train_op(loss, optimizer),
    )

  return sharded.model_fn(model_fn, config)


def _dense_vectors(numbers: tf.Tensor, width: int) -> tf.Tensor:
  """Returns vectors of dense features, [batch, num_dense, width]."""
  count = numbers.shape[1]
  bound = count**-0.5
  directions = tf.compat.v1.get_variable(
    "dense_vectors",
    [count, width],
    initializer=tf.compat.v1.random_uniform_initializer(-bound, bound),
  )
  return numbers[:, :, tf.newaxis] * directions


def _second_order(vectors: tf.Tensor) -> tf.Tensor:
  """Returns the sum of the dot products of all pairs of vectors.

  It is half of what the square of the sum has more than the sum of squares
  (Rendle, 2010, Factorization machines).

  Args:
    vectors: A tensor [batch, n, width].

  Returns:
    A tensor [batch, 1].
  """
  square_of_sum = tf.square(tf.reduce_sum(vectors, axis=1))
  sum_of_squares = tf.reduce_sum(tf.square(vectors), axis=1)
  return 0.5 * tf.reduce_sum(
    square_of_sum - sum_of_squares, axis=1, keepdims=True
  )
