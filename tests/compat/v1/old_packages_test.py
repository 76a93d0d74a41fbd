"""What packages of TensorFlow 1's time rely on, one thing a test."""

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_probability as tfp  # noqa: E402
from absl.testing import absltest, parameterized  # noqa: E402
from tensorflow.contrib.tensorboard.plugins import projector  # noqa: E402
from tensorflow.contrib.tpu.python.ops import tpu_ops  # noqa: E402
from tensorflow.contrib.tpu.python.tpu import tpu_function  # noqa: E402
from tensorflow.python.training import training_util  # noqa: E402
from tensorflow.python.training.tracking import (  # noqa: E402
  graph_view,
  tracking,
  util,
)
from tensorflow.python.util.tf_export import estimator_export  # noqa: E402


class ShapesTest(absltest.TestCase):
  def test_size_is_a_float(self):
    """OpenNMT-tf 1.25 halves the units of a cell by `/`."""
    self.assertEqual(tf.TensorShape([None, 8 / 2]).as_list(), [None, 4])
    with tf.Graph().as_default():
      cell = tf.nn.rnn_cell.LSTMCell(8 / 2)
      self.assertEqual(cell.zero_state(3, tf.float32).c.shape, [3, 4])

  def test_size_with_a_fraction(self):
    with self.assertRaises(TypeError):
      tf.TensorShape([2.5])


class SeedsTest(parameterized.TestCase):
  """What 1.15.5 gives with `RunConfig(tf_random_seed=42)` alone.

  There the 30th op of a graph has the seed 29.
  """

  @parameterized.named_parameters(
    ("none", None, False), ("its_own_of_1_15", 29, True)
  )
  def test_initial_values(self, seed, are_equal):
    def model_fn(features, labels, mode):
      del labels
      initializer = tf.glorot_uniform_initializer(seed=seed)
      weights = tf.get_variable("weights", [3, 4], initializer=initializer)
      loss = tf.reduce_sum(tf.matmul(features, weights))
      train_op = tf.train.GradientDescentOptimizer(0.0).minimize(
        loss, tf.train.get_global_step()
      )
      return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(
      model_fn,
      self.create_tempdir().full_path,
      tf.estimator.RunConfig(tf_random_seed=42),
    )
    estimator.train(lambda: tf.data.Dataset.from_tensors(tf.ones([2, 3])))
    found = estimator.get_variable_value("weights").ravel()[:3]
    of_1_15 = [0.8196295499801636, -0.8449864387512207, -0.28231292963027954]
    self.assertEqual(np.allclose(found, of_1_15, rtol=1e-6), are_equal)


class ResolverTest(parameterized.TestCase):
  """Programs ask for the TPU "" when they are told to use none."""

  @parameterized.parameters(
    (tf.distribute.cluster_resolver,), (tf.contrib.cluster_resolver,)
  )
  def test_no_tpu(self, resolvers):
    for tpu in ("", "local"):
      resolver = resolvers.TPUClusterResolver(tpu, zone=None, project=None)
      self.assertIsNone(resolver.cluster_spec())
      self.assertEqual((resolver.task_type, resolver.task_id), ("worker", 0))
      self.assertEqual(resolver.environment, "google")
      self.assertEqual(resolver.master(), tpu)
      self.assertEqual(resolver.get_master(), tpu)

  def test_address(self):
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
      "grpc://a:8470"
    )
    self.assertEqual(resolver.master(), "grpc://a:8470")
    self.assertEqual(resolver.cluster_spec().as_dict(), {"worker": ["a:8470"]})
    self.assertEqual(resolver.environment, "")

  def test_neither(self):
    with self.assertRaisesRegex(ValueError, "provide a TPU Name"):
      tf.distribute.cluster_resolver.TPUClusterResolver()

  def test_main_with_use_tpu_false(self):
    """The lines of BERT's run_classifier.py that make the Estimator."""
    config = tf.contrib.tpu.RunConfig(
      cluster=tf.contrib.cluster_resolver.TPUClusterResolver(tpu=""),
      master=None,
      model_dir=self.create_tempdir().full_path,
      tpu_config=tf.contrib.tpu.TPUConfig(iterations_per_loop=2),
    )
    self.assertEqual(config.master, "")
    self.assertIsNone(config.cluster_spec)

    def model_fn(features, labels, mode, params):
      del labels
      self.assertEqual(params["batch_size"], 4)
      weight = tf.get_variable("weight", [])
      loss = weight * tf.reduce_mean(features)
      train_op = tf.train.GradientDescentOptimizer(1.0).minimize(
        loss, tf.train.get_global_step()
      )
      return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.contrib.tpu.TPUEstimator(
      model_fn, config=config, use_tpu=False, train_batch_size=4
    )
    estimator.train(
      lambda params: tf.data.Dataset.from_tensors(tf.ones([4])).repeat(2)
    )
    self.assertEqual(estimator.get_variable_value("global_step"), 2)


class FrameworksTest(absltest.TestCase):
  """What AdaNet 0.9 and EasyRec import when TensorFlow is 1.15."""

  def test_tracking(self):
    self.assertIsInstance(tracking.AutoTrackable(), graph_view.base.Trackable)
    root = tracking.AutoTrackable()
    view = graph_view.ObjectGraphView(root)
    self.assertNotEmpty(view.frozen_saveable_objects())
    self.assertTrue(issubclass(tracking.AutoTrackable, util.base.Trackable))

  def test_steps_of_candidates(self):
    """AdaNet's candidates count their own steps, canned ones among them."""
    plain = training_util.get_global_step
    shown = tf.train.get_global_step

    def model_fn(features, labels, mode):
      step = tf.get_variable("step", [], tf.int64, tf.zeros_initializer())
      training_util.get_global_step = lambda: step
      try:
        spec = tf.contrib.estimator.regression_head().create_estimator_spec(
          features,
          mode,
          tf.layers.dense(features["x"], 1),
          labels,
          tf.train.GradientDescentOptimizer(0.1),
        )
      finally:
        training_util.get_global_step = shown
      count = tf.assign_add(tf.train.get_global_step(), 10)
      return spec._replace(train_op=tf.group(spec.train_op, count))

    self.addCleanup(setattr, training_util, "get_global_step", plain)
    estimator = tf.estimator.Estimator(
      model_fn, self.create_tempdir().full_path
    )
    example = {"x": np.ones([2, 1], np.float32)}, [[1.0], [2.0]]
    estimator.train(
      lambda: tf.data.Dataset.from_tensors(example).repeat(), steps=20
    )
    step = estimator.get_variable_value("step")
    self.assertGreater(step, 0)
    self.assertEqual(estimator.get_variable_value("global_step"), 10 * step)

  def test_estimator_export(self):
    @estimator_export("estimator.experimental.make_our_hook")
    def make_our_hook():
      return 3

    self.assertEqual(make_our_hook(), 3)


class ProbabilityTest(absltest.TestCase):
  def test_parameter_that_was_not_given(self):
    """K-FAC 0.1.5 reads `probs` of what it gave `logits`."""
    for kind in (tfp.distributions.Categorical, tfp.distributions.Bernoulli):
      with tf.Graph().as_default(), tf.Session() as session:
        probs = np.array([0.25, 0.75], np.float32)
        by_logits = kind(logits=kind(probs=probs).logits)
        np.testing.assert_allclose(
          session.run(by_logits.probs), probs, rtol=1e-5
        )

  def test_others_read_what_was_given(self):
    with tf.Graph().as_default():
      given = tfp.distributions.Bernoulli(probs=[0.5])
      other = {"__name__": "other", "__file__": "env/site-packages/other.py"}
      read = eval("lambda: given.logits", {"given": given, **other})
      self.assertIsNone(read())


class ContribTest(absltest.TestCase):
  def test_embeddings_are_shown(self):
    config = projector.ProjectorConfig()
    config.embeddings.add().tensor_name = "words"
    directory = self.create_tempdir().full_path
    with tf.Graph().as_default():
      projector.visualize_embeddings(tf.summary.FileWriter(directory), config)
    with tf.gfile.GFile(f"{directory}/projector_config.pbtxt") as file:
      self.assertIn('tensor_name: "words"', file.read())

  def test_no_such_name(self):
    with self.assertRaisesRegex(AttributeError, "tensorboard"):
      projector.no_such_name  # noqa: B018

  def test_files_of_tpu(self):
    """K-FAC asks how many TPUs there are, of a file of tf.contrib.tpu."""
    self.assertIsNone(tpu_function.get_tpu_context().number_of_shards)
    self.assertTrue(callable(tpu_ops.tpu_replicated_input))


if __name__ == "__main__":
  absltest.main()
