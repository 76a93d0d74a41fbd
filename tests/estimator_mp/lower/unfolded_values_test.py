"""Initial values: the same as the plain model's, and not kept by a session."""

import estimator_mp
from estimator_mp.lower import unfolded_values

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
# 1 MiB each, which the optimizer folds.
_WIDTH = 512
_LARGE = _WIDTH * _WIDTH * 4


def _largest_constant(session, fetch):
  """Returns the bytes of the largest constant of the graph that was run."""
  metadata = v1.RunMetadata()
  options = v1.RunOptions(output_partition_graphs=True)
  session.run(fetch, options=options, run_metadata=metadata)
  return max(
    node.ByteSize()
    for graph in metadata.partition_graphs
    for node in graph.node
  )


class ComputeInSessionTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "stateless",
      lambda: tf.random.stateless_normal([_WIDTH, _WIDTH], [3, 4]) * 0.1 + 1,
      True,
    ),
    (
      "seeded",
      lambda: tf.keras.initializers.GlorotUniform(5)([_WIDTH, _WIDTH]),
      True,
    ),
    (
      "broadcast",
      lambda: tf.broadcast_to(tf.range(_WIDTH), [_WIDTH, _WIDTH]),
      True,
    ),
    ("identity", lambda: tf.eye(_WIDTH), True),
    (
      "computed_shape",
      lambda: tf.fill(tf.stack([_WIDTH, _WIDTH]) * 2, 1.0)[::2, ::2] + 1,
      False,
    ),
  )
  def test_large_values_are_computed(self, make, is_folded):
    values, largest = [], []
    config = v1.ConfigProto()
    # The optimizer leaves graphs of three ops alone.
    config.graph_options.rewrite_options.min_graph_nodes = -1
    for in_session in (False, True):
      with tf.Graph().as_default():
        variable = v1.get_variable("weights", initializer=make())
        if in_session:
          unfolded_values.compute_in_session()
        with v1.Session(config=config) as session:
          initialize = v1.global_variables_initializer()
          largest.append(_largest_constant(session, initialize))
          values.append(session.run(variable))
    self.assertEqual(largest[0] >= _LARGE, is_folded)
    self.assertLess(largest[1], _LARGE / 8)
    np.testing.assert_array_equal(*values)

  def test_a_branch_stays(self):
    with tf.Graph().as_default(), v1.Session() as session:
      v1.disable_control_flow_v2()
      try:
        value = v1.cond(
          v1.placeholder_with_default(True, []),
          lambda: tf.fill([_WIDTH, _WIDTH], 1.0),
          lambda: tf.zeros([_WIDTH, _WIDTH]),
        )
      finally:
        v1.enable_control_flow_v2()
      variable = v1.get_variable("weights", initializer=value)
      unfolded_values.compute_in_session()
      session.run(v1.global_variables_initializer())
      self.assertEqual(session.run(variable)[0, 0], 1.0)


def _model_fn(features, labels, mode):
  net = features
  for index in range(4):
    net = v1.layers.dense(net, _WIDTH, tf.tanh, name=f"layer{index}")
  loss = tf.reduce_mean((net - labels) ** 2)
  step = v1.train.get_or_create_global_step()
  train_op = v1.train.AdamOptimizer(0.01).minimize(loss, step)
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class ShardedTest(parameterized.TestCase):
  @parameterized.parameters("data:2", "stage:2,model:2")
  def test_weights_and_slots(self, mesh):
    with tf.Graph().as_default():
      v1.set_random_seed(3)
      config = estimator_mp.ShardingConfig(mesh)
      x, y = (
        v1.placeholder_with_default(
          np.ones([4, _WIDTH], np.float32), [4, _WIDTH]
        )
        for _ in range(2)
      )
      sharded = estimator_mp.shard_model_fn(_model_fn, config)
      sharded(x, y, tf.estimator.ModeKeys.TRAIN)
      session_config = v1.ConfigProto(device_count={"CPU": 4})
      with v1.Session(config=session_config) as session:
        initialize = v1.global_variables_initializer()
        largest = _largest_constant(session, initialize)
      self.assertLess(largest, _LARGE / 8)


if __name__ == "__main__":
  absltest.main()
