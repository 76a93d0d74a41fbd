"""Resources that a program cannot tell from references."""

import compat
from compat.private import reference_variables

import numpy as np
import tensorflow as tf
from absl.testing import absltest

compat.install(contrib=True)
v1 = tf.compat.v1


class InitializedValueTest(absltest.TestCase):
  def test_a_resource_has_that_of_1_15(self):
    with tf.Graph().as_default(), v1.Session() as session:
      first = v1.get_variable(
        "first", initializer=tf.random.normal([3]), use_resource=True
      )
      second = v1.Variable(2.0 * first.initialized_value(), name="second")
      session.run(v1.global_variables_initializer())
      one, other = session.run([first, second])
      np.testing.assert_allclose(other, 2.0 * one)
      session.run(first.assign([1.0, 2.0, 3.0]))
      self.assertEqual(
        session.run(first.initialized_value()).tolist(), [1.0, 2.0, 3.0]
      )

  def test_and_so_has_one_of_eager_execution(self):
    self.assertEqual(tf.Variable(3.0).initialized_value().numpy(), 3.0)


class _Dense(tf.compat.v1.train.Optimizer):
  """As optimizers were written before there were resources."""

  def __init__(self):
    super().__init__(False, "Dense")

  def _apply_dense(self, grad, var):
    return v1.assign_sub(var, 0.5 * grad)


class _Both(_Dense):
  def _apply_sparse(self, grad, var):
    return v1.scatter_sub(var, grad.indices, 0.5 * grad.values)


class ReferenceLikeTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.graph = tf.Graph()
    self.enter_context(self.graph.as_default())
    self._variable = reference_variables.make(
      {"initial_value": np.ones([3, 2], np.float32), "name": "w"}
    )

  def _started(self):
    session = self.enter_context(v1.Session())
    session.run(v1.global_variables_initializer())
    return session

  def test_names_of_a_reference_are_its_value(self):
    read = self.graph.get_tensor_by_name("w/read:0")
    self.assertEqual((read.dtype, read.shape), (tf.float32, [3, 2]))
    session = self._started()
    for found in session.run(["w:0", "w/read:0", read]):
      self.assertEqual(found.tolist(), [[1.0, 1.0]] * 3)

  def test_other_names_are_what_they_are(self):
    handle = self._variable.handle
    self.assertIs(self.graph.as_graph_element(handle), handle)
    self.assertIs(self.graph.as_graph_element("w"), handle.op)
    with self.assertRaisesRegex(KeyError, "v/read:0"):
      self.graph.get_tensor_by_name("v/read:0")

  def test_a_value_that_is_fed_is_refused(self):
    """Each reader of a resource reads for itself."""
    session = self._started()
    with self.assertRaisesRegex(ValueError, "may not be fed"):
      session.run("w:0", {"w:0": np.zeros([3, 2])})

  def test_an_optimizer_for_references(self):
    x = v1.placeholder_with_default([[1.0], [2.0]], [2, 1])
    loss = tf.reduce_sum(tf.matmul(self._variable, x))
    with reference_variables.optimizers_of_references():
      update = _Dense().minimize(loss)
    session = self._started()
    session.run(update)
    self.assertEqual(session.run("w:0").tolist(), [[0.5, 0.0]] * 3)

  def test_its_rows(self):
    rows = tf.gather(self._variable, [0, 2, 2])
    with reference_variables.optimizers_of_references():
      update = _Both().minimize(tf.reduce_sum(rows))
    session = self._started()
    session.run(update)
    expected = [[0.5, 0.5], [1.0, 1.0], [0.0, 0.0]]
    self.assertEqual(session.run("w:0").tolist(), expected)

  def test_one_that_lacks_a_method_is_an_error_as_before(self):
    with (
      reference_variables.optimizers_of_references(),
      self.assertRaises(NotImplementedError),
    ):
      _Dense().minimize(tf.reduce_sum(tf.gather(self._variable, [0])))

  def test_optimizers_are_as_before_outside(self):
    before = v1.train.Optimizer._resource_apply_dense
    with reference_variables.optimizers_of_references():
      self.assertIsNot(v1.train.Optimizer._resource_apply_dense, before)
    self.assertIs(v1.train.Optimizer._resource_apply_dense, before)


if __name__ == "__main__":
  absltest.main()
