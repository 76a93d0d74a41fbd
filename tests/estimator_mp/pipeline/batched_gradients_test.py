"""Weight products: gradients that several micro-batches make at once."""

from estimator_mp.pipeline import batched_gradients
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class PlanTest(graph_case.GraphCase):
  def _operands(self, rows, inputs, outputs):
    return (
      v1.placeholder(tf.float32, [rows, inputs], "x"),
      v1.placeholder(tf.float32, [rows, outputs], "dy"),
    )

  def _plan(self, gradient, mode="auto", count=16):
    ops = self.ops()
    stages = dict.fromkeys(ops, 0)
    return batched_gradients.plan_gradient(
      gradient, mode, count, {*ops}, stages
    )

  @parameterized.named_parameters(
    ("as_many_as_have_the_bytes_of_the_gradient", 64, 1024, 1024, 8),
    ("the_operands_of_a_narrow_one_are_large", 64, 1024, 64, None),
    ("no_more_than_there_are", 1, 1024, 1024, 16),
    ("many_rows", 1024, 512, 512, None),
    ("a_size_that_nobody_knows", None, 1024, 1024, None),
  )
  def test_auto_groups(self, rows, inputs, outputs, group):
    x, dy = self._operands(rows, inputs, outputs)
    found = self._plan(tf.matmul(x, dy, transpose_a=True))
    self.assertEqual(found.group if found else None, group)

  @parameterized.product(first=[False, True], second=[False, True])
  def test_every_form_adds_up_over_its_inner_axis(self, first, second):
    a = v1.placeholder(tf.float32, [3, 5] if first else [5, 3])
    b = v1.placeholder(tf.float32, [7, 3] if second else [3, 7])
    gradient = tf.matmul(a, b, transpose_a=first, transpose_b=second)
    found = self._plan(gradient, "batched", 4)
    self.assertEqual(found.group, 4)
    for tensor, axis in zip((a, b), found.dims, strict=True):
      self.assertEqual(tensor.shape[axis], 3)

  def test_only_products(self):
    x, dy = self._operands(2, 64, 64)
    self.assertIsNone(self._plan(tf.reduce_sum(dy, 0), "batched"))
    product = tf.matmul(x, dy, transpose_a=True)
    self.assertIsNone(self._plan(product + tf.ones([64, 64]), "batched"))


if __name__ == "__main__":
  absltest.main()
