"""dlrm: Facebook's deep learning recommendation model.

M. Naumov et al., 2019, Deep Learning Recommendation Model for Personalization
and Recommendation Systems, arXiv:1906.00091.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from model_fns import sharded, training
from model_fns.ranking import categories, click_head, dense, embeddings

import numpy as np
import tensorflow as tf


def dlrm(
  tables: Mapping[str, int],
  num_dense: int,
  *,
  embedding_size: int = 16,
  bottom_units: Sequence[int] = (64,),
  top_units: Sequence[int] = (64, 32),
  ids: str = "hash",
  dense_key: str = "dense",
  config: sharded.Config = None,
  optimizer: training.OptimizerOrFn = lambda: (
    tf.compat.v1.train.AdagradOptimizer(0.05)
  ),
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn of a DLRM.

  A bottom perceptron makes a vector of the dense features. Each categorical
  feature has a table, and the sum of an example's rows of it is one more
  vector. The dot products of all pairs of these vectors, and the first one, go
  through a top perceptron.

  Args:
    tables: The rows of the table of each categorical feature, by the name of
      the feature. `model_fns.ranking.categories` lists the forms of features.
    num_dense: Number of dense features, at least 1.
    embedding_size: The width of tables, and of the bottom's output.
    bottom_units: The widths of the bottom's hidden layers.
    top_units: The widths of the top's hidden layers.
    ids: "hash" if the row of a value is a hash of it, as
      `categorical_column_with_hash_bucket` has it; "rows" if values are rows.
    dense_key: The name of the dense features, [batch, num_dense].
    config: The devices: a mesh, its text, or an `estimator_mp.ShardingConfig`;
      None for one device. `split=[("^tables/", "div")]` splits the tables, and
      on a mesh such as data:4 each device has a replica of the rest.
    optimizer: A `tf.compat.v1.train.Optimizer`, or a function that returns one.

  Returns:
    A model_fn with the arguments features, labels, mode and config. Variables
    are `tables/FEATURE`, `bottom/...`, `top/...` and `logits/...`.

  Raises:
    ValueError: If a size is below 1, or `ids` or the mesh is not known.
    TypeError: If the optimizer or the config is of another type.
  """
  categories.check_tables(tables, ids)
  dense.check_units(
    num_dense=[num_dense],
    embedding_size=[embedding_size],
    bottom_units=bottom_units,
    top_units=top_units,
  )
  training.check_optimizer(optimizer)

  def model_fn(
    features: Any, labels: Any, mode: str
  ) -> tf.estimator.EstimatorSpec:
    numbers = dense.numbers(features, dense_key, num_dense)
    bottom = dense.hidden_layers(
      numbers, [*bottom_units, embedding_size], "bottom"
    )
    bags = categories.find_bags(features, tables, ids)
    vectors = embeddings.embed(bags, tables, embedding_size)
    net = tf.concat([bottom, _dot_products([bottom, *vectors])], axis=1)
    net = dense.hidden_layers(net, top_units, "top")
    return click_head.create_spec(
      features,
      labels,
      mode,
      dense.layer(net, 1, "logits"),
      lambda loss: training.make_train_op(loss, optimizer),
    )

  return sharded.model_fn(model_fn, config)


def _dot_products(vectors: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns the dot products of all pairs of vectors.

  Args:
    vectors: n tensors [batch, width].

  Returns:
    A tensor [batch, n * (n - 1) / 2].
  """
  stacked = tf.stack(vectors, axis=1)
  products = tf.matmul(stacked, stacked, transpose_b=True)
  count = len(vectors)
  first, second = np.tril_indices(count, -1)
  flat = tf.reshape(products, [-1, count * count])
  return tf.gather(flat, first * count + second, axis=1)
