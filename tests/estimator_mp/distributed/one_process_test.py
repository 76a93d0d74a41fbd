"""train_and_evaluate in one process: SIGTERM, and what a run begins with."""

import glob
import os
import signal

import estimator_mp
from tests import tiers
from tests.estimator_mp import parts, runs

import tensorflow as tf
from absl.testing import absltest

v1 = tf.compat.v1


def _model_fn(features, labels, mode, params):
  units, name = params.get("units", 8), params.get("name", "first")
  net = v1.layers.dense(features, units, tf.nn.relu, name=name)
  loss = v1.losses.mean_squared_error(labels, v1.layers.dense(net, 1))
  return parts.spec(mode, loss, v1.train.GradientDescentOptimizer(0.01))


def _input_fn():
  numbers = tf.random.stateless_normal([8, 3], seed=[1, 2])
  sums = tf.reduce_sum(numbers, axis=1, keepdims=True)
  return tf.data.Dataset.from_tensors((numbers, sums)).repeat(20)


class OneProcessTest(absltest.TestCase):
  def setUp(self):
    super().setUp()
    self.model_dir = self.create_tempdir().full_path
    self.config = config = estimator_mp.ShardingConfig(mesh="stage:2")
    self.estimator = tf.estimator.Estimator(
      estimator_mp.shard_model_fn(_model_fn, config),
      config=estimator_mp.run_config(
        config, self.model_dir, save_checkpoints_steps=5
      ),
      params={},
    )

  def _train_and_evaluate(self, max_steps, *hooks):
    return estimator_mp.train_and_evaluate(
      self.estimator,
      tf.estimator.TrainSpec(_input_fn, max_steps, hooks),
      tf.estimator.EvalSpec(_input_fn, throttle_secs=0),
    )

  def _step(self):
    return self.estimator.get_variable_value("global_step")

  def _checkpoint(self, step):
    return os.path.join(self.model_dir, f"model.ckpt-{step}")

  def _truncate(self, step):
    """Returns the line that says so."""
    data = glob.glob(f"{self._checkpoint(step)}.data-*")
    size = sum(map(os.path.getsize, data))
    os.truncate(data[0], os.path.getsize(data[0]) - 1)
    return (
      f"{self._checkpoint(step)} is incomplete: its data files have "
      f"{size - 1:,} bytes of {size:,}; training goes on from "
      f"{self._checkpoint(5)}"
    )

  def test_sigterm_saves(self):
    self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)
    with self.assertLogs("tensorflow", "WARNING") as logged:
      hook = runs.SignalHook(
        signal.SIGTERM, 3, lambda: "SIGTERM" in "".join(logged.output)
      )
      with self.assertRaises(SystemExit) as raised:
        self._train_and_evaluate(20, hook)
    self.assertEqual(raised.exception.code, 143)
    self.assertEqual((hook.steps, self._step()), (3, 3))
    self.assertFalse(os.path.exists(os.path.join(self.model_dir, "eval")))
    self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

  @tiers.slow
  def test_a_program_that_handles_sigterm_goes_on_to(self):
    received = []
    handler = signal.signal(signal.SIGTERM, lambda *_: received.append(1))
    self.addCleanup(signal.signal, signal.SIGTERM, handler)
    hook = runs.SignalHook(signal.SIGTERM, 3, lambda: received)
    metrics, _ = self._train_and_evaluate(10, hook)
    self.assertEqual(received, [1])
    self.assertEqual(metrics["global_step"], 10)

  @tiers.slow
  def test_a_truncated_checkpoint_is_left_out(self):
    """Also where its step is the last one, and nothing was left to do."""
    self._train_and_evaluate(10)
    line = self._truncate(10)
    with self.assertLogs("tensorflow", "WARNING") as logged:
      metrics, _ = self._train_and_evaluate(10)
    self.assertIn(line, [x.getMessage() for x in logged.records])
    self.assertEqual(metrics["global_step"], 10)

  def test_estimator_train_leaves_it_out(self):
    self.estimator.train(_input_fn, steps=10)
    line = self._truncate(10)
    with self.assertLogs("tensorflow", "WARNING") as logged:
      self.estimator.train(_input_fn, steps=1)
    self.assertIn(line, [x.getMessage() for x in logged.records])
    self.assertEqual(self._step(), 6)

  def test_a_checkpoint_of_another_model(self):
    """One of other sizes was restored as it was, without a word."""
    self.estimator.train(_input_fn, steps=1)
    for params, expected in (
      ({"units": 16}, r"has first/kernel .*\[3, 8\], but .* makes it \[3, 16"),
      ({"name": "second"}, "another model: it has no second/kernel and 1 more"),
    ):
      with self.subTest(**params):
        other = tf.estimator.Estimator(
          estimator_mp.shard_model_fn(_model_fn, self.config),
          config=self.estimator.config,
          params=params,
        )
        expected = f"^{self._checkpoint(1)} .*{expected}"
        with self.assertRaisesRegex(ValueError, expected):
          other.train(_input_fn, steps=1)


if __name__ == "__main__":
  absltest.main()
