"""Tests of the rules for ops that do not mix channels of images."""

from estimator_mp.model_axis.decisions import Join, Joined, Split, Whole
from estimator_mp.model_axis.rules import table
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(9)
_v1 = tf.compat.v1
_IMAGES = _rng.randn(3, 6, 5, 7).astype(np.float32)
_VOLUMES = _rng.randn(2, 4, 5, 4, 3).astype(np.float32)
_CHANNELS = Split(3, (4, 1, 2))
_raw = tf.raw_ops


def _pool(name, **attributes):
  """Returns a function that pools images."""
  attributes = {"padding": "VALID", **attributes}
  op = getattr(_raw, name)
  key = "value" if name == "AvgPool" else "input"
  return lambda x: op(**{key: x}, **attributes)


def _pool_by_tensors(x):
  ksize, strides = tf.constant([1, 2, 3, 1]), tf.constant([1, 2, 1, 1])
  return _raw.MaxPoolV2(input=x, ksize=ksize, strides=strides, padding="SAME")


_POOLS = (
  ("AvgPool", _pool("AvgPool", ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1])),
  ("MaxPool", _pool("MaxPool", ksize=[1, 2, 3, 1], strides=[1, 2, 1, 1])),
  (
    "explicit",
    _pool(
      "MaxPool",
      ksize=[1, 2, 2, 1],
      strides=[1, 2, 2, 1],
      padding="EXPLICIT",
      explicit_paddings=[0, 0, 1, 0, 1, 1, 0, 0],
    ),
  ),
  ("MaxPoolV2", _pool_by_tensors),
  ("bilinear", lambda x: tf.image.resize(x, [9, 4], "bilinear")),
  ("nearest", lambda x: tf.image.resize(x, [9, 4], "nearest")),
  ("bicubic", lambda x: tf.image.resize(x, [9, 4], "bicubic")),
  ("blocks", lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [0, 1]])),
  ("unblocked", lambda x: tf.batch_to_space(x, [3, 1], [[1, 0], [0, 0]])),
)


_TYPES = {
  "AvgPool",
  "BatchToSpaceND",
  "MaxPool",
  "MaxPoolV2",
  "ResizeBicubic",
  "ResizeBilinear",
  "ResizeNearestNeighbor",
  "SpaceToBatchND",
}


def _norm(version, **attributes):
  """Returns a function of five inputs, with all vectors that are defined."""
  op = getattr(_raw, f"FusedBatchNorm{version}")

  def build(x, scale, offset, mean=None, variance=None):
    empty = tf.constant([], tf.float32)
    found = op(
      x=x,
      scale=scale,
      offset=offset,
      mean=empty if mean is None else mean,
      variance=empty if variance is None else variance,
      **attributes,
    )
    # Of the mean and variance TensorFlow has no gradient.
    kept = found[1:3] if attributes["is_training"] else ()
    return (found[0], *map(tf.stop_gradient, kept))

  return build


def _vectors(count):
  return {
    name: _rng.uniform(0.5, 2, 7).astype(np.float32)
    for name in ("scale", "offset", "mean", "variance")[:count]
  }


def _decide(op, *splits):
  return table.TABLE.rules[op.type](op, splits)


class PoolTest(parameterized.TestCase):
  @parameterized.named_parameters(*_POOLS)
  def test_channels_stay_apart(self, build):
    sunk = sinking.check(
      self,
      build,
      {"x": _IMAGES},
      {"x": _CHANNELS},
      unknown={"x": [0]},
    )
    (decision,) = sunk.inferred.decisions.values()
    self.assertEqual(decision.outputs, (_CHANNELS,))

  @parameterized.parameters("AvgPool3D", "MaxPool3D")
  def test_of_volumes(self, name):
    sizes = {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 1, 2, 1]}
    sinking.check(
      self,
      _pool(name, **sizes),
      {"x": _VOLUMES},
      {"x": Split(4, (1, 2))},
      unknown={"x": [0]},
    )

  @parameterized.named_parameters(*_POOLS)
  def test_space_is_not_split(self, build):
    with tf.Graph().as_default() as graph:
      build(_v1.placeholder(tf.float32, _IMAGES.shape))
      op = next(op for op in graph.get_operations() if op.type in _TYPES)
      splits = [None] * (len(op.inputs) - 1)
      self.assertIsNone(_decide(op, Split(1, (2, 4)), *splits))

  @parameterized.named_parameters(
    case for case in _POOLS if "block" not in case[0]
  )
  def test_images_stay_apart(self, build):
    split = Split(0, (2, 1))
    sunk = sinking.check(self, build, {"x": _IMAGES}, {"x": split})
    (decision,) = sunk.inferred.decisions.values()
    self.assertEqual(decision.outputs, (split,))

  def test_channels_that_are_pooled_are_not_split(self):
    build = _pool("MaxPool", ksize=[1, 1, 1, 7], strides=[1, 1, 1, 7])
    with tf.Graph().as_default():
      op = build(_v1.placeholder(tf.float32, _IMAGES.shape)).op
      self.assertIsNone(_decide(op, _CHANNELS))

  def test_channels_first(self):
    build = _pool(
      "AvgPool",
      ksize=[1, 1, 2, 2],
      strides=[1, 1, 2, 2],
      data_format="NCHW",
    )
    with tf.Graph().as_default():
      op = build(_v1.placeholder(tf.float32, [None, 7, 8, 8])).op
      split = _CHANNELS.at(1)
      self.assertEqual(_decide(op, split).outputs, (split,))
      self.assertIsNone(_decide(op, _CHANNELS))

  def test_blocks_have_pixels_of_all_images(self):
    for name, build in _POOLS:
      if "block" in name:
        split = {"x": Split(0, (2, 1))}
        sinking.check(self, build, {"x": _IMAGES}, split, gathers=1)

  def test_a_part_without_an_image_is_not_pooled(self):
    """Some kernels of TensorFlow end the process then."""
    for _, build in _POOLS:
      with tf.Graph().as_default() as graph:
        build(_v1.placeholder(tf.float32, _IMAGES.shape))
        op = next(op for op in graph.get_operations() if op.type in _TYPES)
        splits = [None] * (len(op.inputs) - 1)
        self.assertIsNone(_decide(op, Split(0, (0, 3)), *splits))


class BatchNormTest(parameterized.TestCase):
  @parameterized.parameters("", "V2", "V3")
  def test_in_training(self, version):
    sunk = sinking.check(
      self,
      _norm(version, is_training=True),
      {"x": _IMAGES, **_vectors(2)},
      {"x": _CHANNELS},
      unknown={"x": [0]},
      atol=3e-6,
    )
    decision = next(iter(sunk.inferred.decisions.values()))
    vector = _CHANNELS.at(0)
    self.assertEqual(
      decision.operands, (_CHANNELS, vector, vector, Whole(), Whole())
    )

  @parameterized.parameters("", "V2", "V3")
  def test_of_moments_of_the_past(self, version):
    vectors = {name: _CHANNELS.at(0) for name in ("scale", "variance")}
    sinking.check(
      self,
      _norm(version, is_training=False, epsilon=1e-3),
      {"x": _IMAGES, **_vectors(4)},
      {"x": _CHANNELS, **vectors},
      unknown={"x": [0]},
      atol=3e-6,
    )

  def test_moving_averages_inside_of_the_op(self):
    sinking.check(
      self,
      _norm("V3", is_training=True, exponential_avg_factor=0.3),
      {"x": _IMAGES, **_vectors(4)},
      {"x": _CHANNELS},
      atol=3e-6,
    )

  def _op(self, shape, **attributes):
    vector = _v1.placeholder(tf.float32, [7])
    return _raw.FusedBatchNormV3(
      x=_v1.placeholder(tf.float32, shape),
      scale=vector,
      offset=vector,
      mean=vector,
      variance=vector,
      **attributes,
    ).y.op

  def test_channels_first(self):
    with tf.Graph().as_default():
      op = self._op([None, 7, 8, 8], data_format="NCHW")
      split = _CHANNELS.at(1)
      decision = _decide(op, split, None, None, None, None)
      self.assertEqual(decision.operands, (split, *[split.at(0)] * 4))
      self.assertEqual(
        decision.outputs, (split, *[split.at(0)] * 4, Joined(Join.FIRST))
      )

  @parameterized.parameters("", "V2", "V3")
  def test_images_of_moments_of_the_past(self, version):
    sinking.check(
      self,
      _norm(version, is_training=False, epsilon=1e-3),
      {"x": _IMAGES, **_vectors(4)},
      {"x": Split(0, (1, 2))},
      atol=3e-6,
    )

  def test_the_batch_and_vectors_alone_are_not_split(self):
    with tf.Graph().as_default():
      op = self._op([4, 8, 8, 7])
      vector = _CHANNELS.at(0)
      for splits in (
        [Split(0, (2, 2)), None, None, None, None],
        [None, vector, vector, None, None],
      ):
        self.assertIsNone(_decide(op, *splits))

  def test_what_the_kernel_reserved_for_its_gradient_is_not_split(self):
    with tf.Graph().as_default():
      op = self._op([4, 8, 8, 7])
      _v1.gradients(op.outputs[0], op.inputs[0])
      self.assertIsNone(_decide(op, _CHANNELS, None, None, None, None))


if __name__ == "__main__":
  absltest.main()
