"""Measured costs: what is measured, and the cut that follows from it."""

import json
import os
from unittest import mock

import estimator_mp
from estimator_mp import toolbox
from estimator_mp.config import options
from estimator_mp.placement import costs, evenness
from tests import tiers
from tests.estimator_mp import graph_case, runs
from tests.estimator_mp.models import catalogue, data, networks

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
# Of each op that runs once, but for those that a test gives others.
MICROSECOND = 1e-6


class _Clock(tf.estimator.SessionRunHook):
  """Gives the ops of traced steps the times of a test."""

  def __init__(self, times):
    """Takes the seconds of some ops, by name, for each step."""
    self._times = iter(times)

  def after_run(self, run_context, run_values):
    del run_context
    times = next(self._times)
    for device in run_values.run_metadata.step_stats.dev_stats:
      for node in device.node_stats:
        name = node.node_name.partition(":")[0]
        seconds = times.get(name, MICROSECOND)
        # It waited for a second before.
        node.op_start_rel_nanos = 10**9
        node.op_end_rel_nanos = 10**9 + round(1e9 * seconds)


def measured(times, *arguments, **options):
  """Returns the costs of a model whose ops take the times of a test.

  Args:
    times: The seconds of some ops, by name, for each step.
    *arguments: Of `measure_costs`.
    **options: Of `measure_costs`.
  """
  train = tf.estimator.Estimator.train

  def timed_train(self, input_fn, hooks, **kwargs):
    # The second time, whole steps are timed.
    traces = [x for x in hooks if "after_create_session" in vars(type(x))]
    clocks = [_Clock(times)] if traces else []
    return train(self, input_fn, [*clocks, *hooks], **kwargs)

  with mock.patch.object(tf.estimator.Estimator, "train", timed_train):
    return estimator_mp.measure_costs(*arguments, **options)


def slow_first_model_fn(features, labels, mode):
  """Five equal layers; the first has an op whose time no count foretells."""
  net = features["x"]
  for i in range(5):
    net = v1.layers.dense(net, 16, tf.nn.relu, name=f"layer_{i}")
    if i == 0:
      zeros = tf.numpy_function(np.zeros_like, [net], tf.float32, name="slow")
      zeros.set_shape(net.shape)
      net = net + tf.stop_gradient(zeros)
  logits = v1.layers.dense(net, 1, name="logits")
  floats = tf.cast(labels, tf.float32)
  loss = v1.losses.sigmoid_cross_entropy(floats, logits)
  train_op = None
  if mode == tf.estimator.ModeKeys.TRAIN:
    with v1.name_scope("train"):
      train_op = v1.train.AdamOptimizer(0.01).minimize(
        loss, v1.train.get_global_step()
      )
  return tf.estimator.EstimatorSpec(
    mode, {"logits": logits}, loss, train_op, {}
  )


def _input_fn():
  return data.input_fn().repeat()


class MeasureTest(absltest.TestCase):
  @tiers.slow
  def test_the_measured_cut_moves_and_the_run_stays_the_same(self):
    # The first step is not counted; of the others, it is the median.
    slow = [
      {"slow": seconds, "layer_1/BiasAdd": 0.01}
      for seconds in (9.0, 0.4, 0.1, 0.2)
    ]
    costs = measured(slow, slow_first_model_fn, _input_fn, steps=3)
    self.assertAlmostEqual(costs.seconds["slow"], 0.2)
    gradients = "train/gradients/layer_1/MatMul_grad/MatMul"
    for name in ("layer_1/MatMul", gradients, f"{gradients}_1"):
      self.assertAlmostEqual(costs.seconds[name], MICROSECOND)
    path = os.path.join(self.create_tempdir().full_path, "costs.json")
    costs.save(path)
    with open(path, encoding="utf-8") as file:
      self.assertEqual(json.load(file), {"format": 2, **costs.to_dict()})

    def layers_of_first_stage(config):
      found = estimator_mp.plan(slow_first_model_fn, _input_fn, config)
      seconds = [x.busy_seconds for x in found.step.devices]
      return found.placement.stages[0].layers, evenness.shares(seconds)

    estimated = estimator_mp.ShardingConfig("stage:2")
    config = estimator_mp.ShardingConfig("stage:2", measured_costs=path)
    self.assertEqual(config.measured_costs, costs)
    layers, _ = layers_of_first_stage(estimated)
    self.assertIn("layer_1", layers)
    layers, shares = layers_of_first_stage(config)
    self.assertEqual(layers, ("layer_0",))
    self.assertGreater(shares[0], 0.9)

    plain, sharded = runs.plain_and_sharded(
      self, slow_first_model_fn, config, steps=2
    )
    runs.assert_same_training(self, sharded, plain)
    first = sharded.devices["/device:CPU:0"].variables
    self.assertIn("layer_0/kernel", first)
    self.assertNotIn("layer_1/kernel", first)

  def test_loops_and_gradients_are_seen(self):
    model = catalogue.NETWORKS["lstm"]
    costs = measured([{}, {}], model.model_fn, _input_fn, model.params, steps=1)
    loops = [name for name in costs.seconds if name.endswith("/while")]
    self.assertContainsSubset(["rnn_0/while", "rnn_1/while"], loops)
    slowest = sorted(costs.seconds, key=costs.seconds.__getitem__)[-4:]
    loops = [f"rnn_{i}/while" for i in range(2)]
    gradients = [f"gradients/{x}_grad/{x}_grad" for x in loops]
    self.assertCountEqual(slowest, [*loops, *gradients])

  def test_the_turns_of_a_loop_add_up(self):
    def model_fn(features, labels, mode, params):
      def turn(i, x):
        return i + 1, tf.tanh(x)

      net = v1.layers.dense(features["x"], 1)
      start = [tf.constant(0), net]
      _, net = tf.while_loop(lambda i, _: i < params["turns"], turn, start)
      optimizer = v1.train.GradientDescentOptimizer(0.1)
      return networks.spec(mode, net, labels, networks.minimize(optimizer))

    few, more, most = (
      measured([{}, {}], model_fn, _input_fn, {"turns": n}, 1).seconds["while"]
      for n in (2, 3, 7)
    )
    self.assertGreater(more, few)
    self.assertAlmostEqual(most - more, 4 * (more - few))

  def test_too_few_batches(self):
    def input_fn():
      return data.input_fn().take(2)

    with self.assertRaises(ValueError) as caught:
      estimator_mp.measure_costs(slow_first_model_fn, input_fn, steps=3)
    self.assertEqual(
      str(caught.exception),
      "input_fn has 2 batch(es), but measuring steps=3 takes 4; repeat() its "
      "data, or use fewer steps",
    )

  def test_too_few_steps(self):
    with self.assertRaises(ValueError) as caught:
      estimator_mp.measure_costs(slow_first_model_fn, _input_fn, steps=0)
    self.assertEqual(
      str(caught.exception), "steps=0 is too small; use 1 or more"
    )


class GradientsTest(graph_case.GraphCase):
  def _seconds(self, gradients):
    """Returns what counts of a layer whose ops take a second each."""
    x = v1.placeholder(tf.float32, [2, 3], "x")
    kernel = v1.get_variable("kernel", [3, 4])
    with tf.GradientTape(persistent=True) as tape:
      net = tf.nn.relu(tf.matmul(x, kernel, name="product"))
    (gradient,) = gradients(tape, net, [kernel])
    v1.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, kernel)])
    ops = v1.get_default_graph().get_operations()
    return costs.seconds_with_gradients(ops, {op.name: 1.0 for op in ops})

  @parameterized.named_parameters(
    ("tf_gradients", lambda _, y, x: tf.gradients(y, x), 3.0),
    ("tape", lambda tape, y, x: tape.gradient(y, x), 1.0),
  )
  def test_a_layer_has_those_of_its_gradients_and_updates(
    self, gradients, of_product
  ):
    found = self._seconds(gradients)
    self.assertEqual(found["product"], of_product)
    self.assertGreater(found["kernel"], 1.0)  # Its op, and its update.
    self.assertEmpty([x for x in found if "_grad/" in x or "_tape/" in x])

  def test_a_gradient_of_a_gradient_counts_for_the_forward_op(self):
    x = v1.placeholder(tf.float32, [2, 3], "x")
    y = tf.tanh(x, name="y")
    (first,) = tf.gradients(y, x)
    tf.gradients(tf.square(first, name="square"), x)
    ops = v1.get_default_graph().get_operations()
    found = costs.seconds_with_gradients(ops, {op.name: 1.0 for op in ops})
    self.assertGreater(found["y"], 2.0)


class FileTest(parameterized.TestCase):
  def test_json_and_files_say_all_of_it(self):
    costs = toolbox.MeasuredCosts({"a/MatMul": 0.25, "b": 0.0})
    text = costs.to_json()
    self.assertEqual(toolbox.MeasuredCosts.from_json(text), costs)
    path = os.path.join(self.create_tempdir().full_path, "costs.json")
    costs.save(path)
    self.assertEqual(toolbox.MeasuredCosts.load(path), costs)
    config = estimator_mp.ShardingConfig("stage:2", measured_costs=path)
    again = estimator_mp.ShardingConfig.from_json(config.to_json())
    self.assertEqual(again.measured_costs, costs)
    self.assertEqual(options.to_plain(costs), costs.to_dict())


if __name__ == "__main__":
  absltest.main()
