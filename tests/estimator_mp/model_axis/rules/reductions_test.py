"""Tests of the rules for reductions."""

from estimator_mp.model_axis.decisions import (
  Composite,
  Partial,
  Reduction,
  Shard,
)
from estimator_mp.model_axis.rules import reductions
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
raw = tf.raw_ops


def _floats(*shape, seed=3):
  return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def _decided(op, *splits):
  return reductions.TABLE.rules[op.type](op, splits)


class ReduceTest(parameterized.TestCase):
  @parameterized.parameters(tf.reduce_max, tf.reduce_min)
  def test_equal_entries_share_a_gradient(self, reduce):
    """As many in one part as in none or both others; also if all are so."""
    values = np.array(
      [[4, 1, 4, 4, 3], [0, 0, 0, 0, 0], [1, 4, 1, 1, 1], [2, 2, 2, 3, 3]],
      np.float32,
    )
    sinking.check(
      self,
      lambda x: reduce(x, axis=1),
      {"x": values},
      {"x": Shard(1, (2, 2, 1))},
      unknown={"x": [0]},
    )

  def test_infinite_entries(self):
    values = np.full((3, 5), -np.inf, np.float32)
    values[1, 3], values[2, 1] = 1.0, np.inf
    sinking.check(
      self,
      lambda x: [tf.reduce_max(x, axis=1), tf.reduce_max(x, 1, True)],
      {"x": values},
      {"x": Shard(1, (2, 2, 1))},
    )

  def test_a_maximum_without_a_gradient_is_simple(self):
    split = Shard(1, (2, 3))
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 5])
      stopped, learnt, compared = (tf.reduce_max(x, 1) for _ in range(3))
      tf.stop_gradient(stopped * 2.0)
      tf.square(learnt)
      tf.math.is_finite(compared)
      self.assertEqual(
        _decided(stopped.op, split, None).outputs, (Partial(Reduction.MAXIMUM),)
      )
      self.assertIsInstance(_decided(learnt.op, split, None), Composite)
      self.assertEqual(
        _decided(compared.op, split, None).outputs,
        (Partial(Reduction.MAXIMUM),),
      )

  def test_a_norm_with_a_part_of_zeros(self):
    values = _floats(2, 5)
    values[:, :2] = 0.0
    sinking.check(
      self,
      lambda x: tf.math.reduce_euclidean_norm(x, 1),
      {"x": values},
      {"x": Shard(1, (2, 3))},
    )

  def test_axes_that_are_not_known(self):
    split = Shard(1, (2, 3))
    with tf.Graph().as_default():
      x = v1.placeholder(tf.float32, [4, 5])
      axis = v1.placeholder(tf.int32, [])
      for reduce in (tf.reduce_sum, tf.reduce_mean, tf.reduce_max):
        self.assertIsNone(_decided(reduce(x, axis).op, split, None))
      self.assertIsNone(_decided(tf.argmax(x, axis).op, split, None))
      self.assertIsNone(_decided(tf.cumsum(x, axis).op, split, None))

  def test_layer_normalisation(self):
    def normalised(x, gamma, beta):
      mean, variance = tf.nn.moments(x, [-1], keepdims=True)
      return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-6)

    found = sinking.check(
      self,
      normalised,
      {"x": _floats(4, 6, 5), "gamma": _floats(5), "beta": _floats(5)},
      {
        "x": Shard(2, (3, 2)),
        "gamma": Shard(0, (3, 2)),
        "beta": Shard(0, (3, 2)),
      },
      unknown={"x": [0]},
      rtol=1e-5,
    )
    exchanged = [
      op.type
      for op, decision in found.inferred.decisions.items()
      if isinstance(decision, Composite)
    ]
    self.assertEqual(exchanged, ["Mean", "Mean"])

  def test_norms(self):
    def clipped(x, y):
      tensors, norm = tf.clip_by_global_norm([x, y], 0.5)
      return [*tensors, norm, tf.norm(x), tf.nn.l2_loss(y)]

    sinking.check(
      self,
      clipped,
      {"x": _floats(4, 5), "y": _floats(5)},
      {"x": Shard(1, (3, 2)), "y": Shard(0, (3, 2))},
      rtol=1e-5,
      gathers=None,
    )


class PlacesTest(parameterized.TestCase):
  @parameterized.product(
    find=(tf.argmax, tf.argmin),
    axis=(0, 1, 2, -1, -2),
    dtype=(tf.int64, tf.int32),
  )
  def test_places(self, find, axis, dtype):
    """Among them equal entries, of which the first counts."""
    values = np.random.RandomState(3).randint(0, 4, (4, 7, 3)).astype("f")
    sinking.check(
      self,
      lambda x: find(x, axis, dtype),
      {"x": values},
      {"x": Shard(1, (3, 2, 2))},
      unknown={"x": [0]},
    )

  def test_infinite_entries(self):
    values = np.full((3, 5), -np.inf, np.float32)
    values[1, 3], values[2, 1] = 1.0, np.inf
    sinking.check(
      self,
      lambda x: tf.argmax(x, 1),
      {"x": values},
      {"x": Shard(1, (2, 2, 1))},
    )

  def test_other_types_are_gathered(self):
    sinking.check(
      self,
      lambda x: tf.argmax(x > 0.0, 1),
      {"x": _floats(4, 5)},
      {"x": Shard(1, (2, 3))},
      gathers=1,
    )


if __name__ == "__main__":
  absltest.main()
