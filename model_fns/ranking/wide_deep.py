"""wide_deep: a linear model and a deep one, trained together.

H.-T. Cheng et al., 2016, Wide & Deep Learning for Recommender Systems,
arXiv:1606.07792.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
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

_NO_CROSSES: Mapping[tuple[str, ...], int] = MappingProxyType({})


def wide_deep(
  tables: Mapping[str, int],
  num_dense: int = 0,
  *,
  crosses: Mapping[tuple[str, ...], int] = _NO_CROSSES,
  embedding_size: int = 16,
  hidden_units: Sequence[int] = (64, 32),
  ids: str = "hash",
  dense_key: str = "dense",
  config: sharded.Config = None,
  wide_optimizer: training.OptimizerOrFn = lambda: (
    tf.compat.v1.train.FtrlOptimizer(0.05)
  ),
  optimizer: training.OptimizerOrFn = lambda: (
    tf.compat.v1.train.AdagradOptimizer(0.05)
  ),
) -> Callable[..., tf.estimator.EstimatorSpec]:
  """Returns a model_fn of a wide and a deep part, whose logits are added.

  The wide part has a weight for each value of a feature and for each crossed
  value. The deep part has tables, and a perceptron over their rows. Each part
  has an optimizer of its own, as in `tf.estimator.DNNLinearCombinedClassifier`.

  Args:
    tables: The rows of the tables of each categorical feature, by the name of
      the feature; both parts have one. `model_fns.ranking.categories` lists the
      forms of features.
    num_dense: Number of dense features.
    crosses: The rows of the tables of crossed features, by the names of the
      features, such as {("user", "item"): 10000}. Values are hashed as
      `crossed_column` does.
    embedding_size: The width of the deep part's tables.
    hidden_units: The widths of the deep part's hidden layers.
    ids: "hash" if the row of a value is a hash of it, as
      `categorical_column_with_hash_bucket` has it; "rows" if values are rows.
    dense_key: The name of the dense features, [batch, num_dense].
    config: The devices: a mesh, its text, or an `estimator_mp.ShardingConfig`;
      None for one device. `split=[("tables/", "div")]` splits the tables of
      both parts, with the slots of either optimizer.
    wide_optimizer: The optimizer of the wide part.
    optimizer: The optimizer of the deep part. Both are a
      `tf.compat.v1.train.Optimizer`, or a function that returns one.

  Returns:
    A model_fn with the arguments features, labels, mode and config. Variables
    of the wide part are `wide/...`, those of the deep one `deep/...`.

  Raises:
    ValueError: If a size is too small, a cross has fewer than two features, or
      `ids` or the mesh is not known.
    TypeError: If an optimizer or the config is of another type.
  """
  categories.check_tables(tables, ids)
  cross_rows = _named_crosses(crosses)
  dense.check_num_dense(num_dense)
  dense.check_units(embedding_size=[embedding_size], hidden_units=hidden_units)
  training.check_optimizer(wide_optimizer)
  training.check_optimizer(optimizer)

  def model_fn(
    features: Any, labels: Any, mode: str
  ) -> tf.estimator.EstimatorSpec:
    numbers = dense.optional_numbers(features, dense_key, num_dense)
    bags = categories.find_bags(features, tables, ids)
    crossed = {
      "_x_".join(names): categories.find_crossed(features, names, num_rows)
      for names, num_rows in crosses.items()
    }
    wide = linear.logit(
      numbers, {**bags, **crossed}, {**tables, **cross_rows}, "wide"
    )
    with tf.compat.v1.variable_scope("deep"):
      inputs = embeddings.embed(bags, tables, embedding_size)
      if numbers is not None:
        inputs.append(numbers)
      net = tf.concat(inputs, axis=1)
      net = dense.hidden_layers(net, hidden_units, "hidden")
      deep = dense.layer(net, 1, "logits")
    optimizers = {"wide/": wide_optimizer, "deep/": optimizer}
    return click_head.create_spec(
      features,
      labels,
      mode,
      wide + deep,
      lambda loss: training.make_train_op_of_parts(loss, optimizers),
    )

  return sharded.model_fn(model_fn, config)


def _named_crosses(crosses: Mapping[tuple[str, ...], int]) -> dict[str, int]:
  """Returns the rows of crossed features by the names of their tables."""
  for names, rows in crosses.items():
    if isinstance(names, str) or len(names) < 2 or rows < 1:
      raise ValueError(
        f"crosses has {names!r}: {rows}; a cross has at least two features, "
        "and its table at least 1 row, such as {('user', 'item'): 10000}"
      )
  return {"_x_".join(names): rows for names, rows in crosses.items()}
