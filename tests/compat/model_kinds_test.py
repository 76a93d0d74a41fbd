"""Every kind of Estimator trains, evaluates, predicts, exports and reloads."""

import glob
import os

import compat
from tests import tiers

from absl.testing import absltest, parameterized

compat.install()

from tests.compat import models  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402


def setUpModule():
  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
  )


class ModelKindsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample((name, name) for name in models.MODELS)
  )
  def test_from_training_to_serving(self, name):
    model = models.MODELS[name]
    model_dir = self.create_tempdir().full_path
    estimator = model.make(model_dir)
    # One parameter, as TPUEstimator asks for.
    estimator.train(lambda params: model.input_fn().repeat(), steps=96)
    metrics = estimator.evaluate(model.input_fn, steps=8)
    self.assertEqual(metrics["global_step"], 96)
    self.assertGreater(metrics["accuracy"], 0.7)

    predictions = model.predict(estimator)
    self.assertEqual(predictions.shape, (models.SIZE,))
    _, labels = models.examples()
    accuracy = np.mean((predictions > 0.5) == labels[:, 0])
    self.assertAlmostEqual(accuracy, metrics["accuracy"], places=6)

    exported = estimator.export_saved_model(
      self.create_tempdir().full_path, model.serving_input_receiver_fn
    )
    served = model.predict_saved_model(os.fsdecode(exported))
    np.testing.assert_allclose(served, predictions, atol=1e-6)

    again = model.make(model_dir)  # As a new process would.
    np.testing.assert_allclose(model.predict(again), predictions, atol=1e-6)


class TrainingTest(absltest.TestCase):
  @tiers.slow
  def test_train_and_evaluate_with_exporters_hooks_and_early_stopping(self):
    model = models.MODELS["custom"]
    directory = self.create_tempdir().full_path
    estimator = model.make(directory)
    estimator = tf.estimator.Estimator(
      models.custom_model_fn,
      config=estimator.config.replace(save_checkpoints_steps=10),
    )
    serving = models.raw_serving_input_receiver_fn
    exporters = [
      tf.estimator.BestExporter("best", serving, exports_to_keep=2),
      tf.estimator.LatestExporter("latest", serving, exports_to_keep=1),
      tf.estimator.FinalExporter("final", serving),
    ]
    stop = tf.estimator.experimental.stop_if_higher_hook(
      estimator, "loss", 1e6, run_every_secs=None, run_every_steps=10
    )
    log = tf.estimator.LoggingTensorHook({"l": "dense/kernel"}, every_n_iter=10)
    metrics, exports = tf.estimator.train_and_evaluate(
      estimator,
      tf.estimator.TrainSpec(
        lambda: models.x_input_fn().repeat(), max_steps=30, hooks=[stop, log]
      ),
      tf.estimator.EvalSpec(
        models.x_input_fn, steps=8, exporters=exporters, throttle_secs=0
      ),
    )
    self.assertEqual(metrics["global_step"], 30)
    self.assertLen(exports, 3)
    for name, most in (("best", 2), ("latest", 1), ("final", 1)):
      found = glob.glob(os.path.join(directory, "export", name, "*"))
      self.assertBetween(len(found), 1, most, name)
    served = model.predict_saved_model(os.fsdecode(exports[-1]))
    np.testing.assert_allclose(served, model.predict(estimator), atol=1e-6)
    self.assertNotEmpty(glob.glob(os.path.join(directory, "eval", "events*")))

  def test_early_stopping_without_progress(self):
    """stop_if_no_decrease_hook ends a training whose loss only grows."""
    directory = self.create_tempdir().full_path

    def model_fn(features, labels, mode):
      del features, labels
      step = tf.compat.v1.train.get_or_create_global_step()
      loss = tf.cast(step, tf.float32)
      return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=tf.compat.v1.assign_add(step, 1)
      )

    estimator = tf.estimator.Estimator(
      model_fn,
      directory,
      tf.estimator.RunConfig(save_checkpoints_steps=10),
    )
    stop = tf.estimator.experimental.stop_if_no_decrease_hook(
      estimator, "loss", 30, run_every_secs=None, run_every_steps=10
    )
    tf.estimator.train_and_evaluate(
      estimator,
      tf.estimator.TrainSpec(
        lambda: models.x_input_fn().repeat(), max_steps=500, hooks=[stop]
      ),
      tf.estimator.EvalSpec(models.x_input_fn, steps=1, throttle_secs=0),
    )
    step = estimator.get_variable_value("global_step")
    self.assertBetween(step, 30, 100)

  @tiers.slow
  def test_warm_start(self):
    """A new DNNClassifier begins with the variables of a trained one."""
    model = models.MODELS["canned"]
    source = model.make(self.create_tempdir().full_path)
    source.train(model.input_fn, steps=8)
    settings = tf.estimator.WarmStartSettings(
      source.model_dir, vars_to_warm_start=".*(embedding|kernel).*"
    )
    warm = tf.estimator.DNNClassifier(
      [8, 4],
      models.columns(),
      optimizer=lambda: tf.keras.optimizers.legacy.SGD(0.0),
      model_dir=self.create_tempdir().full_path,
      warm_start_from=settings,
    )
    warm.train(model.input_fn, steps=1)
    names = [n for n in source.get_variable_names() if "kernel" in n]
    self.assertNotEmpty([n for n in names if n in warm.get_variable_names()])
    for name in set(names) & set(warm.get_variable_names()):
      np.testing.assert_array_equal(
        warm.get_variable_value(name), source.get_variable_value(name)
      )


class StrategyTest(absltest.TestCase):
  @tiers.slow
  def test_mirrored_strategy_trains_as_one_device_does(self):
    """Two replicas, half a batch each, find what one device finds."""

    def train(strategy, batch_size):
      def input_fn():
        x = np.random.RandomState(2).uniform(-1, 1, (64, 1)).astype("float32")
        data = tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x - 1))
        return data.batch(batch_size).repeat()

      def model_fn(features, labels, mode):
        w = tf.compat.v1.get_variable("w", [1, 1], initializer=tf.zeros)
        loss = tf.reduce_mean(tf.square(features["x"] @ w + 0.5 - labels))
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(
          loss, tf.compat.v1.train.get_or_create_global_step()
        )
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

      estimator = tf.estimator.Estimator(
        model_fn,
        self.create_tempdir().full_path,
        tf.estimator.RunConfig(
          train_distribute=strategy,
          eval_distribute=strategy,
          session_config=tf.compat.v1.ConfigProto(
            device_count={"CPU": 2}, allow_soft_placement=False
          ),
        ),
      )
      estimator.train(input_fn, steps=20)
      metrics = estimator.evaluate(input_fn, steps=4)
      return estimator.get_variable_value("w"), metrics["loss"]

    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    self.assertEqual(strategy.num_replicas_in_sync, 2)
    # Each replica reads its own batch: twice 16 is 32.
    mirrored, mirrored_loss = train(strategy, 16)
    plain, plain_loss = train(None, 32)
    np.testing.assert_allclose(mirrored, plain, rtol=1e-5)
    self.assertGreater(plain[0, 0], 1.0)
    self.assertLess(abs(mirrored_loss - plain_loss), 0.2)


if __name__ == "__main__":
  absltest.main()
