"""What packages of TensorFlow 1's time rely on, one thing a test."""

import compat

compat.install(v1=True, v1_packages=["tests.compat.v1"])

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_probability as tfp  # noqa: E402
from absl.testing import absltest  # noqa: E402
from tensorflow.contrib.tensorboard.plugins import projector  # noqa: E402
from tensorflow.contrib.tpu.python.ops import tpu_ops  # noqa: E402
from tensorflow.contrib.tpu.python.tpu import tpu_function  # noqa: E402


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
      read = eval("lambda: given.logits", {"given": given, "__name__": "other"})
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
