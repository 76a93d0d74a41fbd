"""What a batch's inputs make together, and examples read: the whole batch's."""

import contextlib

import estimator_mp
from tests import tiers
from tests.estimator_mp import batch_models, programs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_WEIGHT = np.random.RandomState(5).rand(24, 1).astype(np.float32) + 0.5
_LENGTHS = np.random.RandomState(6).randint(1, 9, [24]).astype(np.int32)


def _logits(x):
  net = tf.tanh(tf.matmul(x, batch_models.weight("first", [10, 8])))
  return tf.matmul(net, batch_models.weight("last", [8, 1]))[:, 0]


def _losses(features, labels):
  logits = _logits(features["x"])
  return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)


def _of_inputs(change):
  """A model of inputs that a function changes."""

  def loss_of(features, labels):
    changed = {"x": change(features["x"])}
    return tf.reduce_mean(_losses(changed, labels))

  return loss_of


def _divided_by_size(features, labels):
  losses = _losses(features, labels)
  return tf.reduce_sum(losses / tf.cast(tf.size(losses), tf.float32))


def _times_one_by_size(features, labels):
  share = 1.0 / tf.cast(tf.shape(labels)[0], tf.float32)
  return tf.reduce_sum(_losses(features, labels) * share)


def _weights_that_add_up_to_one(features, labels):
  weights = features["weight"] / tf.reduce_sum(features["weight"])
  return tf.reduce_sum(_losses(features, labels) * weights)


def _weights_of_mean_one(features, labels):
  weights = features["weight"] / tf.reduce_mean(features["weight"])
  return tf.reduce_mean(_losses(features, labels) * weights)


def _share_of_a_class(features, labels):
  positive = tf.reduce_sum(labels)
  negative = tf.cast(tf.size(labels), tf.float32) - positive
  losses = tf.nn.weighted_cross_entropy_with_logits(
    labels, _logits(features["x"]), pos_weight=negative / positive
  )
  return tf.reduce_mean(losses)


def _histogram(features, labels):
  classes = tf.cast(labels, tf.int32)
  counts = tf.cast(tf.math.bincount(classes, minlength=2), tf.float32)
  weights = tf.gather(1.0 / (1.0 + counts), classes)
  return tf.reduce_mean(_losses(features, labels) * weights)


def _above_most(features, labels):
  is_large = features["weight"] >= 0.7 * tf.reduce_max(features["weight"])
  kept = tf.where(is_large, _losses(features, labels), tf.zeros_like(labels))
  return tf.reduce_mean(kept)


def _spread(features, labels):
  """Made as long as the batch first."""
  total = tf.fill([tf.size(labels)], tf.reduce_sum(features["weight"]))
  return tf.reduce_sum(_losses(features, labels) * features["weight"] / total)


def _longest(features, labels):
  lengths = tf.cast(features["lengths"], tf.float32)
  part = lengths / tf.reduce_max(lengths)
  return tf.reduce_mean(_losses(features, labels) * part)


def _longest_alone(features, labels):
  """Whole numbers that are compared."""
  longest = tf.equal(features["lengths"], tf.reduce_max(features["lengths"]))
  return tf.reduce_mean(
    _losses(features, labels) * tf.cast(longest, tf.float32)
  )


def _condition(features, labels):
  is_light = tf.reduce_mean(features["weight"]) < 0.99
  losses = tf.where(is_light, 2.0, 3.0) * _losses(features, labels)
  more = tf.cond(is_light, lambda: 4.0 * losses, lambda: losses - 1.0)
  return tf.reduce_mean(more)


@contextlib.contextmanager
def _control_flow_1():
  v1.disable_control_flow_v2()
  try:
    yield
  finally:
    v1.enable_control_flow_v2()


def _condition_1(features, labels):
  """Constants and variables go the same way as examples."""
  is_light = tf.reduce_mean(features["weight"]) < 0.99
  losses = _losses(features, labels)
  scale = batch_models.weight("scale", [])
  with _control_flow_1():
    more = tf.cond(
      is_light, lambda: 2.0 * losses, lambda: tf.ones([]) - scale * losses
    )
  return tf.reduce_mean(more)


def _between_zero_and_one(x):
  least, most = tf.reduce_min(x, 0), tf.reduce_max(x, 0)
  return (x - least) / (most - least)


def _normalised(x):
  mean, variance = tf.nn.moments(x, [0])
  return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)


def _scaled(x):
  """With variables in between: examples read no statistic itself."""
  scale = batch_models.weight("scale", [10])
  offset = batch_models.weight("offset", [10])
  mean, variance = tf.nn.moments(x, [0])
  return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)


_STATISTICS = {
  "divided_by_size": _divided_by_size,
  "times_one_by_size": _times_one_by_size,
  "weights_that_add_up_to_one": _weights_that_add_up_to_one,
  "weights_of_mean_one": _weights_of_mean_one,
  "share_of_a_class": _share_of_a_class,
  "histogram": _histogram,
  "above_most": _above_most,
  "spread": _spread,
  "longest": _longest,
  "longest_alone": _longest_alone,
  "centered": _of_inputs(lambda x: x - tf.reduce_mean(x, 0)),
  "between_zero_and_one": _of_inputs(_between_zero_and_one),
  "normalised": _of_inputs(_normalised),
  "scaled": _of_inputs(_scaled),
  "condition": _condition,
  "condition_1": _condition_1,
}
# With an input of known size they are made for that of a slice.
_NEED_AN_OPEN_SIZE = {
  "divided_by_size": r"truediv \(RealDiv\) divides examples by \S+, which is",
  "times_one_by_size": r"mul \(Mul\) divides examples by \S+, which is",
  "share_of_a_class": r"\(Mul\) reads \S+ for each example, which all examples",
}


def _positions(features, labels):
  """A slice's own: lengths that the padding has, and the longest example's."""
  longest = tf.reduce_max(features["lengths"])
  mask = tf.sequence_mask(features["lengths"], longest, tf.float32)
  places = tf.cast(tf.range(longest), tf.float32)
  hidden = features["x"][:, :1] * tf.sin(places) * mask
  return tf.reduce_mean(_losses(features, labels) * tf.reduce_sum(hidden, 1))


def _examples_by_their_numbers(features, labels):
  size = tf.shape(labels)[0]
  numbers = tf.stack([tf.range(size), features["lengths"]], 1)
  chosen = tf.gather_nd(features["x"], numbers)
  ones = tf.fill([size], 1.0) + tf.zeros_like(chosen)
  return tf.reduce_mean(_losses(features, labels) * chosen * ones)


def _model(loss_of):
  def model_fn(features, labels, mode):
    flat = {"weight": features["weight"][:, 0]}
    return batch_models.spec(mode, loss_of(features | flat, labels[:, 0]))

  return model_fn


_MESHES = {
  "micro_batches": ("stage:1", 4),
  "stages": ("stage:2", 4),
  "replicas": ("data:2", 1),
  "hybrid": ("data:2,stage:2", 2),
}


_CONFIG = estimator_mp.ShardingConfig("stage:2", num_micro_batches=4)


class StatisticsTest(parameterized.TestCase):
  def setUp(self):
    super().setUp()
    features, labels = programs.examples(batch_models.BATCH, 0, 24)
    more = {"weight": _WEIGHT, "lengths": _LENGTHS}
    self._batch = (features | more, np.round(labels))

  def _assert_equal(self, model_fn, config, is_static=False):
    plain = programs.Program(model_fn, None, self._batch)
    program = programs.Program(model_fn, config, self._batch, None, is_static)
    program.load(plain.variables())
    found, expected = program.step(self._batch), plain.step(self._batch)
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-5)
    programs.assert_same_gradients(
      self, found.gradients, expected.gradients, [expected.gradients], 1e-5
    )
    programs.assert_same_variables(
      self, program.variables(), plain.variables(), 1e-5
    )

  @parameterized.named_parameters(
    tiers.thin([(name, loss_of) for name, loss_of in _STATISTICS.items()])
  )
  def test_open_size(self, loss_of):
    self._assert_equal(_model(loss_of), _CONFIG)

  @parameterized.named_parameters(tiers.sample([(x, x) for x in _STATISTICS]))
  def test_known_size(self, name):
    model_fn = _model(_STATISTICS[name])
    if name not in _NEED_AN_OPEN_SIZE:
      self._assert_equal(model_fn, _CONFIG, is_static=True)
      return
    with self.assertRaisesRegex(
      ValueError, _NEED_AN_OPEN_SIZE[name] + r".* let input_fn leave the size"
    ):
      programs.Program(model_fn, _CONFIG, self._batch, None, True)

  @parameterized.named_parameters(
    tiers.sample((name, *case) for name, case in _MESHES.items())
  )
  def test_meshes(self, mesh, num_micro_batches):
    """Some of them together, in one model."""

    def loss_of(features, labels):
      changed = features | {"x": _normalised(features["x"])}
      return _weights_that_add_up_to_one(changed, labels)

    config = estimator_mp.ShardingConfig(
      mesh, num_micro_batches=num_micro_batches
    )
    self._assert_equal(_model(loss_of), config)

  def test_what_stays_a_slices_own(self):
    for loss_of in (_positions, _examples_by_their_numbers):
      with self.subTest(loss_of.__name__):
        self._assert_equal(_model(loss_of), _CONFIG)

  def test_length_that_is_not_known(self):
    """What is as long as the slice's longest example is not the batch's."""

    def loss_of(features, labels):
      longest = tf.reduce_max(features["lengths"])
      net = tf.tanh(features["x"] @ batch_models.weight("before", [10, 10]))[
        :, :longest
      ]
      mean = tf.reduce_sum(net, 1) / tf.cast(tf.shape(net)[1], tf.float32)
      return tf.reduce_mean(_losses(features, labels) * mean)

    with self.assertRaisesRegex(
      ValueError, r"\(RealDiv\) reads Cast\S*:0 .* has no shape that the graph"
    ):
      programs.Program(_model(loss_of), _CONFIG, self._batch)

  def test_counts_of_ids(self):
    def loss_of(features, labels):
      _, places, counts = tf.unique_with_counts(features["lengths"])
      weights = 1.0 / tf.cast(tf.gather(counts, places), tf.float32)
      return tf.reduce_mean(_losses(features, labels) * weights)

    with self.assertRaisesRegex(
      ValueError, r"\(GatherV2\) reads UniqueWithCounts:2, which .*bincount"
    ):
      programs.Program(_model(loss_of), _CONFIG, self._batch)

  def test_layer_of_inputs(self):
    """Its moving averages are the plain model's, too."""

    def model_fn(features, labels, mode):
      normalised = v1.layers.batch_normalization(
        features["x"], training=True, momentum=0.5
      )
      loss = tf.reduce_mean(_losses({"x": normalised}, labels[:, 0]))
      updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
      return batch_models.spec(mode, loss, updates)

    self._assert_equal(model_fn, _CONFIG)

  @tiers.slow
  def test_warning_of_what_activations_make(self):
    def loss_of(features, labels):
      net = _normalised(tf.tanh(features["x"]))
      hidden = tf.tanh(net @ batch_models.weight("before", [10, 10]))
      return tf.reduce_mean(_losses({"x": _normalised(hidden)}, labels))

    with self.assertLogs("tensorflow", "WARNING") as logs:
      programs.Program(_model(loss_of), _CONFIG, self._batch)
    (warning,) = [x for x in logs.output if "activations" in x]
    self.assertRegex(
      warning, r":moments_1/mean \(Mean\), moments_1/variance \(Mean\): what is"
    )
    with self.assertLogs("tensorflow", "INFO") as logs:
      programs.Program(_model(_divided_by_size), _CONFIG, self._batch)
    self.assertNotIn("activations", "".join(logs.output))

  def test_sum_of_shares(self):
    """Of a slice they would be a fraction of what goes back into examples."""

    def loss_of(features, labels):
      weights = features["weight"] / tf.reduce_sum(features["weight"])
      net = tf.tanh(features["x"] @ batch_models.weight("before", [10, 10]))
      mean = tf.reduce_sum(net * weights[:, None], 0)
      return tf.reduce_mean(_losses({"x": net - mean}, labels))

    with self.assertRaisesRegex(
      ValueError, r"Sum_1 \(Sum\) makes of the examples of a slice .*truediv"
    ):
      programs.Program(_model(loss_of), _CONFIG, self._batch)

  def test_number_of_control_flow_1(self):
    def loss_of(features, labels):
      is_light = tf.reduce_mean(features["weight"]) < 0.99
      with _control_flow_1():
        factor = tf.cond(is_light, lambda: 2.0, lambda: 3.0)
      return tf.reduce_mean(_losses(features, labels) * factor)

    with self.assertRaisesRegex(
      ValueError, "cond/Merge:0 is of control flow of TensorFlow 1"
    ):
      programs.Program(_model(loss_of), _CONFIG, self._batch)

  def test_losses_one_after_another(self):
    """Gradients of gradients' norm begin with what is right for them."""

    def model_fn(features, labels, mode):
      x, y = features["x"], labels[:, 0]
      weights = features["weight"] / tf.reduce_sum(features["weight"])
      losses = _losses({"x": x - tf.reduce_mean(x, 0)}, y) * weights[:, 0]
      first = tf.reduce_sum(losses)
      variables = v1.trainable_variables()
      steps = [
        v1.train.GradientDescentOptimizer(0.1).minimize(
          loss, var_list=variables[part:][:1]
        )
        for part, loss in ((0, first), (1, first + tf.reduce_mean(losses)))
      ]
      counted = v1.assign_add(v1.train.get_global_step(), 1)
      return tf.estimator.EstimatorSpec(
        mode, loss=first, train_op=tf.group(counted, *steps)
      )

    self._assert_equal(model_fn, _CONFIG)


if __name__ == "__main__":
  absltest.main()
