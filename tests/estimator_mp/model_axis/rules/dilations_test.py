"""Convolutions with dilation, split by channels.

TensorFlow has their gradients on CPUs in oneDNN alone, which a process has from
its start or not at all: so this is a process of its own.
"""

import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"

from estimator_mp.model_axis.decisions import Split
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(8)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _images(x, w):
  return tf.raw_ops.Conv2D(
    input=x,
    filter=w,
    strides=[1] * 4,
    padding="SAME",
    dilations=[1, 2, 1, 1],
  )


def _volumes(x, w):
  return tf.raw_ops.Conv3D(
    input=x,
    filter=w,
    strides=[1] * 5,
    padding="SAME",
    dilations=[1, 2, 1, 1, 1],
  )


def _depthwise(x, w):
  return tf.raw_ops.DepthwiseConv2dNative(
    input=x,
    filter=w,
    strides=[1] * 4,
    padding="SAME",
    dilations=[1, 2, 2, 1],
  )


class DilationsTest(parameterized.TestCase):
  @parameterized.named_parameters(
    (
      "images_by_output_channels",
      _images,
      [[2, 6, 6, 4], [3, 3, 4, 5]],
      {"w": Split(3, (3, 2))},
    ),
    (
      "images_by_input_channels",
      _images,
      [[2, 6, 6, 4], [3, 3, 4, 5]],
      {"x": Split(3, (3, 1)), "w": Split(2, (3, 1))},
    ),
    (
      "volumes_by_output_channels",
      _volumes,
      [[2, 4, 3, 4, 3], [2, 2, 3, 3, 5]],
      {"w": Split(4, (3, 2))},
    ),
    (
      "volumes_by_input_channels",
      _volumes,
      [[2, 4, 3, 4, 3], [2, 2, 3, 3, 5]],
      {"x": Split(4, (1, 2)), "w": Split(3, (1, 2))},
    ),
    (
      "depthwise",
      _depthwise,
      [[2, 6, 6, 5], [3, 3, 5, 2]],
      {"x": Split(3, (3, 2)), "w": Split(2, (3, 2))},
    ),
  )
  def test_parts_are_the_whole(self, build, shapes, splits):
    feeds = {
      name: _floats(*shape) for name, shape in zip("xw", shapes, strict=True)
    }
    sunk = sinking.check(
      self, build, feeds, splits, unknown={"x": [0]}, atol=3e-6
    )
    self.assertIsNotNone(sunk.gradients["x"])
    self.assertLen(sunk.inferred.decisions, 1)


if __name__ == "__main__":
  absltest.main()
