"""Tests of a sharded run's RunConfig, and of what its sessions verify."""

import os
import re

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.observe import verification
from tests.compat.private import only_tests

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized


def _threads_of_three_stages(limit):
  given = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=limit)
  config = estimator_mp.ShardingConfig("stage:3")
  made = estimator_mp.run_config(config, session_config=given)
  return made.session_config.inter_op_parallelism_threads


class RunConfigTest(parameterized.TestCase):
  def test_sessions_hold_and_obey_the_mesh(self):
    config = estimator_mp.ShardingConfig("stage:2", ("/cpu:1", "/cpu:4"))
    made = estimator_mp.run_config(
      config, model_dir="somewhere", tf_random_seed=3, save_summary_steps=7
    )
    self.assertEqual(made.model_dir, "somewhere")
    self.assertEqual(made.tf_random_seed, 3)
    self.assertEqual(made.save_summary_steps, 7)
    session = made.session_config
    self.assertFalse(session.allow_soft_placement)
    self.assertTrue(session.use_per_session_threads)
    self.assertEqual(session.device_count["CPU"], 5)
    self.assertGreaterEqual(session.inter_op_parallelism_threads, 2)
    with tf.compat.v1.Session(config=session) as real:
      cpus = [d for d in real.list_devices() if d.device_type == "CPU"]
    self.assertLen(cpus, 5)

  def test_graphs_are_rewritten_as_often_as_in_a_plain_estimator(self):
    """A second iteration fused other ops, and changed a sum's last bits."""
    made = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:2"))
    options = made.session_config.graph_options.rewrite_options
    plain = tf.estimator.Estimator(lambda features, mode: None)
    expected = only_tests.session_config_of(plain).graph_options.rewrite_options
    self.assertEqual(options, expected)

  def test_a_thread_for_each_device(self):
    many = 4 * (os.cpu_count() or 1)
    made = estimator_mp.run_config(estimator_mp.ShardingConfig(f"data:{many}"))
    self.assertEqual(made.session_config.inter_op_parallelism_threads, many)

  @parameterized.parameters(-1, 1, 2)
  def test_a_limit_of_threads_below_the_devices_is_raised(self, limit):
    with self.assertLogs("absl", "INFO") as logs:
      threads = _threads_of_three_stages(limit)
    self.assertEqual(threads, 3)
    self.assertEqual(
      [x.getMessage() for x in logs.records],
      [
        f"inter_op_parallelism_threads={limit} of the session_config is raised "
        "to 3, a thread for each device of mesh stage:3"
      ],
    )

  @parameterized.parameters(3, 7)
  def test_a_limit_of_threads_for_all_devices_is_kept(self, limit):
    with self.assertNoLogs("absl", "INFO"):
      self.assertEqual(_threads_of_three_stages(limit), limit)

  def test_keeps_the_rest_of_a_given_session_config(self):
    given = tf.compat.v1.ConfigProto(
      log_device_placement=True,
      device_count={"CPU": 9},
      allow_soft_placement=True,
    )
    before = given.SerializeToString(deterministic=True)
    made = estimator_mp.run_config(
      estimator_mp.ShardingConfig("stage:2"), session_config=given
    ).session_config
    self.assertTrue(made.log_device_placement)
    self.assertEqual(made.device_count["CPU"], 9)
    self.assertFalse(made.allow_soft_placement)
    self.assertEqual(given.SerializeToString(deterministic=True), before)


class PlacementVerificationTest(parameterized.TestCase):
  def _train_step(self, session_config, hook):
    """One training step of a model on cpu:0 and cpu:1."""
    rng = np.random.RandomState(5)
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [None, 4])
      with tf.device("/cpu:0"):
        w0 = tf.compat.v1.get_variable("w0", [4, 8])
        hidden = tf.nn.relu(tf.matmul(x, w0))
      with tf.device("/cpu:1"):
        w1 = tf.compat.v1.get_variable("w1", [8, 1])
        loss = tf.reduce_mean(tf.matmul(hidden, w1) ** 2)
      optimizer = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)
      train_op = optimizer.minimize(loss, colocate_gradients_with_ops=True)
      with tf.compat.v1.train.SingularMonitoredSession(
        [hook], config=session_config
      ) as session:
        for _ in range(2):
          session.run(train_op, {x: rng.randn(3, 4)})

  def test_reports_what_each_device_ran(self):
    hook = toolbox.PlacementVerificationHook()
    config = estimator_mp.run_config(estimator_mp.ShardingConfig("stage:2"))
    self._train_step(config.session_config, hook)
    first = hook.observed["/device:CPU:0"]
    second = hook.observed["/device:CPU:1"]
    self.assertEqual(first.variables, ("w0", "w0/Momentum"))
    self.assertEqual(first.variable_bytes, 2 * 4 * 8 * 4)
    self.assertEqual(second.variables, ("w1", "w1/Momentum"))
    self.assertEqual(second.variable_bytes, 2 * 8 * 4)
    for device in (first, second):  # TensorFlow may run a _FusedMatMul.
      self.assertTrue([x for x in device.op_types if x.endswith("MatMul")])

  def test_an_op_that_soft_placement_moved_is_an_error(self):
    """On one CPU, soft placement runs /cpu:1's ops on cpu:0 and trains on."""
    hook = toolbox.PlacementVerificationHook()
    soft = tf.compat.v1.ConfigProto(
      allow_soft_placement=True, device_count={"CPU": 1}
    )
    with self.assertRaisesRegex(
      toolbox.PlacementError,
      r"op '.+' \(.+\) was placed on /device:CPU:1 but ran on "
      r"/job:localhost/replica:0/task:0/device:CPU:0; use "
      r"config=estimator_mp.run_config\(...\), which turns soft placement off "
      "and makes the mesh's devices exist",
    ):
      self._train_step(soft, hook)

  @parameterized.named_parameters(
    (
      "no_plan",
      {},
      "no op of the graph was placed; shard the model_fn with "
      "estimator_mp.shard_model_fn, or place ops with mesh.stage",
    ),
    (
      "no_partition_graphs",
      {"x": ("Mul", "/device:CPU:0")},
      "the step returned no partition graphs; run it with "
      "tf.compat.v1.RunOptions(output_partition_graphs=True)",
      [],
    ),
    (
      "no_placed_op_ran",
      {"x": ("Mul", "/device:CPU:0")},
      "the step ran none of the 1 placed ops, such as 'x'; verify a step that "
      "does, such as one of train_op",
    ),
  )
  def test_a_verification_that_compared_nothing_has_failed(
    self, plan, reason, partitions=None
  ):
    if partitions is None:
      with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="y")
      partitions = [graph.as_graph_def()]
    with self.assertRaisesRegex(
      toolbox.PlacementError,
      "^the placement (of 1 ops )?was not verified: " + re.escape(reason) + "$",
    ):
      verification.check_placement(plan, partitions)

  def test_a_hook_that_compared_nothing_fails_the_first_step(self):
    with tf.Graph().as_default():
      x = tf.compat.v1.placeholder(tf.float32, [])
      y = x + 1.0
      hook = toolbox.PlacementVerificationHook()
      with (
        self.assertRaisesRegex(
          toolbox.PlacementError, "no op of the graph was placed"
        ),
        tf.compat.v1.train.SingularMonitoredSession([hook]) as session,
      ):
        session.run(y, {x: 2.0})

  def test_a_prediction_that_computes_nothing_is_verified_by_its_input(self):
    """An Estimator places the input's ops itself, so there is a plan."""

    def model_fn(features, labels, mode):
      del labels
      spec = tf.estimator.EstimatorSpec(mode, predictions=features)
      return toolbox.with_placement_verification(spec)

    config = estimator_mp.ShardingConfig("stage:2")
    estimator = tf.estimator.Estimator(
      model_fn, config=estimator_mp.run_config(config)
    )
    values = np.arange(3, dtype=np.float32)
    found = estimator.predict(
      lambda: tf.data.Dataset.from_tensor_slices({"x": values}).batch(2)
    )
    self.assertEqual([float(p["x"]) for p in found], [0.0, 1.0, 2.0])

  def test_a_graph_without_placement_is_an_error(self):
    with self.assertRaisesRegex(ValueError, "the graph has no placement"):
      estimator_mp.get_placement(tf.Graph())


if __name__ == "__main__":
  absltest.main()
