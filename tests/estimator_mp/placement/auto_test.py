"""Automatic placement, step by step, and part by part; no session runs."""

from estimator_mp.graph import colocation, op_types
from estimator_mp.placement import auto, costs, forward_graph, orders

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _cut(num_stages, towers, memory_limit=None):
  """Cuts towers of dense layers one by one; returns stages of kernels."""
  parts = auto.Automatic(num_stages, memory_limit)
  groups = colocation.ColocationGroups()
  found = {}
  with tf.Graph().as_default() as graph:
    features = v1.placeholder(tf.float32, [None, 8])
    for index, widths in enumerate(towers):
      start = len(graph.get_operations())
      net = features
      for layer, width in enumerate(widths):
        net = v1.layers.dense(net, width, name=f"t{index}/l{layer}")
      ops = graph.get_operations()[start:]
      groups.add(ops)
      found |= parts.stages_of(ops, [net.op], groups)
    parts.check([])
  return {
    op.name.removesuffix("/kernel"): stage
    for op, stage in found.items()
    if op_types.is_variable(op) and op.name.endswith("kernel")
  }


def _forward(build):
  """Returns the forward graph of what a function builds on features."""
  groups = colocation.ColocationGroups()
  with tf.Graph().as_default() as graph:
    features = v1.placeholder(tf.float32, [None, 8])
    start = len(graph.get_operations())
    build(features)
    ops = graph.get_operations()[start:]
    groups.add(ops)
    return forward_graph.read_forward(ops, groups)


def _names(ops):
  return sorted({op.name for op in ops})


class ForwardGraphTest(absltest.TestCase):
  def test_weights_and_their_users(self):
    def build(x):
      table = v1.get_variable("table", [20, 8])
      rows = tf.gather(table, tf.cast(x[:, 0], tf.int32), name="rows")
      v1.layers.dense(x + rows, 8, name="a")

    forward = _forward(build)
    found = {group.variables[0].name: group for group in forward.weights}
    self.assertEqual(_names(found["a/kernel"].users), ["a/MatMul"])
    self.assertEqual(_names(found["a/bias"].users), ["a/BiasAdd"])
    self.assertLen(found["table"].users, 1)
    self.assertTrue(found["a/kernel"].is_matrix)
    self.assertFalse(found["a/bias"].is_matrix)
    self.assertEqual(found["table"].num_bytes, 20 * 8 * 4)
    self.assertEqual(found["table"].training_bytes, 4 * 20 * 8 * 4)
    layers = [forward.weights[i].variables[0].name for i in forward.layers]
    self.assertCountEqual(layers, ["table", "a/kernel"])

  def test_a_penalty_is_no_user(self):
    def build(x):
      net = v1.layers.dense(x, 8, use_bias=False, name="a")
      (kernel,) = v1.trainable_variables()
      tf.add(tf.reduce_sum(net), tf.nn.l2_loss(kernel), name="loss")

    (group,) = _forward(build).weights
    self.assertEqual(_names(group.users), ["a/MatMul"])

  def test_what_is_of_variables_alone_is_not_on_features(self):
    def build(x):
      kernel = v1.get_variable("kernel", [8, 8])
      tf.matmul(x, tf.tanh(kernel, name="bent"), name="product")

    forward = _forward(build)
    self.assertEqual(_names(forward.ops), ["product"])
    self.assertEqual(_names(forward.weights[0].users), ["product"])


class OrdersTest(absltest.TestCase):
  def test_a_layer_has_one_position(self):
    forward = _forward(
      lambda x: v1.layers.dense(
        v1.layers.dense(x, 8, tf.nn.relu, name="a"), 8, tf.nn.relu, name="b"
      )
    )
    (order,) = orders.orders(forward, costs.op_costs(forward.ops))
    by_name = {op.name: k for op, k in order.positions.items()}
    for layer, position in (("a", 0), ("b", 1)):
      for op in ("MatMul", "BiasAdd", "Relu"):
        self.assertEqual(by_name[f"{layer}/{op}"], position)
    self.assertEqual(list(order.costs.layers), [True, True])
    self.assertEqual(sorted(set(order.first_uses)), [0, 1])
    self.assertEqual(orders.count_layers(forward), 2)

  def test_towers_that_share_weights_may_lie_side_by_side(self):
    def build(x):
      towers = []
      for name in ("first", "second"):
        net = tf.identity(x, name=name)
        for layer in ("a", "b"):
          with v1.variable_scope(layer, reuse=v1.AUTO_REUSE):
            kernel = v1.get_variable("kernel", [8, 8])
          net = tf.matmul(net, kernel, name=f"{name}_{layer}")
        towers.append(net)
      tf.subtract(*towers, name="difference")

    forward = _forward(build)
    found = orders.orders(forward, costs.op_costs(forward.ops))
    names = [
      [op.name for op in order.positions if op.type == "MatMul"]
      for order in found
    ]
    made = ["first_a", "first_b", "second_a", "second_b"]
    by_layers = ["first_a", "second_a", "first_b", "second_b"]
    self.assertEqual(names, [made, by_layers, by_layers])


class AutomaticTest(absltest.TestCase):
  def test_a_part_with_a_layer_for_each_stage_is_cut_over_all(self):
    found = _cut(2, [(8, 8), (8, 8)])
    self.assertEqual(found, {"t0/l0": 0, "t0/l1": 1, "t1/l0": 0, "t1/l1": 1})

  def test_smaller_parts_go_to_the_emptiest_stages(self):
    found = _cut(3, [(8, 80), (8,), (8, 4)])
    self.assertEqual(
      found, {"t0/l0": 0, "t0/l1": 1, "t1/l0": 2, "t2/l0": 0, "t2/l1": 2}
    )

  def test_what_does_not_lead_to_the_target_is_cut_too(self):
    groups = colocation.ColocationGroups()
    with tf.Graph().as_default() as graph:
      features = v1.placeholder(tf.float32, [None, 8])
      start = len(graph.get_operations())
      asked = v1.layers.dense(features, 8, name="asked")
      v1.layers.dense(features, 8, name="later")
      ops = graph.get_operations()[start:]
      groups.add(ops)
      found = auto.Automatic(2).stages_of(ops, [asked.op], groups)
    stages = {op.name: stage for op, stage in found.items()}
    self.assertEqual((stages["asked/kernel"], stages["later/kernel"]), (0, 1))

  def test_fewer_layers_than_stages_in_all_parts_together(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "the model has 2 layer(s) with weights, fewer than the 3 stages of the "
      "mesh; use at most 2, counting each virtual stage",
    ):
      _cut(3, [(8,), (8,)])

  def test_parts_that_fit_one_by_one_but_not_together(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError,
      "memory_limit=900000 bytes is too small: the model asks for gradients "
      "part by part, and its parts need 1.34 MB on one device; raise the "
      "limit, or place the model by rules",
    ):
      _cut(1, [(200, 200), (200, 200)], memory_limit=900_000)


if __name__ == "__main__":
  absltest.main()
