"""Weight products: gradients that several micro-batches make at once."""

from estimator_mp.config.schedules import orders
from estimator_mp.config.schedules.schedule import Phase
from estimator_mp.pipeline import weight_products
from estimator_mp.pipeline.cells import Pass
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


class PlanTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    self._stages = {}

  def _operands(self, rows, inputs, outputs):
    return (
      v1.placeholder(tf.float32, [rows, inputs], "x"),
      v1.placeholder(tf.float32, [rows, outputs], "dy"),
    )

  def _plan(self, gradient, mode="auto", count=16, elsewhere=()):
    ops = self.ops()
    stages = dict.fromkeys(ops, 0) | dict.fromkeys(elsewhere, 1)
    return weight_products.plan_product(gradient, mode, count, {*ops}, stages)

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
    for tensor, axis in zip((a, b), found.axes, strict=True):
      self.assertEqual(tensor.shape[axis], 3)

  def test_a_gate_is_no_hindrance(self):
    x, dy = self._operands(2, 64, 64)
    product, other = tf.matmul(x, dy, transpose_a=True), tf.exp(dy)
    gated, _ = tf.tuple([product, other])
    self.assertIs(self._plan(gated).op, product.op)
    self.assertIsNone(self._plan(gated, elsewhere=[other.op]))

  def test_what_waits_for_something_else_is_as_it_was(self):
    x, dy = self._operands(2, 64, 64)
    check = tf.debugging.assert_all_finite(dy, "dy").op
    with tf.control_dependencies([check]):
      product = tf.matmul(x, tf.identity(dy), transpose_a=True)
      waiting = tf.identity(tf.matmul(x, dy, transpose_a=True))
    self.assertIsNotNone(self._plan(product))
    self.assertIsNone(self._plan(waiting))

  def test_only_products(self):
    x, dy = self._operands(2, 64, 64)
    self.assertIsNone(self._plan(tf.reduce_sum(dy, 0), "batched"))
    product = tf.matmul(x, dy, transpose_a=True)
    self.assertIsNone(self._plan(product + tf.ones([64, 64]), "batched"))


class PassTest(graph_case.GraphCase):
  def setUp(self):
    super().setUp()
    x, dy = tf.ones([2, 3], name="x"), tf.ones([2, 3], name="dy")
    self._x, self._dy = x.op, dy.op
    self._product = tf.matmul(x, dy, transpose_a=True).op

  def _pass(self, passes, stage, schedule="1f1b"):
    return weight_products.pass_of_product(
      self._product,
      passes,
      {self._product: stage},
      orders.make_schedule(schedule, 2, 2),
    )

  def test_the_pass_that_makes_what_it_reads(self):
    passes = {
      self._x: Pass(0, Phase.FORWARD),
      self._dy: Pass(1, Phase.BACKWARD),
    }
    self.assertEqual(self._pass(passes, 1), Pass(1, Phase.BACKWARD))
    self.assertEqual(self._pass(passes, 1, "zb1p"), Pass(1, Phase.WEIGHT))

  def test_the_last_one_of_two(self):
    passes = {op: Pass(0, Phase.BACKWARD) for op in (self._x, self._dy)}
    passes[self._dy] = Pass(1, Phase.BACKWARD)
    self.assertEqual(self._pass(passes, 0), Pass(0, Phase.BACKWARD))

  def test_another_device(self):
    self.assertIsNone(self._pass({self._dy: Pass(1, Phase.BACKWARD)}, 0))
    self.assertIsNone(self._pass({}, 0))

  def test_groups_keep_the_order(self):
    self.assertEqual(
      weight_products.groups([4, 3, 2, 1, 0], 2), [[4, 3], [2, 1], [0]]
    )


if __name__ == "__main__":
  absltest.main()
