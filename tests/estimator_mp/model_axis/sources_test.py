"""Tests of what parts make themselves, instead of getting slices of it."""

import re

from estimator_mp.model_axis import inference
from estimator_mp.model_axis.decisions import Shard
from estimator_mp.model_axis.rules.table import TABLE
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_rng = np.random.RandomState(7)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _table(*shape):
  size = int(np.prod(shape))
  return np.arange(size, dtype=np.float32).reshape(shape)


def _numbers(size):
  return tf.cast(tf.range(3, 3 + 2 * size, 2), tf.float32)


def _slices(found):
  """Returns the ops that slice a whole tensor for parts."""
  pattern = r"^estimator_mp/split/.*/split(_\d+)?$"
  return [name for name in found.devices if re.search(pattern, name)]


class SourcesTest(parameterized.TestCase):
  """What is added to, or multiplied with, a tensor of shape [4, 6]."""

  @parameterized.named_parameters(
    [
      ("fill", lambda x: tf.fill([4, 6], x[0, 0])),
      ("fill_as", lambda x: tf.fill(tf.stack([tf.shape(x)[0], 6]), 2.5)),
      ("zeros", lambda x: tf.zeros([6])),
      ("ones_like", lambda x: tf.ones_like(tf.zeros([4, 6]))),
      ("constant", lambda x: tf.constant(_table(4, 6))),
      ("constant_row", lambda x: tf.constant(_table(6))),
      ("of_one_value", lambda x: tf.constant(3.0, shape=[4, 6])),
      (
        "half",
        lambda x: tf.cast(tf.constant(_table(6), tf.bfloat16), x.dtype),
      ),
      ("bool", lambda x: tf.cast(tf.constant([True, False] * 3), x.dtype)),
      ("range", lambda x: _numbers(6)),
      (
        "reshaped",
        lambda x: tf.reshape(tf.constant(_table(2, 2, 6)), [4, 6]),
      ),
      ("rows", lambda x: tf.reshape(_numbers(6), [1, 6])),
      ("columns", lambda x: tf.transpose(tf.constant(_table(6, 4)))),
      ("expanded", lambda x: tf.expand_dims(_numbers(6), 0)),
      ("squeezed", lambda x: tf.squeeze(tf.constant(_table(1, 6)), 0)),
      (
        "sliced",
        lambda x: tf.slice(tf.constant(_table(9, 6)), [2, 0], [4, -1]),
      ),
      ("taken", lambda x: tf.constant(_table(9, 6))[3]),
      (
        "padded",
        lambda x: tf.pad(tf.constant(_table(2, 6)), [[1, 1], [0, 0]]),
      ),
      ("stacked", lambda x: tf.stack([_numbers(6)] * 4)),
      ("joined", lambda x: tf.concat([tf.zeros([1, 6]), tf.ones([3, 6])], 0)),
      ("broadcast", lambda x: tf.broadcast_to(x[0, 0], [4, 6])),
      ("broadcast_rows", lambda x: tf.broadcast_to(_numbers(6), [4, 6])),
      ("tiled", lambda x: tf.tile(tf.constant([[2.0]]), [4, 6])),
      ("tiled_rows", lambda x: tf.tile(tf.ones([1, 6]) * 3.0, [4, 1])),
      (
        "computed",
        lambda x: tf.where(_numbers(6) > 6.0, tf.zeros([6]), _numbers(6) * 0.5),
      ),
      ("one_hot_classes", lambda x: tf.one_hot([1, 5, 7, -1], 6)),
      ("one_hot_ids", lambda x: tf.one_hot(tf.range(6), 4, axis=0)),
      ("one_hot_first", lambda x: tf.one_hot([2, 0, 5, 3, 1, 4], 4, axis=0)),
    ],
  )
  def test_is_made_in_parts(self, build):
    found = sinking.check(
      self,
      lambda w, x: w * build(x) + build(x),
      {"w": _floats(4, 6), "x": _floats(4, 2)},
      {"w": Shard(1, (1, 2, 3))},
    )
    self.assertEmpty(_slices(found))

  @parameterized.named_parameters(
    ("inputs", lambda x: tf.tanh(x)),
    ("sums", lambda x: tf.ones([4, 6]) + x),
    ("large", lambda x: tf.constant(np.resize(_table(6), [4, 3000, 6]))),
    ("floats", lambda x: tf.range(0.0, 0.6, 0.1)),
  )
  def test_is_sliced(self, build):
    found = sinking.check(
      self,
      lambda w, x: w * build(x),
      {"w": _floats(4, 1, 6), "x": _floats(4, 1, 6)},
      {"w": Shard(2, (2, 4))},
    )
    self.assertNotEmpty(_slices(found))

  @parameterized.parameters(((3, 4),), ((5, 1, 1),))
  def test_parts_add_what_is_for_their_rows(self, sizes):
    """A row without a number is nobody's, and some rows get nothing."""
    ids = np.array([4, 0, 6, 4, -1, 3], np.int32)
    found = sinking.check(
      self,
      lambda w, x, ids: w * tf.math.unsorted_segment_sum(x, ids, 7) * 0.5,
      {"w": _floats(7, 3), "x": _floats(6, 3), "ids": ids},
      {"w": Shard(0, sizes)},
      {"ids": [0], "x": [0]},
    )
    self.assertEmpty(_slices(found))

  def test_a_constant_of_one_value_may_be_large(self):
    """Slots start with one, and a table's is as large as the table."""
    with tf.Graph().as_default():
      constant = tf.constant(0.1, shape=[1 << 30, 1 << 10])
      split = Shard(0, (1 << 29, 1 << 29))
      decision = inference.source(TABLE, constant.op, split)
    for attributes in decision.attributes:
      value = attributes["value"].tensor
      self.assertEqual(tf.TensorShape(value.tensor_shape), [1 << 29, 1 << 10])
      self.assertLess(value.ByteSize(), 100)


class RandomTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("uniform", lambda s: tf.random.uniform(s, seed=3)),
    ("normal", lambda s: tf.random.normal(s, 2.0, 0.1, seed=3)),
    ("truncated", lambda s: tf.random.truncated_normal(s, 2.0, 0.1, seed=3)),
    (
      "integers",
      lambda s: tf.cast(
        tf.random.uniform(s, 0, 1000, tf.int32, seed=3), tf.float32
      ),
    ),
    ("gamma", lambda s: tf.random.gamma(s, 2.0, seed=3)),
    ("gammas", lambda s: tf.random.gamma(s[:1], tf.ones([40]), seed=3)),
    ("poisson", lambda s: tf.random.poisson(s, 300.0, seed=3)),
  )
  def test_parts_draw_other_numbers(self, draw):
    found = sinking.run(
      lambda x: (x * draw(tf.stack([tf.shape(x)[0], 40])), x),
      {"x": np.ones([30, 40], np.float32)},
      {"x": Shard(1, (20, 20))},
      {"x": [0]},
    )
    self.assertEmpty(_slices(found))
    self.assertEmpty(found.inferred.gathers)
    drawn, _ = found.values
    halves = drawn[:, :20], drawn[:, 20:]
    self.assertLess(np.mean(halves[0] == halves[1]), 0.1)
    np.testing.assert_allclose(np.mean(halves[0]), np.mean(halves[1]), rtol=0.2)

  def test_a_dropout_is_of_one_mask(self):
    """Values and gradients are dropped alike, in each part for itself."""
    x = np.ones([50, 40], np.float32) + np.abs(_floats(50, 40))
    found = sinking.run(
      lambda x: tf.nn.dropout(x, 0.25, seed=5),
      {"x": x},
      {"x": Shard(1, (30, 10))},
      {"x": [0]},
    )
    self.assertEmpty(_slices(found))
    self.assertEmpty(found.inferred.gathers)
    (values,) = found.values
    kept = values != 0.0
    np.testing.assert_allclose(values[kept], (x / 0.75)[kept], rtol=1e-6)
    np.testing.assert_array_equal(found.gradients["x"] != 0.0, kept)
    for part in (kept[:, :30], kept[:, 30:]):
      np.testing.assert_allclose(np.mean(part), 0.75, atol=0.1)

  def test_one_mask_is_drawn_once(self):
    """Though one reader wants its columns and the other one its rows."""

    def build(x):
      mask = tf.random.uniform([6, 6], seed=3)
      return x * mask, tf.transpose(x) * mask

    found = sinking.run(
      build, {"x": np.ones([6, 6], np.float32)}, {"x": Shard(1, (2, 4))}
    )
    np.testing.assert_array_equal(*found.values)

  def test_numbers_that_follow_from_a_seed_are_those_of_the_plain_model(self):
    found = sinking.check(
      self,
      lambda x: x * tf.random.stateless_uniform([6], [1, 2]),
      {"x": _floats(4, 6)},
      {"x": Shard(1, (2, 4))},
    )
    self.assertNotEmpty(_slices(found))


if __name__ == "__main__":
  absltest.main()
