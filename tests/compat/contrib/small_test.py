"""Names of tf.contrib that TensorFlow has kept, and what is refused."""

import inspect
import json
import os
from unittest import mock

import compat

compat.install(contrib=True)

from compat import contrib  # noqa: E402
from compat.private import estimators  # noqa: E402

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402


class DistributeTest(parameterized.TestCase):
  def test_arguments_of_1_15(self):
    made = tf.contrib.distribute.MirroredStrategy
    self.assertEqual(
      list(inspect.signature(made).parameters),
      [
        "devices",
        "num_gpus",
        "num_gpus_per_worker",
        "cross_device_ops",
        "auto_shard_dataset",
        "cross_tower_ops",
      ],
    )
    self.assertEqual(made(num_gpus=0).extended.worker_devices[-1][-5:], "CPU:0")

  def test_all_reduce(self):
    made = tf.contrib.distribute.AllReduceCrossDeviceOps
    self.assertIsInstance(made(num_packs=2), tf.distribute.NcclAllReduce)


class EagerTest(absltest.TestCase):
  def test_iterator(self):
    iterator = tf.contrib.eager.Iterator(tf.data.Dataset.range(2))
    self.assertEqual(iterator.output_types, tf.int64)
    self.assertEqual([int(one) for one in iterator], [0, 1])
    with self.assertRaises(tf.errors.OutOfRangeError):
      iterator.get_next()

  def test_saver(self):
    variable = tf.contrib.eager.Variable(3.0, name="v")
    saver = tf.contrib.eager.Saver([variable])
    path = saver.save(self.create_tempdir().full_path + "/x", 7)
    variable.assign(4.0)
    saver.restore(path)
    self.assertEqual(float(variable), 3.0)
    self.assertEqual(tf.train.list_variables(path), [("v", [])])

  def test_gradients(self):
    slope = tf.contrib.eager.gradients_function(lambda x: x * x)
    self.assertEqual(float(slope(3.0)[0]), 6.0)

  def test_metrics(self):
    mean = tf.contrib.eager.metrics.Mean("loss")
    for value in (1.0, 4.0):
      mean(value)
    self.assertEqual(float(mean.result()), 2.5)
    mean.init_variables()
    mean(7.0)
    self.assertEqual(float(mean.result()), 7.0)

  def test_defun(self):
    square = tf.contrib.eager.defun(lambda x: x * x)
    self.assertEqual(float(square(tf.constant(3.0))), 9.0)


class CheckpointTest(absltest.TestCase):
  def test_tracker_and_its_picture(self):
    tracker = tf.contrib.checkpoint.UniqueNameTracker()
    for value in (1.0, 2.0):
      tracker.track(tf.Variable(value), "v")
    path = tf.train.Checkpoint(kept=tracker).write(
      self.create_tempdir().full_path + "/x"
    )
    picture = tf.contrib.checkpoint.dot_graph_from_checkpoint(path)
    for name in ("kept", "v", "v_1"):
      self.assertIn(f'[label="{name}"]', picture)


class ReplicatedTest(parameterized.TestCase):
  @parameterized.parameters(
    (["/cpu:0"], "INFO.*one device; the model is as it is"),
    (["/gpu:0"] * 3, r'WARN.*on 3 devices, .*ShardingConfig\("data:3"\)'),
  )
  def test_says_on_how_many_devices_it_is(self, devices, said):
    with self.assertLogs("tensorflow", "INFO") as logs:
      tf.contrib.estimator.replicate_model_fn(lambda: None, devices=devices)
    self.assertLen(logs.output, 1)
    self.assertRegex(logs.output[0], said)


class RefusedTest(parameterized.TestCase):
  @parameterized.parameters(
    ("eager.Network", "tf.keras.Model"),
    ("factorization.GMM", "sklearn.mixture.GaussianMixture"),
    ("learn.SVM", "tf.contrib.learn.LinearEstimator with binary_svm_head"),
    ("memory_stats.BytesLimit", "tf.config.experimental.get_memory_info"),
    ("quantize.create_training_graph", "tensorflow-model-optimization"),
    ("tensor_forest", "tensorflow-decision-forests"),
    ("tpu.keras_to_tpu_model", "tf.compat.v2.distribute.TPUStrategy"),
  )
  def test_names_what_to_use(self, path, replacement):
    with self.assertRaisesRegex(AttributeError, f"Use .*{replacement}"):
      found = contrib
      for name in path.split("."):
        found = getattr(found, name)


class LearnTest(absltest.TestCase):
  def test_arrays_are_a_data_set_to_who_listens_for_training(self):
    given = []
    estimator = tf.contrib.learn.Estimator(lambda features, labels: None)
    with estimators.intercepted_training(
      lambda estimator, input_fn: given.append(input_fn)
    ):
      estimator.fit(np.zeros([4, 3]), np.zeros([4]), batch_size=2, steps=1)
    with tf.Graph().as_default():
      features, labels = given[0]().element_spec
    self.assertEqual(features.shape.as_list(), [None, 3])
    self.assertEqual(labels.shape.as_list(), [None])

  def test_exports_of_old(self):
    estimator = tf.contrib.learn.Estimator(lambda features, labels: None)
    with self.assertRaisesRegex(
      NotImplementedError, "SessionBundle.*Use Estimator.export_savedmodel"
    ):
      estimator.export("x")

  def test_boston(self):
    with self.assertRaisesRegex(
      NotImplementedError, "scikit-learn 1.2. Use .*fetch_california_housing"
    ):
      tf.contrib.learn.datasets.load_boston()

  def test_experiment_without_a_model(self):
    with self.assertRaisesRegex(
      ValueError, "must implement tf.contrib.learn.Evaluable or be a"
    ):
      tf.contrib.learn.Experiment(3, None, None)

  def test_cluster_without_its_configuration(self):
    cluster = {"chief": ["a:1"], "worker": ["b:2"]}
    task = {"type": "worker", "index": 0}
    environment = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
    with mock.patch.dict(os.environ, environment):
      config = tf.compat.v1.estimator.RunConfig()
    estimator = tf.compat.v1.estimator.Estimator(
      lambda features: None, config=config
    )
    experiment = tf.contrib.learn.Experiment(estimator, None, None)
    with self.assertRaisesRegex(
      ValueError,
      "on a cluster needs a tf.contrib.learn.RunConfig; ",
    ):
      experiment.train()

  def test_vocabulary_is_saved(self):
    text = tf.contrib.learn.preprocessing
    words = text.VocabularyProcessor(3)
    words.fit(["a b", "b c"])
    path = self.create_tempfile().full_path
    words.save(path)
    again = text.VocabularyProcessor.restore(path)
    self.assertEqual(list(map(list, again.transform(["c d"]))), [[3, 0, 0]])


if __name__ == "__main__":
  absltest.main()
