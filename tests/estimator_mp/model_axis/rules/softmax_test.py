"""Tests of the rules for softmax: over the split axis, and over another."""

from estimator_mp.model_axis.decisions import Composite, Shard
from estimator_mp.model_axis.rules import table
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(5)
_LOGITS = (3 * _rng.randn(4, 3, 7)).astype(np.float32)
_FUNCTIONS = (
  ("softmax", lambda x: tf.nn.softmax(x)),
  ("log", lambda x: tf.nn.log_softmax(x)),
)
_SIZES = (3, 2, 2)


def _decide(build, *splits):
  """Returns what becomes of the op that a function makes."""
  with tf.Graph().as_default():
    op = build().op
    return table.TABLE.rules[op.type](op, splits)


class SoftmaxTest(parameterized.TestCase):
  @parameterized.named_parameters(*_FUNCTIONS)
  def test_second_derivatives(self, function):
    sinking.check(
      self,
      function,
      {"x": _LOGITS.astype(np.float64)},
      {"x": Shard(2, _SIZES)},
      rtol=1e-12,
      atol=1e-12,
      order=2,
    )

  def test_over_a_split_axis_that_is_not_the_last(self):
    """TensorFlow transposes, by an order that it computes in the graph."""
    sinking.check(
      self,
      lambda x: tf.nn.softmax(x, axis=1),
      {"x": _LOGITS},
      {"x": Shard(1, (2, 1))},
      unknown={"x": [0]},
    )

  @parameterized.named_parameters(*_FUNCTIONS)
  def test_of_logits_that_are_far_apart(self, function):
    """The largest is in another part in each row, and no power is infinite."""
    logits = _LOGITS.reshape(12, 7) * 4
    logits[0] += 1e4
    logits[1, :3] -= 1e5
    logits[2, 5:] += 3e4
    logits[3:6] *= 10
    splits = {"x": Shard(1, _SIZES)}
    sinking.check(self, function, {"x": logits}, splits, atol=1e-5)

  @parameterized.named_parameters(*_FUNCTIONS)
  def test_of_masked_logits(self, function):
    """A part of a row may be masked as a whole."""
    logits = _LOGITS.reshape(12, 7).copy()
    logits[0, :3] = -np.inf
    logits[1, 1:] = -np.inf

    def build(x):
      y = function(x)
      finite = tf.math.is_finite(y)
      return finite, tf.where(finite, y, tf.zeros_like(y))

    sunk = sinking.check(
      self, build, {"x": logits}, {"x": Shard(1, _SIZES)}, gathers=None
    )
    self.assertFalse(np.isnan(sunk.gradients["x"]).any())

  @parameterized.named_parameters(*_FUNCTIONS)
  def test_a_row_that_is_masked_is_no_number(self, function):
    logits = np.full([1, 7], -np.inf, np.float32)
    sunk = sinking.check(self, function, {"x": logits}, {"x": Shard(1, _SIZES)})
    self.assertTrue(np.isnan(sunk.values[0]).all())

  @parameterized.product(
    function=[f for _, f in _FUNCTIONS], dtype=[np.float64, np.float16]
  )
  def test_of_other_floats(self, function, dtype):
    tolerance = 1e-12 if dtype is np.float64 else 2e-3
    logits = _LOGITS.astype(dtype)
    sunk = sinking.check(
      self,
      function,
      {"x": logits},
      {"x": Shard(2, _SIZES)},
      rtol=tolerance,
      atol=tolerance,
    )
    self.assertEqual(sunk.values[0].dtype, dtype)

  def test_parts_stay_on_their_devices(self):
    sunk = sinking.check(
      self, _FUNCTIONS[0][1], {"x": _LOGITS}, {"x": Shard(2, _SIZES)}
    )
    devices = {
      device for name, device in sunk.devices.items() if "/Exp" in name
    }
    self.assertEqual(devices, {f"/device:CPU:{i}" for i in range(3)})


class DecisionTest(absltest.TestCase):
  def test_what_is_sent_has_one_entry_a_row(self):
    decision = _decide(
      lambda: tf.nn.softmax(tf.compat.v1.placeholder(tf.float32, [None, 5, 7])),
      Shard(2, _SIZES),
    )
    self.assertIsInstance(decision, Composite)
    self.assertEqual(
      [shape.as_list() for shape in decision.exchanged], [[None, 5, 1]] * 2
    )

  def test_an_unknown_rank_is_whole(self):
    logits = lambda: tf.compat.v1.placeholder(tf.float32)  # noqa: E731
    self.assertIsNone(
      _decide(lambda: tf.raw_ops.Softmax(logits=logits()), Shard(1, (1, 1)))
    )


if __name__ == "__main__":
  absltest.main()
