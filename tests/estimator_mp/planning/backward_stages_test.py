"""The stages of finished graphs, and where the forward pass ends."""

import estimator_mp
from compat.private import graph_reads
from estimator_mp.graph import op_types, traversal
from estimator_mp.planning import stages as stages_lib

import tensorflow as tf
from absl.testing import absltest, parameterized

_v1 = tf.compat.v1


class FinishedStagesTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    graph = tf.Graph()
    self.enter_context(graph.as_default())
    self._graph = graph

  def _backward(self, x):
    ops = traversal.in_order(self._graph.get_operations())
    depends = {*traversal.descendants([x.op], ops)}
    return set(stages_lib.backward_of(ops, depends))

  def test_what_depends_on_gradients_is_backward(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    weight = _v1.get_variable("weight", [3, 3], use_resource=True)
    loss = tf.nn.l2_loss(tf.matmul(x, weight))
    (gradient,) = _v1.gradients(loss, [weight])
    clipped = tf.clip_by_norm(gradient, 1.0)
    metric = tf.reduce_mean(x)
    found = self._backward(x)
    self.assertContainsSubset([gradient.op, clipped.op], found)
    self.assertNoCommonElements([loss.op, metric.op, weight.op], found)

  def test_a_loop_is_forward_though_its_gradient_added_lists_to_it(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    (y,) = tf.while_loop(
      lambda y: tf.reduce_sum(y) < 10, lambda y: [y * y + 1], [x]
    )
    (gradient,) = _v1.gradients(tf.nn.l2_loss(y), [x])
    found = self._backward(x)
    loops = [op for op in self._graph.get_operations() if "While" in op.type]
    self.assertLen([op for op in loops if op in found], 1)
    self.assertNotIn(y.op, found)
    self.assertIn(gradient.op, found)

  def test_gradients_of_a_tape(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.tanh(x)
    found = self._backward(x)
    self.assertEmpty(found)
    gradient = tape.gradient(y, x)
    self.assertIn(gradient.op, self._backward(x))
    self.assertNotIn(y.op, self._backward(x))

  def test_gradients_of_gradients(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    y = tf.tanh(x)
    (first,) = _v1.gradients(y, [x])
    (second,) = _v1.gradients(first, [x])
    found = self._backward(x)
    self.assertContainsSubset([first.op, second.op], found)
    self.assertNotIn(y.op, found)

  def test_gradients_are_where_their_ops_are(self):
    x = _v1.placeholder(tf.float32, [None, 3])
    net, layers = x, []
    for name in ("a", "b"):
      weight = _v1.get_variable(name, [3, 3], use_resource=True)
      layers.append(tf.matmul(net, weight))
      net = tf.tanh(layers[-1])
    loss = tf.nn.l2_loss(net)
    train_op = _v1.train.AdamOptimizer(0.1).minimize(loss)
    config = estimator_mp.ShardingConfig("stage:2")
    ops = [op for op in self._graph.get_operations() if op is not x.op]
    backward = self._backward(x)
    stages = stages_lib.plan_stages(ops, backward, config, config.create_mesh())
    self.assertEqual([stages[y.op] for y in layers], [0, 1])
    products = [op for op in backward if op.type == "MatMul"]
    # Of each layer's weights and of what it reads.
    self.assertEqual(sorted(stages[op] for op in products), [0, 0, 1, 1])
    updates = {
      op.inputs[0].op.name: stages[op]
      for op in traversal.ops_run_with(train_op)
      if op.type == "ResourceApplyAdam"
    }
    self.assertEqual(updates, {"a": 0, "b": 1})

  @parameterized.named_parameters(("without_ops", False), ("with_ops", True))
  def test_gradients_of_residual_layers_are_where_their_ops_are(self, colocate):
    """TensorFlow 2.21 colocates all their sums, if the batch size is static."""
    x = _v1.placeholder(tf.float32, [2, 3])
    net = x
    for name in "abc":
      weight = _v1.get_variable(name, [3, 3], use_resource=True)
      net += tf.tanh(tf.matmul(net, weight))
    loss = tf.nn.l2_loss(net)
    optimizer = _v1.train.GradientDescentOptimizer(0.1)
    optimizer.minimize(loss, colocate_gradients_with_ops=colocate)
    config = estimator_mp.ShardingConfig(
      "stage:3", placement=[(f"^{name}$", i) for i, name in enumerate("abc")]
    )
    ops = [op for op in self._graph.get_operations() if op is not x.op]
    backward = self._backward(x)
    stages = stages_lib.plan_stages(ops, backward, config, config.create_mesh())
    for op in backward:
      of_op = graph_reads.differentiated(op)
      if of_op is not None:
        self.assertEqual(stages[op], stages[of_op], op.name)
    sums = [stages[op] for op in backward if op.type == "AddN"]
    self.assertCountEqual(sums, [1, 2])  # Where their terms are.

  def test_slots_that_only_a_branch_uses_are_with_their_variables(self):
    """As those of a dynamic loss scale, which skips updates."""
    x = _v1.placeholder(tf.float32, [None, 3])
    net = x
    for name in ("a", "b"):
      weight = _v1.get_variable(name, [3, 3], use_resource=True)
      net = tf.tanh(tf.matmul(net, weight))
    loss = tf.nn.l2_loss(net)
    optimizer = _v1.train.AdamOptimizer(0.1)
    gradients = optimizer.compute_gradients(loss)
    train_op = tf.cond(
      tf.math.is_finite(loss),
      lambda: tf.group(optimizer.apply_gradients(gradients)),
      tf.no_op,
    )
    config = estimator_mp.ShardingConfig("stage:2")
    ops = [op for op in self._graph.get_operations() if op is not x.op]
    stages = stages_lib.plan_stages(
      ops, self._backward(x), config, config.create_mesh()
    )
    found = {op.name: stages.get(op) for op in op_types.variables_of(ops)}
    self.assertEqual((found["a"], found["a/Adam"]), (0, 0))
    self.assertEqual((found["b"], found["b/Adam_1"]), (1, 1))
    # It is on no stage itself: its ops are on both.
    self.assertNotIn(train_op, stages)


if __name__ == "__main__":
  absltest.main()
