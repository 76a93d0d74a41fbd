"""A vector for each value of a categorical feature."""

from collections.abc import Mapping

from model_fns.ranking import categories

import tensorflow as tf


def embed(
  bags: Mapping[str, categories.Bags],
  num_rows: Mapping[str, int],
  width: int,
) -> list[tf.Tensor]:
  """Returns the sums of the vectors of what each example has.

  Tables start with uniform numbers up to 1 / sqrt(rows) (Naumov et al., 2019).

  Args:
    bags: The rows that examples have, by the name of the feature.
    num_rows: The rows of the features' tables.
    width: The size of a vector.

  Returns:
    A tensor [batch, width] for each feature; their tables are
    `tables/FEATURE`.
  """
  vectors = []
  for name, bag in bags.items():
    bound = num_rows[name] ** -0.5
    table = tf.compat.v1.get_variable(
      f"tables/{name}",
      [num_rows[name], width],
      initializer=tf.compat.v1.random_uniform_initializer(-bound, bound),
    )
    vectors.append(bag.sum_of(table))
  return vectors
