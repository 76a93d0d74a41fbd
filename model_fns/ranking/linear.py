"""The linear part of wide_deep and deepfm: a weight for each value."""

from collections.abc import Mapping

from model_fns.ranking import categories

import tensorflow as tf


def logit(
  numbers: tf.Tensor | None,
  bags: Mapping[str, categories.Bags],
  num_rows: Mapping[str, int],
  name: str,
) -> tf.Tensor:
  """Returns a bias, and the sum of the weights of what each example has.

  All are 0 at first, as for Ftrl they have to be.

  Args:
    numbers: The dense features, float32 [batch, n]; None if there are none.
    bags: The categorical features, by name.
    num_rows: The rows of their tables.
    name: The scope of the variables: `bias`, `dense/kernel`, and a table
      `tables/FEATURE`, [rows, 1], for each categorical one.

  Returns:
    float32 [batch, 1].
  """
  zeros = tf.compat.v1.zeros_initializer()
  with tf.compat.v1.variable_scope(name):
    terms = [
      bag.sum_of(
        tf.compat.v1.get_variable(
          f"tables/{feature}", [num_rows[feature], 1], initializer=zeros
        )
      )
      for feature, bag in bags.items()
    ]
    if numbers is not None:
      kernel = tf.compat.v1.get_variable(
        "dense/kernel", [numbers.shape[1], 1], initializer=zeros
      )
      terms.append(tf.matmul(numbers, kernel))
    bias = tf.compat.v1.get_variable("bias", [1], initializer=zeros)
    return tf.nn.bias_add(tf.add_n(terms), bias)
