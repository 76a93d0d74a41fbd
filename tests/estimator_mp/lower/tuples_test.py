"""Gradients that pass through an op together do not wait for each other."""

from estimator_mp.graph import traversal
from estimator_mp.lower import ordering

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _names(op):
  """Returns the names of all ops that run with one."""
  return {x.name for x in traversal.ops_run_with(op)}


class TuplesTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    graph = self.enterContext(tf.Graph().as_default())
    self._ops = graph.get_operations
    self._x, self._y = (
      v1.get_variable(name, [], use_resource=True) for name in "xy"
    )

  def _take_apart(self, *fetches):
    ordering.take_tuples_apart(self._ops(), traversal.ops_run_with(*fetches))

  def test_each_reads_its_own(self):
    first, second = tf.identity_n(
      tf.identity_n([self._x * 2.0, self._y * 3.0]), name="passed"
    )
    updates = [self._x.assign(first), self._y.assign(second - first)]
    self._take_apart(*updates)
    names = [_names(x.op) for x in updates]
    self.assertNotIn("mul_1", names[0])
    self.assertContainsSubset({"mul", "mul_1"}, names[1])
    self.assertNotIn("passed", names[0] | names[1])
    with v1.Session() as session:
      session.run([self._x.initializer, self._y.initializer])
      session.run([self._x.assign(5.0), self._y.assign(7.0)])
      self.assertEqual(session.run(updates[1]), 21.0 - 10.0)

  def test_they_wait_for_what_the_op_has_waited_for(self):
    """TensorFlow leaves that wait out where another input has it."""
    gradient = self._y * 3.0
    with tf.control_dependencies([self._x.assign(1.0, name="before")]):
      (passed,) = tf.identity_n([gradient], name="passed")
      update = self._x.assign_add(passed)
    self._take_apart(update)
    self.assertIn("before", _names(update.op))
    self.assertNotIn("passed", _names(update.op))

  def test_operands_of_a_tuple_wait_for_what_it_waits_for(self):
    operands = [self._x * 2.0, self._y * 3.0]
    before = self._x.assign(1.0, name="before")
    with v1.name_scope("some"):
      first, second = v1.tuple(operands, control_inputs=[before.op])
    self._take_apart(first, second)
    names = [_names(x.op) for x in (first, second)]
    self.assertContainsSubset({"before", "mul"}, names[0])
    self.assertContainsSubset({"before", "mul_1"}, names[1])
    self.assertNotIn("mul_1", names[0])

  def test_those_that_no_step_runs_wait_for_each_other(self):
    """AdaNet's hooks run its updates, which nothing else orders."""
    with v1.name_scope("of_step"):
      _, second = v1.tuple([self._x * 2.0, self._y * 3.0])
    with v1.name_scope("of_hook"):
      _, other = v1.tuple([self._x * 4.0, self._y * 5.0])
    self._take_apart(second)
    self.assertNotIn("of_step/mul", _names(second.op))
    self.assertIn("of_hook/mul", _names(other.op))

  def test_one_that_a_gradient_is_of_stays(self):
    @tf.custom_gradient
    def clipped(x):
      return tf.identity(x), lambda gradient: tf.minimum(gradient, 0.5)

    loss = 4.0 * clipped(self._x)
    (gradient,) = tf.gradients(loss, [self._x])
    before = _names(gradient.op)
    self._take_apart(loss, gradient)
    self.assertEqual(_names(gradient.op), before)
    self.assertTrue(any("IdentityN" in x for x in _names(loss.op)))


if __name__ == "__main__":
  absltest.main()
