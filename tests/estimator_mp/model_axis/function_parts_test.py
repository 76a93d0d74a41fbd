"""Loops and conds that slices of the batch run each for itself."""

from estimator_mp.capture import micro_batches
from estimator_mp.plan import batch_planner
from estimator_mp.plan.batch_plan import Rows

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1


def _plan(build, size):
  """Plans what `build` makes of features [time, size, 4]: types of ops."""
  with tf.Graph().as_default() as graph:
    x = v1.placeholder(tf.float32, [None, size, 4], "x")
    inputs = micro_batches.inputs_with_examples(
      {"features": x}, [("features", 1)]
    )
    planner = batch_planner.BatchPlanner(inputs, graph.get_operations())
    first = len(graph.get_operations())
    build(x)
    plan = planner.plan(graph.get_operations()[first:])
  return [parted.op.type for parted in plan.ops], plan


def _recurrent(x, step):
  """Runs a recurrent layer over time; returns the outputs of all steps."""
  kernel = v1.get_variable("kernel", [4, 4], use_resource=True)
  length = tf.shape(x)[0]
  words = tf.TensorArray(tf.float32, length).unstack(x * 1.0)
  outputs = tf.TensorArray(tf.float32, length, element_shape=[None, 4])
  start = tf.zeros([tf.shape(x)[1], 4])

  def body(time, state, outputs):
    state = step(tf.matmul(words.read(time) + state, kernel))
    return time + 1, state, outputs.write(time, state)

  _, last, outputs = tf.while_loop(
    lambda time, *_: time < length, body, [0, start, outputs]
  )
  return tf.identity(outputs.stack(), "outputs"), tf.identity(last, "last")


def _centered(net):
  return net - tf.reduce_mean(net, 0)


def _noisy(net):
  return net + tf.random.normal([4])


@parameterized.named_parameters(("static", 8), ("open", None))
class LoopsTest(parameterized.TestCase):
  def test_a_recurrent_layer(self, size):
    types, plan = _plan(lambda x: _recurrent(x, tf.tanh), size)
    self.assertContainsSubset(
      ("TensorListFromTensor", "TensorListReserve", "TensorListStack"), types
    )
    self.assertTrue({"While", "StatelessWhile"} & {*types}, types)
    self.assertEqual(plan.rows["outputs:0"], Rows(1, 1))
    self.assertEqual(plan.rows["last:0"], Rows(0, 1))

  def test_what_needs_all_examples_or_draws(self, size):
    for step in (_centered, _noisy):
      types, _ = _plan(lambda x, step=step: _recurrent(x, step), size)
      self.assertNoCommonElements(
        ("While", "StatelessWhile", "TensorListFromTensor", "TensorListStack"),
        types,
      )

  def test_a_scan_over_examples(self, size):
    def build(x):
      kernel = v1.get_variable("kernel", [4, 4], use_resource=True)
      rows = tf.transpose(x[0] @ kernel)
      tf.scan(lambda total, row: total + row, tf.transpose(rows))

    types, _ = _plan(build, size)
    self.assertIn("MatMul", types)
    self.assertNoCommonElements(("While", "StatelessWhile"), types)

  def test_as_long_as_any_example_wants(self, size):
    def build(x):
      kernel = v1.get_variable("kernel", [4, 4], use_resource=True)
      tf.while_loop(
        lambda net: tf.reduce_any(net > 0.1),
        lambda net: tf.matmul(net, kernel),
        [x[0]],
      )

    types, _ = _plan(build, size)
    self.assertNoCommonElements(("While", "StatelessWhile"), types)


@parameterized.named_parameters(("static", 8), ("open", None))
class CondsTest(parameterized.TestCase):
  def _types(self, size, otherwise):
    def build(x):
      kernel = v1.get_variable("kernel", [4, 4], use_resource=True)
      is_first = tf.equal(v1.train.get_or_create_global_step(), 0)
      net = tf.matmul(x[0], kernel)
      net = tf.cond(is_first, lambda: tf.nn.relu(net), lambda: otherwise(net))
      tf.identity(net, "net")

    types, plan = _plan(build, size)
    return {*types} & {"If", "StatelessIf"}, plan

  def test_branches_by_rules(self, size):
    types, plan = self._types(size, lambda net: net * 2.0)
    self.assertNotEmpty(types)
    self.assertEqual(plan.rows["net:0"], Rows(0, 1))

  def test_a_branch_over_examples(self, size):
    types, _ = self._types(size, lambda net: tf.nn.softmax(net, 0))
    self.assertEmpty(types)


if __name__ == "__main__":
  absltest.main()
