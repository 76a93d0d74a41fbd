"""Tests of the rules for softmax and cross-entropies: no device has all logits.

Logits that are far apart or masked, other floats and second derivatives.
"""

from estimator_mp.propagate.splits import VariableSplit
from tests import tiers
from tests.estimator_mp.model_axis import split_graphs

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(6)
_ROWS, _CLASSES = 6, 7
_LOGITS = (3 * _rng.randn(_ROWS, _CLASSES)).astype(np.float32)
_NUMBERS = np.array([0, 3, 6, 2, 4, 4], np.int32)
_LABELS = _rng.dirichlet(np.ones(_CLASSES), _ROWS).astype(np.float32)
_OVER_CLASSES, _OVER_ROWS = (
  VariableSplit(1, (3, 2, 2)),
  VariableSplit(0, (1, 3, 2)),
)
_v1 = tf.compat.v1


def _both_sparse(x, y):
  """Both outputs: the loss, and its derivative by the logits."""
  return tuple(
    tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=y)
  )


def _both_dense(x, y):
  return tuple(tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=y))


def _sparse(x, y):
  return _both_sparse(x, y)[0]


def _dense(x, y):
  return _both_dense(x, y)[0]


_SOFTMAX = (
  ("softmax", lambda x, y: tf.nn.softmax(x)),
  ("log_softmax", lambda x, y: tf.nn.log_softmax(x)),
)


class LogitsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    *_SOFTMAX,
    ("sparse", _both_sparse),
    ("dense", lambda x, y: _both_dense(x, tf.one_hot(y, _CLASSES) / 2)),
  )
  def test_far_apart(self, build):
    """The largest is in another part in each row, and no power is infinite."""
    logits = _LOGITS * 10
    logits[0, :3] += 1e4
    logits[1, 5:] += 1e5
    logits[2, :3] -= 1e5
    split_graphs.check(
      self, build, {"x": logits, "y": _NUMBERS}, {"x": _OVER_CLASSES}, atol=1e-5
    )

  @parameterized.named_parameters(
    *_SOFTMAX,
    ("sparse", _both_sparse),
    ("dense", lambda x, y: _both_dense(x, tf.one_hot(y, 7, dtype=x.dtype))),
  )
  def test_of_other_floats(self, build):
    for dtype, tolerance in ((np.float64, 1e-12), (np.float16, 3e-3)):
      split_graph = split_graphs.check(
        self,
        build,
        {"x": _LOGITS.astype(dtype), "y": _NUMBERS},
        {"x": _OVER_CLASSES},
        rtol=tolerance,
        atol=tolerance,
      )
      self.assertEqual(
        {value.dtype.type for value in split_graph.values}, {dtype}
      )


class SoftmaxTest(parameterized.TestCase):
  @parameterized.named_parameters(*_SOFTMAX)
  def test_second_derivatives(self, function):
    split_graphs.check(
      self,
      function,
      {"x": _LOGITS.astype(np.float64), "y": _NUMBERS},
      {"x": _OVER_CLASSES},
      rtol=1e-12,
      atol=1e-12,
      order=2,
    )

  def test_over_a_split_axis_that_is_not_the_last(self):
    """TensorFlow transposes, by an order that it computes in the graph."""
    split_graphs.check(
      self,
      lambda x: tf.nn.softmax(x, axis=1),
      {"x": _LOGITS.reshape([2, 3, 7])},
      {"x": VariableSplit(1, (2, 1))},
      unknown={"x": [0]},
    )

  @parameterized.named_parameters(*_SOFTMAX)
  def test_of_masked_logits(self, function):
    """A part of a row may be masked as a whole; all of it is no number."""
    logits = _LOGITS.copy()
    logits[0, :3] = -np.inf
    logits[1, 1:] = -np.inf

    def build(x):
      y = function(x, None)
      finite = tf.math.is_finite(y)
      return finite, tf.where(finite, y, tf.zeros_like(y))

    split_graph = split_graphs.check(
      self, build, {"x": logits}, {"x": _OVER_CLASSES}, gathers=None
    )
    self.assertFalse(np.isnan(split_graph.gradients["x"]).any())
    logits = np.full([1, _CLASSES], -np.inf, np.float32)
    split_graph = split_graphs.check(
      self,
      lambda x: function(x, None),
      {"x": logits},
      {"x": _OVER_CLASSES},
    )
    self.assertTrue(np.isnan(split_graph.values[0]).all())


class SparseTest(parameterized.TestCase):
  @parameterized.parameters(
    tiers.sample([(_both_sparse, np.int64), (_sparse, np.int32)])
  )
  def test_second_derivatives(self, build, dtype):
    split_graphs.check(
      self,
      build,
      {"x": _LOGITS, "y": _NUMBERS.astype(dtype)},
      {"x": _OVER_CLASSES},
      unknown={"x": [0], "y": [0]},
      order=2,
    )

  def test_of_masked_logits(self):
    """The class of a row is not masked; a part may be as a whole."""
    logits = _LOGITS.copy()
    logits[0, 3:] = -np.inf
    logits[1, :3] = -np.inf
    split_graph = split_graphs.check(
      self, _both_sparse, {"x": logits, "y": _NUMBERS}, {"x": _OVER_CLASSES}
    )
    self.assertFalse(np.isnan(split_graph.gradients["x"]).any())

  def test_a_class_that_is_masked_has_an_infinite_loss(self):
    logits = _LOGITS[:2].copy()
    logits[:, :3] = -np.inf
    with tf.Graph().as_default():
      split_graph = split_graphs.check(
        self,
        lambda x, y: tf.math.is_inf(_sparse(x, y)),
        {"x": logits, "y": _NUMBERS[:2]},
        {"x": _OVER_CLASSES},
      )
    self.assertEqual(split_graph.values[0].tolist(), [True, False])

  @parameterized.parameters(-1, _CLASSES)
  def test_a_label_of_no_class_is_an_error_as_on_one_device(self, label):
    labels = np.array([0, label, 1, 2, 3, 4], np.int32)
    for splits, message in (({}, "label value"), (_OVER_CLASSES, "a label")):
      with (
        self.subTest(message),
        self.assertRaisesRegex(tf.errors.InvalidArgumentError, message),
      ):
        split_graphs.run(
          _sparse, {"x": _LOGITS, "y": labels}, {"x": splits} if splits else {}
        )


class DenseTest(parameterized.TestCase):
  @parameterized.parameters(tiers.sample([_both_dense, _dense]))
  def test_second_derivatives(self, build):
    """TensorFlow's are of labels that sum to one, also if these do not."""
    halves = _LABELS * np.linspace(0, 2, _ROWS, dtype="f")[:, np.newaxis]
    split_graphs.check(
      self,
      build,
      {"x": _LOGITS, "y": halves},
      {"x": _OVER_CLASSES, "y": _OVER_CLASSES},
      unknown={"x": [0], "y": [0]},
      order=2,
    )

  @parameterized.product(
    shape=[(1, _CLASSES), (_ROWS, 1), (1, 1)],
    split=[_OVER_CLASSES, _OVER_ROWS],
  )
  def test_labels_are_broadcast(self, shape, split):
    labels = _LABELS[: shape[0], : shape[1]]
    split_graphs.check(
      self,
      lambda x, y: tuple(map(tf.stop_gradient, _both_dense(x, y))),
      {"x": _LOGITS, "y": labels},
      {"x": split},
      gathers=None,
    )

  def test_gradient_of_labels_of_an_unknown_number_of_rows(self):
    split_graphs.check(
      self,
      lambda x, y: _both_dense(x, tf.stop_gradient(y)),
      {"x": _LOGITS, "y": _LABELS[:1]},
      {"x": _OVER_CLASSES},
      unknown={"x": [0], "y": [0]},
    )


def _one_hot_smoothed(x, y):
  labels = tf.one_hot(y, _CLASSES)
  return _v1.losses.softmax_cross_entropy(labels, x, label_smoothing=0.1)


def _of_log_softmax(x, y):
  """As BERT's heads have it."""
  labels = tf.one_hot(y, _CLASSES)
  return -tf.reduce_sum(tf.nn.log_softmax(x) * labels, -1)


_FUNCTIONS = (
  (
    "sparse",
    lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x),
  ),
  (
    "sparse_losses",
    lambda x, y: _v1.losses.sparse_softmax_cross_entropy(y, x),
  ),
  (
    "dense",
    lambda x, y: tf.nn.softmax_cross_entropy_with_logits(
      tf.one_hot(y, _CLASSES), x
    ),
  ),
  ("dense_losses", _one_hot_smoothed),
  ("log_softmax", _of_log_softmax),
)


class PublicFunctionsTest(parameterized.TestCase):
  """What is around the ops in public functions gathers nothing either."""

  @parameterized.named_parameters(*_FUNCTIONS[: 3 if tiers.FAST else None])
  def test_of_rows_and_of_positions(self, function):
    """[batch, classes], and [batch, positions, classes] in a language model."""
    for rows in ((_ROWS,), (2, 3)):
      split_graphs.check(
        self,
        function,
        {"x": _LOGITS.reshape(*rows, _CLASSES), "y": _NUMBERS.reshape(rows)},
        {"x": VariableSplit(len(rows), _OVER_CLASSES.sizes)},
        unknown=dict.fromkeys("xy", range(len(rows))),
      )


if __name__ == "__main__":
  absltest.main()
