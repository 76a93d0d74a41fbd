"""The costs of ops: operations and bytes, to the last one."""

from estimator_mp.machines.machine import Device
from estimator_mp.placement import costs

import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_BATCH, _IN, _OUT = 32, 10, 16


class CostsTest(parameterized.TestCase):
  @parameterized.parameters(_BATCH, None)
  def test_a_dense_layer(self, batch):
    """An open batch is a nominal one, of 32 examples."""
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [batch, _IN])
      kernel = v1.get_variable("kernel", [_IN, _OUT], use_resource=True)
      bias = v1.get_variable("bias", [_OUT], use_resource=True)
      tf.nn.relu(tf.nn.bias_add(tf.matmul(x, kernel), bias))
      found = {
        op.type: cost
        for op, cost in costs.op_costs(graph.get_operations()).items()
      }
    # A product, and one addition and one ReLU for each result.
    numbers = {"MatMul": 2 * _IN, "BiasAdd": 1, "Relu": 1}
    for kind, number in numbers.items():
      self.assertEqual(found[kind].flops, _BATCH * _OUT * number, kind)
      self.assertEqual(found[kind].output_bytes, _BATCH * _OUT * 4, kind)
      self.assertEqual(found[kind].one_core, 0.0)

  def test_columns_are_read_by_one_core(self):
    device = Device("CPU", {"float32": 1e12}, 1e9, 1e12, 0.0, 1.0, 1e3, 2)
    with tf.Graph().as_default() as graph:
      x = v1.placeholder(tf.float32, [_BATCH, _OUT])
      y = v1.placeholder(tf.float32, [_IN, _OUT])
      op = tf.matmul(x, y, transpose_b=True).op
      cost = costs.op_costs(graph.get_operations(), device=device)[op]
    columns = _IN * _OUT * 4 / 1e3
    self.assertAlmostEqual(cost.one_core * cost.seconds, columns)
    self.assertAlmostEqual(cost.seconds, columns, places=5)


if __name__ == "__main__":
  absltest.main()
