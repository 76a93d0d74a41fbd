"""Which ops belong to Savers, of small graphs."""

from estimator_mp.graph import savers
from tests.estimator_mp import graph_case

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


class SaverOpsTest(graph_case.GraphCase):
  def test_all_of_a_saver_and_nothing_of_the_model(self):
    variable = self.variable("v")
    y = tf.square(variable, "y")
    model = set(self.ops())
    v1.train.Saver()
    after = tf.negative(y)
    made = set(self.ops()) - model - {after.op}
    found = savers.saver_ops(self.ops())
    # The Saver alone reads the variable by this one.
    shared = {op.name for op in found & (model | {after.op})}
    self.assertEqual(shared, {"v/Read/ReadVariableOp"})
    types = {op.type for op in found}
    self.assertContainsSubset(
      {"SaveV2", "RestoreV2", "AssignVariableOp"}, types
    )
    left = {op.type for op in made - found}
    self.assertNoCommonElements(
      left, {"AssignVariableOp", "SaveV2", "RestoreV2"}
    )

  def test_a_graph_without_one(self):
    tf.square(self.variable("v"))
    self.assertEmpty(savers.saver_ops(self.ops()))

  def test_what_is_where_its_variable_is(self):
    self.variable("v")
    v1.train.Saver()
    found = savers.work_on_variables(savers.saver_ops(self.ops()))
    self.assertEqual(
      sorted(op.type for op in found), ["AssignVariableOp", "ReadVariableOp"]
    )

  def test_what_is_restored(self):
    variable = self.variable("v")
    (value,) = tf.raw_ops.RestoreV2(
      prefix="x", tensor_names=["v"], shape_and_slices=[""], dtypes=[tf.float32]
    )
    passed_on = tf.reshape(tf.identity(value), [4, 2])
    write = tf.raw_ops.AssignVariableOp(
      resource=variable.handle, value=passed_on
    )
    self.assertTrue(savers.is_restored(passed_on.op))
    self.assertTrue(savers.is_restored(write))
    half = tf.multiply(passed_on, 0.5)
    other = tf.raw_ops.AssignVariableOp(resource=variable.handle, value=half)
    for op in (half.op, other, tf.identity(half).op):
      self.assertFalse(savers.is_restored(op))


if __name__ == "__main__":
  absltest.main()
