"""compat.install(contrib=True): names of tf.contrib, and what the rest says."""

import compat

from absl.testing import absltest, parameterized

compat.install(contrib=True)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow.compat.v1 as tf1  # noqa: E402
import tensorflow.contrib as contrib  # noqa: E402
from tensorflow.contrib import layers, lookup, rnn  # noqa: E402
from tensorflow.contrib.training import HParams  # noqa: E402


def _run(build, *, train=0):
  """Builds a graph, initializes it, and returns what it gives.

  Args:
    build: returns (what to fetch, what to run first `train` times or None).
    train: how often.
  """
  with tf.Graph().as_default(), tf1.Session(config=_hard()) as session:
    tf1.set_random_seed(4)
    fetches, step = build()
    session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
    session.run(tf1.local_variables_initializer())
    for _ in range(train):
      session.run(step)
    return session.run(fetches)


def _hard():
  return tf1.ConfigProto(allow_soft_placement=False)


def _inputs(*shape, seed=0):
  return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


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


class LayersTest(parameterized.TestCase):
  """tf-slim's layers with TensorFlow 2's behaviour; v1/ has them with 1's."""

  def test_layer_norm(self):
    x = 3 + 2 * _inputs(4, 5, 6)

    def build():
      y = layers.layer_norm(
        tf.constant(x), begin_norm_axis=-1, scope="LayerNorm"
      )
      names = [variable.op.name for variable in tf1.trainable_variables()]
      self.assertEqual(names, ["LayerNorm/beta", "LayerNorm/gamma"])
      self.assertEqual(tf1.trainable_variables()[0].shape, [6])
      return y, None

    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    np.testing.assert_allclose(_run(build), expected, atol=1e-5)

  @parameterized.named_parameters(
    ("last", "NHWC", (16, 3, 5), (0, 1)), ("second", "NCHW", (16, 5, 3), (0, 2))
  )
  def test_batch_norm(self, data_format, shape, axes):
    """Trained on one batch, the averages come to that batch's moments."""
    x = 3 + 2 * _inputs(*shape)

    def build():
      fed = tf1.placeholder_with_default(x, shape)
      kwargs = dict(decay=0.5, data_format=data_format, scope="bn")
      trained = layers.batch_norm(fed, **kwargs)
      kept = layers.batch_norm(fed, is_training=False, reuse=True, **kwargs)
      names = {variable.op.name for variable in tf1.global_variables()}
      self.assertEqual(
        names, {"bn/beta", "bn/moving_mean", "bn/moving_variance"}
      )
      updates = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)
      self.assertLen(updates, 2)
      return (trained, kept), updates

    mean = x.mean(axes, keepdims=True)
    expected = (x - mean) / np.sqrt(x.var(axes, keepdims=True) + 0.001)
    trained, kept = _run(build, train=30)
    np.testing.assert_allclose(trained, expected, atol=1e-4)
    np.testing.assert_allclose(kept, expected, atol=1e-4)

  def test_fully_connected(self):
    x = _inputs(7, 2, 3)

    def build():
      y = layers.fully_connected(
        tf.constant(x),
        4,
        weights_regularizer=layers.l2_regularizer(0.5),
        biases_initializer=tf1.constant_initializer(0.25),
      )
      weights, biases = tf1.trainable_variables()
      self.assertEqual(weights.op.name, "fully_connected/weights")
      self.assertEqual(biases.op.name, "fully_connected/biases")
      return (y, weights, tf1.losses.get_regularization_loss()), None

    y, weights, penalty = _run(build)
    np.testing.assert_allclose(y, np.maximum(x @ weights + 0.25, 0), rtol=1e-5)
    self.assertAlmostEqual(penalty, 0.25 * np.sum(weights**2), places=5)
    self.assertLessEqual(np.abs(weights).max(), np.sqrt(6 / 7))

  def test_dropout(self):
    x = np.ones((100, 100), np.float32)

    def build():
      x_fed = tf1.placeholder_with_default(x, x.shape)
      off = layers.dropout(x_fed, is_training=tf.constant(False))
      return (layers.dropout(x_fed, 0.8, seed=1), off), None

    dropped, kept = _run(build)
    self.assertAlmostEqual((dropped == 0).mean(), 0.2, delta=0.02)
    self.assertAlmostEqual(dropped.max(), 1.25, places=6)
    np.testing.assert_array_equal(kept, x)

  def test_regularizers(self):
    w = _inputs(3, 4)
    penalties = [
      layers.l1_regularizer(0.1),
      layers.l2_regularizer(0.1),
      layers.l1_l2_regularizer(0.1, 0.0),
    ]
    got = _run(lambda: ([p(tf.constant(w)) for p in penalties], None))
    l1 = 0.1 * np.abs(w).sum()
    np.testing.assert_allclose(got, [l1, 0.05 * (w**2).sum(), l1], rtol=1e-5)
    self.assertIsNone(layers.l2_regularizer(0.0)(w))

  @parameterized.named_parameters(
    ("xavier", lambda: layers.xavier_initializer(seed=2), 2 / 500),
    ("he", lambda: layers.variance_scaling_initializer(seed=2), 2 / 300),
    (
      "out",
      lambda: layers.variance_scaling_initializer(
        1.0, "FAN_OUT", uniform=True, seed=2
      ),
      1 / 200,
    ),
  )
  def test_initializers(self, make, variance):
    values = _run(lambda: (make()([300, 200]), None))
    self.assertAlmostEqual(values.var() / variance, 1.0, delta=0.03)
    self.assertAlmostEqual(values.mean(), 0.0, delta=0.002)

  @parameterized.named_parameters(
    ("name", "SGD"),
    ("class", tf1.train.GradientDescentOptimizer),
    ("function", lambda learning_rate: tf1.train.AdamOptimizer(learning_rate)),
  )
  def test_optimize_loss(self, optimizer):
    def build():
      step = tf1.train.get_or_create_global_step()
      w = tf1.get_variable("w", [2], initializer=tf1.zeros_initializer())
      loss = tf.reduce_sum(tf.square(w - [0.3, -0.2]))
      train = layers.optimize_loss(
        loss,
        step,
        0.05,
        optimizer,
        clip_gradients=1.0,
        learning_rate_decay_fn=lambda rate, step: tf1.train.exponential_decay(
          rate, step, 100, 0.9
        ),
        gradient_multipliers={"w": 2.0},
        summaries=["loss", "gradients", "gradient_norm", "learning_rate"],
      )
      names = {variable.op.name for variable in tf1.global_variables()}
      self.assertIn("OptimizeLoss/learning_rate", names)
      return (w, step, loss), train

    w, step, loss = _run(build, train=150)
    np.testing.assert_allclose(w, [0.3, -0.2], atol=1e-2)
    self.assertEqual(step, 150)
    self.assertLess(loss, 1e-3)


class RnnTest(parameterized.TestCase):
  @parameterized.named_parameters(("plain", False), ("peephole", True))
  def test_fused_lstm_is_the_lstm_of_the_paper(self, peephole):
    time, batch, size, units = 5, 3, 4, 6
    x = _inputs(time, batch, size)
    lengths = np.array([5, 2, 0], np.int32)

    def build():
      cell = rnn.LSTMBlockFusedCell(units, use_peephole=peephole)
      fed = tf1.placeholder_with_default(x, x.shape)
      outputs, (c, h) = cell(fed, dtype=tf.float32, sequence_length=lengths)
      weights = tf1.trainable_variables()
      names = [variable.op.name for variable in weights]
      self.assertEqual(names[0], "lstm_fused_cell/kernel")
      gradients = tf1.gradients(tf.reduce_sum(outputs**2), weights)
      return (outputs, c, h, weights, gradients), None

    outputs, c, h, weights, gradients = _run(build)
    kernel, bias = weights[:2]
    w_i, w_f, w_o = weights[2:] if peephole else [np.zeros(units)] * 3
    sigmoid = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
    cell = np.zeros((batch, units))
    state = np.zeros((batch, units))
    for t in range(time):
      gates = np.concatenate([x[t], state], 1) @ kernel + bias
      i, j, f, o = np.split(gates, 4, 1)
      f, i = sigmoid(f + 1.0 + w_f * cell), sigmoid(i + w_i * cell)
      new_cell = f * cell + i * np.tanh(j)
      new_state = sigmoid(o + w_o * new_cell) * np.tanh(new_cell)
      running = (t < lengths)[:, np.newaxis]
      cell = np.where(running, new_cell, cell)
      state = np.where(running, new_state, state)
      np.testing.assert_allclose(
        outputs[t], np.where(running, new_state, 0), atol=1e-5
      )
    np.testing.assert_allclose(c, cell, atol=1e-5)
    np.testing.assert_allclose(h, state, atol=1e-5)
    for gradient in gradients:
      self.assertGreater(np.abs(gradient).max(), 0)

  def test_cells(self):
    x = _inputs(3, 5, 2)

    def build():
      cells = [rnn.BasicLSTMCell(4), rnn.GRUCell(3)]
      stack = rnn.MultiRNNCell(
        [rnn.DropoutWrapper(cell, output_keep_prob=1.0) for cell in cells]
      )
      fed = tf1.placeholder_with_default(x, x.shape)
      outputs, state = tf1.nn.dynamic_rnn(stack, fed, dtype=tf.float32)
      self.assertIsInstance(state[0], rnn.LSTMStateTuple)
      return outputs, None

    self.assertEqual(_run(build).shape, (3, 5, 3))

  def test_phased_lstm_of_resource_variables(self):
    """They have no initialized_value, on which the first phase depends."""
    x = _inputs(3, 5, 2)
    times = np.tile(np.arange(5, dtype=np.float32)[:, np.newaxis], (3, 1, 1))

    def build():
      fed = tuple(tf1.placeholder_with_default(y, y.shape) for y in (times, x))
      cell = rnn.PhasedLSTMCell(4)
      outputs, _ = tf1.nn.dynamic_rnn(cell, fed, dtype=tf.float32)
      period, phase = (
        one
        for name in ("period", "phase")
        for one in tf1.global_variables()
        if one.op.name.endswith(name)
      )
      return (outputs, period, phase), None

    outputs, period, phase = _run(build)
    self.assertEqual(outputs.shape, (3, 5, 4))
    self.assertTrue(np.all((phase >= 0) & (phase < period)))

  def test_fused_lstm_refuses_inputs_of_unknown_depth(self):
    with (
      tf.Graph().as_default(),
      self.assertRaisesWithLiteralMatch(
        ValueError,
        "the inputs have the shape (2, 3, None); a cell needs to know the last "
        "dimension. Set it, by tf.reshape or set_shape.",
      ),
    ):
      inputs = tf1.placeholder(tf.float32, [2, 3, None])
      rnn.LSTMBlockFusedCell(4)(inputs, dtype=tf.float32)


class LookupTest(absltest.TestCase):
  def test_indices_and_words(self):
    file = self.create_tempfile(content="red\ngreen\nblue\n").full_path
    words = ["red", "green", "blue"]

    def build():
      asked = tf.constant(["blue", "red", "mauve"])
      by_tensor = lookup.index_table_from_tensor(words, default_value=9)
      by_file = lookup.index_table_from_file(file, num_oov_buckets=2)
      back = lookup.index_to_string_table_from_tensor(words)
      back_file = lookup.index_to_string_table_from_file(file)
      numbers = tf.constant([2, 7], tf.int64)
      return (
        by_tensor.lookup(asked),
        by_file.lookup(asked),
        back.lookup(numbers),
        back_file.lookup(numbers),
      ), None

    tensor, buckets, back, back_file = _run(build)
    self.assertEqual(tensor.tolist(), [2, 0, 9])
    self.assertEqual(buckets.tolist()[:2], [2, 0])
    self.assertIn(buckets[2], [3, 4])
    self.assertEqual(back.tolist(), [b"blue", b"UNK"])
    self.assertEqual(back_file.tolist(), [b"blue", b"UNK"])

  def test_refuses_fewer_than_no_buckets(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError, "`num_oov_buckets` must be greater or equal than 0, got -1."
    ):
      lookup.index_table_from_tensor(["a"], num_oov_buckets=-1)


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

  @parameterized.named_parameters(
    (
      "unknown",
      "width=1",
      "there is no hyperparameter 'width'; there are ['depth', 'name', 'none', "
      "'on', 'rate', 'sizes'].",
    ),
    (
      "type",
      "depth=x",
      "the hyperparameter 'depth' is of type int; 'x' is not.",
    ),
    (
      "bool",
      "on=yes",
      "the hyperparameter 'on' is of type bool; 'yes' is not.",
    ),
    ("list", "sizes=3", "the hyperparameter 'sizes' is a list; 3 is not."),
    (
      "index",
      "sizes[0]=3",
      "the hyperparameter 'sizes' is a list; {0: 3} is not.",
    ),
    (
      "twice",
      "depth=3,depth=3",
      "'depth' is set more than once in 'depth=3,depth=3'.",
    ),
    (
      "text",
      "depth",
      "cannot read 'depth'; write name=value or name=[value,value], separated "
      "by commas.",
    ),
  )
  def test_parse_refuses(self, text, message):
    with self.assertRaisesWithLiteralMatch(ValueError, message):
      self.make().parse(text)

  def test_add_refuses_what_exists(self):
    with self.assertRaisesWithLiteralMatch(
      ValueError, "the hyperparameter 'depth' exists, or is reserved."
    ):
      self.make().add_hparam("depth", 5)


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

  def test_metrics(self):
    metrics = tf.contrib.metrics

    def build():
      predictions, labels = tf.constant([1, 1, 0, 1]), tf.constant([1, 0, 0, 1])
      values, updates = metrics.aggregate_metric_map(
        {
          "precision": metrics.streaming_precision(predictions, labels),
          "recall": metrics.streaming_recall(predictions, labels),
        }
      )
      weights = tf.constant([1.0, 0.0, 1.0, 0.0])
      now = metrics.accuracy(predictions, labels)
      weighted = metrics.accuracy(predictions, labels, weights)
      return (values, now, weighted), updates

    values, now, weighted = _run(build, train=1)
    self.assertAlmostEqual(values["precision"], 2 / 3, places=6)
    self.assertAlmostEqual(values["recall"], 1.0, places=6)
    self.assertAlmostEqual(now, 0.75)
    self.assertAlmostEqual(weighted, 1.0)


if __name__ == "__main__":
  absltest.main()
