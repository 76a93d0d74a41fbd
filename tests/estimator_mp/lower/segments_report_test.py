"""Segments of whole programs: what plans say of them, and what is refused."""

import estimator_mp
from estimator_mp.planning import sharding_plan
from estimator_mp.planning.batch_report import ExecutedOnce, Moved, Where, Why
from tests.estimator_mp import parts

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1

TRAIN = tf.estimator.ModeKeys.TRAIN
_BATCH, _WIDTH = 8, 6


def _dense(net, units, name):
  kernel = v1.get_variable(name, [net.shape[-1], units])
  return tf.matmul(net, kernel)


def _plain(net):
  return net


def _python(net):
  made = tf.numpy_function(lambda x: x * 2, [net], tf.float32, name="python")
  made.set_shape([None, _WIDTH])
  return made


def _tops(net):
  """Keeps the entries that are among the two largest of their column."""
  least = tf.math.top_k(tf.transpose(net), 2, name="top").values[:, 1]
  return net * tf.cast(net >= least, tf.float32)


def _centered(net):
  return net - tf.reduce_mean(net, 0, name="center")


def _normalized(net):
  images = net[:, tf.newaxis, tf.newaxis, :]
  scale = v1.get_variable("scale", [_WIDTH], initializer=tf.ones_initializer())
  offset = v1.get_variable("offset", [_WIDTH])
  made, _, _ = v1.nn.fused_batch_norm(images, scale, offset, name="norm")
  return made[:, 0, 0, :]


def _mean(losses):
  return tf.reduce_mean(losses)


def _root(losses):
  return tf.sqrt(tf.reduce_mean(losses), name="root")


def _weighted(losses):
  """Divides by a number that follows from the shape of the losses."""
  return v1.losses.compute_weighted_loss(losses)


def _square(losses):
  return tf.square(tf.reduce_mean(losses), name="squared")


def _model_fn(layer=_plain, reduce=_mean):
  def model_fn(features, labels, mode):
    net = layer(tf.nn.relu(_dense(features, _WIDTH, "first")))
    net = _dense(net, 1, "second")
    if mode == tf.estimator.ModeKeys.PREDICT:
      return tf.estimator.EstimatorSpec(mode, predictions=net)
    loss = reduce(tf.square(net - labels))
    if mode == tf.estimator.ModeKeys.EVAL:
      return tf.estimator.EstimatorSpec(mode, loss=loss)
    step = v1.train.get_or_create_global_step()
    update = v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
    return parts.spec(mode, loss, update)

  return model_fn


def _built(model_fn, mode=TRAIN, size=None, **fields):
  """Builds a graph; returns its spec and what its plan says."""
  config = estimator_mp.ShardingConfig(
    "stage:2", **{"num_micro_batches": 4, **fields}
  )
  sharded = estimator_mp.shard_model_fn(model_fn, config)
  run_config = estimator_mp.run_config(config)
  features = v1.placeholder(tf.float32, [size, 4], "x")
  labels = v1.placeholder(tf.float32, [size, 1], "y")
  v1.train.get_or_create_global_step()
  spec = sharded(features, labels, mode=mode, config=run_config)
  plan = sharding_plan.get_plan(v1.get_default_graph())
  return spec, plan.segments


class _Case(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    self.enter_context(tf.Graph().as_default())


class ReportTest(_Case):
  @parameterized.named_parameters(
    ("plain", _plain, _mean, 1, ()),
    ("weighted", _plain, _weighted, 1, ()),
    (
      "python",
      _python,
      _mean,
      2,
      [ExecutedOnce("python", "PyFunc", Why.PYTHON)],
    ),
    ("across", _tops, _mean, 2, [ExecutedOnce("top", "TopKV2", Why.ACROSS)]),
    (
      "statistic",
      _centered,
      _mean,
      3,
      [ExecutedOnce("center", "Mean", Why.SUM)],
    ),
    (
      "moments",
      _normalized,
      _mean,
      3,
      [ExecutedOnce("norm", "FusedBatchNormV3", Why.MOMENTS)],
    ),
    ("root", _plain, _root, 2, [ExecutedOnce("root", "Sqrt", Why.SUM)]),
    # Of which only the gradient is between segments.
    (
      "square",
      _plain,
      _square,
      2,
      [ExecutedOnce("squared", "Square", Why.SUM)],
    ),
    (
      "two",
      _tops,
      _root,
      3,
      [
        ExecutedOnce("top", "TopKV2", Why.ACROSS),
        ExecutedOnce("root", "Sqrt", Why.SUM),
      ],
    ),
  )
  def test_what_ends_segments(self, layer, reduce, count, once):
    falls_back = any(x.why in (Why.PYTHON, Why.ACROSS) for x in once)
    fallback = "allow" if falls_back else "error"
    _, found = _built(_model_fn(layer, reduce), fallback=fallback)
    self.assertEqual(found.count, count)
    self.assertEqual([*found.once], [*once])
    self.assertEqual((found.num_slices, found.num_examples), (4, None))

  def test_work(self):
    """What Python hides is executed once, and the layer behind it."""
    _, found = _built(_model_fn())
    of_example = 2 * 4 * _WIDTH + _WIDTH + 2 * _WIDTH  # Two products, a ReLU.
    self.assertBetween(found.flops, 32 * of_example, 32 * (of_example + 4))
    self.assertEqual(found.flops_in_parts, found.flops)
    with tf.Graph().as_default():
      _, other = _built(_model_fn(_python))
    self.assertEqual(
      other.flops - other.flops_in_parts,
      32 * (_WIDTH + 2 * _WIDTH),  # Python, and the product.
    )

  def test_a_statistic_is_exchanged_and_no_activation(self):
    _, found = _built(_model_fn(_centered))
    self.assertEqual(found.share_in_parts, 1.0)
    self.assertEqual(found.cut, Moved())
    # The loss, the mean and its gradient are sums.
    self.assertEqual(found.joined, Moved(0, 4 + 2 * 4 * _WIDTH))

  def test_loops_one_after_the_other(self):
    """Lists of a loop say no sizes, and the next loop asks for them."""

    def layer(net):
      for i in range(2):
        series = tf.reshape(net, [-1, 2, _WIDTH // 2])
        cell = v1.nn.rnn_cell.LSTMCell(_WIDTH // 2, name=f"cell_{i}")
        net, _ = v1.nn.dynamic_rnn(
          cell, series, dtype=tf.float32, scope=f"rnn_{i}"
        )
      return tf.reshape(net, [-1, _WIDTH])

    _, found = _built(_model_fn(layer))
    self.assertEqual((found.count, found.once), (1, ()))

  def test_losses_do_not_wait_for_updates(self):
    """The step does, even if the program says that the losses do."""

    def reduce(losses):
      seen = v1.get_variable("seen", [], trainable=False, use_resource=True)
      update = seen.assign(tf.reduce_mean(losses), name="update")
      with tf.control_dependencies([update]):
        return tf.reduce_mean(tf.identity(losses))

    _, found = _built(_model_fn(reduce=reduce))
    self.assertEqual((found.count, found.once), (1, ()))

  def test_gradients_do_not_wait_for_updates(self):
    """As those of moving averages; the step does."""

    def model_fn(features, labels, mode):
      net = _dense(tf.nn.relu(_dense(features, _WIDTH, "first")), 1, "second")
      seen = v1.get_variable("seen", [], trainable=False, use_resource=True)
      update = seen.assign_add(tf.reduce_mean(net))
      loss = v1.losses.mean_squared_error(labels, net)
      step = v1.train.get_or_create_global_step()
      with tf.control_dependencies([update]):
        train_op = v1.train.AdamOptimizer().minimize(loss, step)
      return parts.spec(mode, loss, train_op)

    _, found = _built(model_fn)
    self.assertEqual((found.count, found.once), (1, ()))

  def test_work_before_slices_is_no_fallback(self):
    """Rows of distinct ids are looked up once, and each slice reads its own."""

    def model_fn(features, labels, mode):
      ids, place = tf.unique(tf.cast(features[:, 0], tf.int64))
      table = v1.get_variable("table", [9, 4], use_resource=True)
      rows = tf.nn.embedding_lookup(table, ids, name="lookup")
      rows = tf.stop_gradient(tf.cumsum(rows, name="running"))
      return _model_fn()(features + tf.gather(rows, place), labels, mode)

    _, found = _built(model_fn, fallback="error")
    self.assertEqual(found.count, 1)
    self.assertEqual([x.where for x in found.once], [Where.BEFORE])
    self.assertStartsWith(found.once[0].name, "lookup")

  @parameterized.parameters(None, _BATCH)
  def test_what_sparse_features_look_up_is_cut(self, size):
    """Only the session says how many they are, but not how many examples."""

    def model_fn(features, labels, mode):
      x = tf.cast(features > 0.0, tf.int64)
      shape = tf.cast(tf.stack([tf.shape(x)[0], -1]), tf.int64)
      ids = tf.sparse.reshape(tf.sparse.from_dense(x), shape)
      table = v1.get_variable("table", [9, 4], use_resource=True)
      found = v1.nn.safe_embedding_lookup_sparse(table, ids, combiner="sum")
      net = _dense(tf.nn.relu(_dense(found, 64, "wide")), 4, "narrow")
      return _model_fn()(features + net, labels, mode)

    _, found = _built(model_fn, size=size, fallback="error")
    self.assertEqual(found.count, 1)
    self.assertGreater(found.share_in_parts, 0.8)

  @parameterized.parameters(None, _BATCH)
  def test_bytes(self, size):
    _, found = _built(_model_fn(_tops), size=size)
    self.assertEqual(found.num_examples, size)
    self.assertEqual(found.inputs, Moved(4 * (4 + 1)))
    self.assertEqual(found.joined.per_example, 4 * _WIDTH)
    self.assertEqual(found.joined.num_unknown, 0)

  def test_evaluation_and_prediction(self):
    for mode in (tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT):
      with tf.Graph().as_default():
        _, found = _built(_model_fn(_tops), mode)
      self.assertEqual(found.count, 2)
      self.assertEqual(
        [*found.once], [ExecutedOnce("top", "TopKV2", Why.ACROSS)]
      )

  def test_the_log(self):
    with self.assertLogs("tensorflow", "INFO") as logs:
      _, found = _built(_model_fn(_tops))
    self.assertIn(
      f"INFO:tensorflow:Slices of the batch: {found}", "\n".join(logs.output)
    )


class FallbackTest(_Case):
  @parameterized.named_parameters(
    ("train", TRAIN),
    ("evaluate", tf.estimator.ModeKeys.EVAL),
    ("predict", tf.estimator.ModeKeys.PREDICT),
  )
  def test_an_op_between_segments(self, mode):
    with self.assertRaisesRegex(
      ValueError, r"but 'top' \(TopKV2\) is executed once.*'\^top\$'.*allow"
    ):
      _built(_model_fn(_tops), mode, fallback="error")

  def test_an_op_of_the_loss(self):
    """No slice waits for it, as it has no gradient."""

    def reduce(losses):
      hardest = tf.math.top_k(tf.stop_gradient(losses[:, 0]), 2, name="top")
      return tf.reduce_mean(losses) + tf.reduce_sum(hardest.values)

    _, found = _built(_model_fn(reduce=reduce))
    self.assertEqual(found.count, 1)
    self.assertEqual(
      [*found.once], [ExecutedOnce("top", "TopKV2", Why.ACROSS, Where.AFTER)]
    )
    with (
      tf.Graph().as_default(),
      self.assertRaisesRegex(
        ValueError,
        r"'top' \(TopKV2\) is executed once, on joined tensors; use ",
      ),
    ):
      _built(_model_fn(reduce=reduce), fallback="error")

  def test_a_word_that_is_no_choice(self):
    with self.assertRaisesRegex(ValueError, "fallback='none'.*allow.*error"):
      estimator_mp.ShardingConfig("stage:2", fallback="none")


class PerExampleTest(_Case):
  def _train(self, per_example):
    """Trains; returns the sizes that Python sees, losses and the plan."""
    seen = []

    def layer(net):
      def python(x):
        seen.append(len(x))
        return x * 2

      made = tf.numpy_function(python, [net], tf.float32, name="python")
      made.set_shape([None, _WIDTH])
      # Its gradient; that of numpy_function is none.
      return net + tf.stop_gradient(made - net)

    spec, found = _built(_model_fn(layer), per_example=per_example)
    random = np.random.RandomState(1)
    feed = {
      "x:0": random.randn(_BATCH, 4).astype(np.float32),
      "y:0": random.randn(_BATCH, 1).astype(np.float32),
    }
    devices = v1.ConfigProto(device_count={"CPU": 2})
    losses = []
    with v1.Session(config=devices) as session:
      session.run(v1.global_variables_initializer())
      for variable in v1.trainable_variables():
        variable.load(random.randn(*variable.shape), session)
      for _ in range(3):
        seen.clear()
        losses.append(session.run([spec.loss, spec.train_op], feed)[0])
    return sorted(seen), losses, found

  def test_training_runs_it_in_parts(self):
    seen, losses, found = self._train(())
    self.assertEqual(seen, [_BATCH])
    self.assertEqual(found.count, 2)  # Before it, and after it.
    with tf.Graph().as_default():
      seen, in_parts, found = self._train(["^python$"])
    self.assertEqual(seen, [_BATCH // 4] * 4)
    self.assertEqual((found.count, found.once), (1, ()))
    self.assertEqual(found.share_in_parts, 1.0)
    np.testing.assert_allclose(in_parts, losses, rtol=1e-5)
    self.assertLess(losses[-1], losses[0])

  def test_it_is_what_the_error_asks_for(self):
    with self.assertRaisesRegex(ValueError, r"use per_example=\['\^python\$'"):
      _built(_model_fn(_python), fallback="error")
    with tf.Graph().as_default():
      said = {"per_example": ["^python$"], "fallback": "error"}
      _, found = _built(_model_fn(_python), **said)
    self.assertEqual(found.count, 1)


if __name__ == "__main__":
  absltest.main()
