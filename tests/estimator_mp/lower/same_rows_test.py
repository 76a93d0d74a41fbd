"""Gradients of rows that all slices look up are sums, row by row.

A decoder looks up a vector for each position, the same for all examples. The
plain model's gradient lists each of these rows once. If the rows of slices
were listed one after another, as those of examples are, clipping by a global
norm would see the norm of other numbers.
"""

import estimator_mp
from tests import tiers
from tests.estimator_mp import programs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

v1 = tf.compat.v1
_LENGTH, _WIDTH = 5, 4
_rng = np.random.RandomState(8)
_BATCH = (
  {"ids": _rng.randint(9, size=[8, _LENGTH]).astype(np.int32)},
  _rng.randn(8, 1).astype(np.float32),
)


def _model_fn(features, labels, mode, params):
  """Embeds words and positions; clips what it gets by their common norm."""
  ids = features["ids"]
  words = v1.get_variable("words", [9, _WIDTH])
  places = v1.get_variable("places", [2 * _LENGTH, _WIDTH])
  length = tf.shape(ids)[1] if params["is_dynamic"] else _LENGTH
  net = tf.nn.embedding_lookup(words, ids)
  net += tf.nn.embedding_lookup(places, tf.range(length))
  net = v1.layers.dense(tf.tanh(tf.reduce_mean(net, axis=1)), 8, tf.tanh)
  loss = tf.reduce_mean((v1.layers.dense(net, 1) - labels) ** 2)
  optimizer = params["optimizer"]()
  gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
  clipped, norm = tf.clip_by_global_norm(gradients, 0.01)
  tf.identity(norm, "norm")
  step = optimizer.apply_gradients(
    zip(clipped, variables, strict=True), v1.train.get_global_step()
  )
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def _adam():
  return v1.train.AdamOptimizer(0.01, epsilon=1e-3)


def _adagrad():
  return v1.train.AdagradOptimizer(0.1)


class SameRowsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    tiers.sample(
      [
        ("micro_batches", "stage:2", {"num_micro_batches": 4}),
        ("replicas", "data:2", {"num_micro_batches": 2}, _adagrad),
        (
          "one_replica_updates",
          "data:2",
          {"optimizer_state": "sharded", "num_micro_batches": 2},
        ),
        ("shared_variables", "data:2", {"variables": "shared"}, _adagrad),
        (
          "length_from_a_shape",
          "data:2",
          {"num_micro_batches": 2},
          _adam,
          True,
        ),
        (
          "rows_split",
          "data:2,model:2",
          {"num_micro_batches": 2, "split": (("places|words", "div"),)},
        ),
        (
          "columns_split",
          "model:2",
          {"num_micro_batches": 2, "split": (("places", "columns"),)},
          _adagrad,
        ),
      ]
    )
  )
  def test_clipping_sees_the_plain_norm(
    self, mesh, fields, optimizer=_adam, is_dynamic=False
  ):
    params = {"optimizer": optimizer, "is_dynamic": is_dynamic}
    config = estimator_mp.ShardingConfig(mesh, **fields)
    plain = programs.Program(_model_fn, None, _BATCH, params)
    sharded = programs.Program(_model_fn, config, _BATCH, params)
    sharded.load(plain.variables())
    for _ in range(3):
      expected = plain.step(_BATCH, "norm:0")
      found = sharded.step(_BATCH, "norm:0")
      np.testing.assert_allclose(found.fetched, expected.fetched, rtol=1e-5)
      np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-6)
    programs.assert_same_variables(
      self, sharded.variables(), plain.variables(), rtol=1e-5
    )

  def test_rows_are_listed_once(self):
    params = {"optimizer": _adam, "is_dynamic": False}
    config = estimator_mp.ShardingConfig("data:2", num_micro_batches=2)
    program = programs.Program(_model_fn, config, _BATCH, params)
    gradient = program.gradients["places"]
    self.assertIsInstance(gradient, tf.IndexedSlices)
    self.assertEqual(gradient.values.shape, [_LENGTH, _WIDTH])


if __name__ == "__main__":
  absltest.main()
