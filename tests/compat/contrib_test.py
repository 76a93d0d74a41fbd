"""compat.install(contrib=True): names of tf.contrib, and what the rest says.

tests/compat/v1 compares what its functions give with what 1.15 gave.
"""

import compat

from absl.testing import absltest, parameterized

compat.install(contrib=True)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow.compat.v1 as tf1  # noqa: E402
import tensorflow.contrib as contrib  # noqa: E402
from tensorflow.contrib import layers, lookup, rnn  # noqa: E402
from tensorflow.contrib.training import HParams  # noqa: E402


def _hard():
  return tf1.ConfigProto(allow_soft_placement=False)


def _inputs(*shape):
  return np.random.RandomState(0).normal(size=shape).astype(np.float32)


class ImportTest(parameterized.TestCase):
  def test_all_ways_lead_to_one_module(self):
    import tensorflow.compat.v1.contrib.layers as by_v1
    import tensorflow.contrib.layers as imported

    self.assertIs(imported, layers)
    self.assertIs(by_v1, layers)
    self.assertIs(tf.contrib.layers, layers)
    self.assertIs(tf1.contrib.layers, layers)
    self.assertIs(contrib.training.HParams, HParams)
    self.assertIs(contrib.tpu.TPUEstimator, tf1.estimator.tpu.TPUEstimator)
    self.assertIs(contrib.summary.summary, contrib.summary)
    for name in dir(contrib):
      self.assertEqual(
        getattr(contrib, name).__name__, f"compat.contrib.{name}"
      )
    self.assertIs(
      contrib.distribute.OneDeviceStrategy, tf1.distribute.OneDeviceStrategy
    )
    self.assertTrue(
      issubclass(
        contrib.cluster_resolver.TPUClusterResolver,
        tf1.distribute.cluster_resolver.TPUClusterResolver,
      )
    )

  @parameterized.named_parameters(
    (
      "function",
      lambda: tf.contrib.summary.create_db_writer,
      "tf.contrib.summary.create_db_writer is not among the names that compat "
      "brings back. Use tf.contrib.summary.create_file_writer instead.",
    ),
    (
      "module",
      lambda: tf.contrib.quantize,
      "tf.contrib.quantize is not among the names that compat brings back. Use "
      "the package tensorflow-model-optimization instead.",
    ),
    (
      "no_replacement",
      lambda: tf.contrib.rate,
      "tf.contrib.rate is not among the names that compat brings back. "
      "There is no replacement for it in TensorFlow 2.",
    ),
  )
  def test_absent_attribute(self, use, message):
    with self.assertRaisesWithLiteralMatch(AttributeError, message):
      use()

  @parameterized.named_parameters(
    (
      "function",
      "from tensorflow.contrib.summary import create_db_writer",
      "summary.create_db_writer",
    ),
    ("module", "from tensorflow.contrib import quantize", "quantize"),
    ("below", "import tensorflow.contrib.quantize.python", "quantize"),
  )
  def test_absent_import(self, statement, name):
    with self.assertRaisesRegex(
      ImportError,
      rf"^tf\.contrib\.{name} is not among the names that compat brings back\. "
      r"Use .* instead\.$",
    ):
      exec(statement)

  def test_asking_is_no_error(self):
    self.assertFalse(hasattr(tf.contrib, "quantize"))
    self.assertFalse(hasattr(layers, "conv4d"))
    self.assertIn("layers", dir(tf.contrib))


class RnnTest(absltest.TestCase):
  def test_phased_lstm_of_resource_variables(self):
    """The first phase depends on the initialized_value of the period."""
    times = np.tile(np.arange(5, dtype=np.float32)[:, np.newaxis], (3, 1, 1))
    with tf.Graph().as_default(), tf1.Session(config=_hard()) as session:
      fed = tuple(map(tf.constant, (times, _inputs(3, 5, 2))))
      cell = rnn.PhasedLSTMCell(4)
      outputs, _ = tf1.nn.dynamic_rnn(cell, fed, dtype=tf.float32)
      variables = {v.op.name.split("/")[-1]: v for v in tf1.global_variables()}
      session.run(tf1.global_variables_initializer())
      outputs, period, phase = session.run(
        [outputs, variables["period"], variables["phase"]]
      )
    self.assertEqual(outputs.shape, (3, 5, 4))
    self.assertTrue(np.all((phase >= 0) & (phase < period)))

  def test_fused_lstm_of_resource_variables_has_gradients(self):
    with tf.Graph().as_default(), tf1.Session(config=_hard()) as session:
      cell = rnn.LSTMBlockFusedCell(4, use_peephole=True)
      outputs, _ = cell(tf.constant(_inputs(3, 5, 2)), dtype=tf.float32)
      gradients = tf1.gradients(outputs, tf1.trainable_variables())
      session.run(tf1.global_variables_initializer())
      self.assertLen(gradients, 5)
      for gradient in session.run(gradients):
        self.assertGreater(np.abs(gradient).max(), 0)


class LookupTest(absltest.TestCase):
  def test_a_number_without_a_word(self):
    table = lookup.index_to_string_table_from_tensor(["red", "green"])
    found = table.lookup(tf.constant([1, 7], tf.int64))
    self.assertEqual(found.numpy().tolist(), [b"green", b"UNK"])


class HParamsTest(parameterized.TestCase):
  def make(self):
    return HParams(
      depth=3, rate=0.5, name="a", on=True, sizes=[1, 2], none=None
    )

  def test_parse_and_json(self):
    hparams = self.make()
    hparams.parse("depth=4,rate=1e-3, name=b c,on=false,sizes=[5,6,7]")
    expected = dict(
      depth=4, rate=1e-3, name="b c", on=False, sizes=[5, 6, 7], none=None
    )
    self.assertEqual(hparams.values(), expected)
    again = self.make().parse_json(hparams.to_json())
    self.assertEqual(again.values(), expected)
    self.assertIn("depth", again)
    self.assertEqual(again.get("absent", 6), 6)
    again.del_hparam("depth")
    self.assertNotIn("depth", again)
    again.override_from_dict({"rate": 2})
    self.assertIsInstance(again.rate, float)


class EstimatorTest(absltest.TestCase):
  def test_contrib_program_trains(self):
    """A model_fn of contrib layers, on contrib data, with contrib metrics."""
    x = _inputs(64, 2)
    labels = (x[:, :1] > 0).astype(np.int32)

    def input_fn():
      data = tf.data.Dataset.from_tensor_slices(({"x": x}, labels))
      data = data.apply(tf.contrib.data.shuffle_and_repeat(64, seed=1))
      return data.apply(tf.contrib.data.batch_and_drop_remainder(16))

    def model_fn(features, labels, mode, params):
      hidden = layers.fully_connected(
        features["x"], params.units, normalizer_fn=layers.layer_norm
      )
      trains = mode == tf.estimator.ModeKeys.TRAIN
      hidden = layers.batch_norm(hidden, decay=0.9, is_training=trains)
      logits = layers.linear(hidden, 1)
      head = tf.contrib.estimator.binary_classification_head()

      def train_op_fn(loss):
        step = tf.contrib.framework.get_or_create_global_step()
        return layers.optimize_loss(loss, step, 0.05, "Adam")

      return head.create_estimator_spec(
        features, mode, logits, labels, train_op_fn=train_op_fn
      )

    model = tf1.estimator.Estimator(
      model_fn,
      self.create_tempdir().full_path,
      tf.estimator.RunConfig(tf_random_seed=1, session_config=_hard()),
      HParams(units=8),
    )
    model = tf.contrib.estimator.add_metrics(
      model,
      lambda labels, predictions: {
        "hits": tf.contrib.metrics.streaming_accuracy(
          predictions["class_ids"], labels
        )
      },
    )
    model.train(input_fn, steps=100)
    metrics = model.evaluate(input_fn, steps=8)
    self.assertGreater(metrics["accuracy"], 0.95)
    self.assertAlmostEqual(metrics["hits"], metrics["accuracy"], places=6)


if __name__ == "__main__":
  absltest.main()
