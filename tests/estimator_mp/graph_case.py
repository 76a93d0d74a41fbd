"""Tests of functions of a graph: each has a new one."""

import estimator_mp  # noqa: F401  # It installs compat, before TensorFlow.

import tensorflow as tf
from absl.testing import parameterized

v1 = tf.compat.v1


class GraphCase(parameterized.TestCase):
  """A test whose default graph is new.

  Attributes:
    graph: The graph.
  """

  def setUp(self):
    super().setUp()
    self.graph = self.enter_context(tf.Graph().as_default())

  def use_v1_control_flow(self):
    """Makes loops and branches of TensorFlow 1 until the test ends."""
    if v1.control_flow_v2_enabled():
      v1.disable_control_flow_v2()
      self.addCleanup(v1.enable_control_flow_v2)

  def ops(self):
    """Returns the ops of the graph."""
    return self.graph.get_operations()

  def variable(self, name, shape=(4, 2)):
    """Returns a new variable of zeros."""
    return v1.get_variable(
      name, shape, initializer=v1.zeros_initializer(), use_resource=True
    )
