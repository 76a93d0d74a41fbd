"""Tests of the rules for convolutions: split by channels, out or in.

What parts make of each op, and gradients, by_parts_test compares.
"""

from estimator_mp.model_axis.decisions import (
  Partial,
  PerPart,
  Replicate,
  Resized,
  Shard,
)
from estimator_mp.model_axis.rules import table
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(8)
_v1 = tf.compat.v1
_UNKNOWN = {"x": [0]}


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _conv2d(x, w, **attributes):
  attributes = {"strides": [1] * 4, "padding": "SAME"} | attributes
  return tf.raw_ops.Conv2D(input=x, filter=w, **attributes)


def _depthwise(x, w, **attributes):
  attributes = {"strides": [1] * 4, "padding": "SAME"} | attributes
  return tf.raw_ops.DepthwiseConv2dNative(input=x, filter=w, **attributes)


def _decide(build, shapes, *splits):
  """Returns what becomes of the op that a function makes of placeholders."""
  with tf.Graph().as_default():
    op = build(*(_v1.placeholder(tf.float32, shape) for shape in shapes)).op
    return table.TABLE.rules[op.type](op, splits)


class ConvolutionTest(parameterized.TestCase):
  def test_one_convolution_by_output_the_next_by_input_channels(self):
    """Megatron-LM's pair: one sum, and nothing gathered."""
    sunk = sinking.check(
      self,
      lambda x, w, u: _conv2d(tf.nn.relu(_conv2d(x, w)), u),
      {
        "x": _floats(2, 4, 4, 3),
        "w": _floats(3, 3, 3, 5),
        "u": _floats(3, 3, 5, 2),
      },
      {"w": Shard(3, (3, 2)), "u": Shard(2, (3, 2))},
      unknown=_UNKNOWN,
      atol=3e-6,
    )
    outputs = [d.outputs for d in sunk.inferred.decisions.values()]
    self.assertEqual(
      outputs, [(Shard(3, (3, 2)),), (Shard(3, (3, 2)),), (Partial(),)]
    )

  def test_whole_images_are_sliced_if_their_sum_is_small(self):
    sinking.check(
      self,
      lambda x, w: _conv2d(x, w, padding="VALID"),
      {"x": _floats(2, 3, 3, 5), "w": _floats(3, 3, 5, 2)},
      {"w": Shard(2, (3, 2))},
      atol=3e-6,
    )
    shapes = [None, 30, 30, 5], [3, 3, 5, 2]
    self.assertIsNone(_decide(_conv2d, shapes, None, Shard(2, (3, 2))))

  def test_images_that_are_split_are_gathered_for_output_channels(self):
    sinking.check(
      self,
      _conv2d,
      {"x": _floats(2, 4, 4, 5), "w": _floats(3, 3, 5, 4)},
      {"x": Shard(3, (4, 1)), "w": Shard(3, (1, 3))},
      gathers=None,
    )

  def test_a_part_without_an_image_is_not_convolved(self):
    """Some kernels of TensorFlow end the process then."""
    shapes = [4, 4, 4, 6], [3, 3, 6, 9]
    self.assertIsNone(_decide(_conv2d, shapes, Shard(0, (0, 4)), None))

  def test_an_unknown_number_of_channels_may_be_groups(self):
    shapes = [None, 4, 4, None], [3, 3, 2, 6]
    self.assertIsNone(_decide(_conv2d, shapes, None, Shard(3, (3, 3))))

  @parameterized.parameters((Shard(3, (4, 5)),), (Shard(2, (2, 4)),))
  def test_channels_first(self, filters):
    build = lambda x, w: _conv2d(x, w, data_format="NCHW")  # noqa: E731
    shapes = [None, 6, 8, 8], [3, 3, 6, 9]
    images = None if filters.axis == 3 else filters.at(1)
    decision = _decide(build, shapes, images, filters)
    if filters.axis == 3:
      expected = PerPart((Replicate(), filters), (filters.at(1),))
    else:
      expected = PerPart((images, filters), (Partial(),))
    self.assertEqual(decision, expected)

  def test_public_functions(self):
    """Layers have more ops: expanded dimensions, biases, activations."""

    def build(x, w, b):
      y = tf.nn.conv1d(x, w, 1, "SAME")
      return tf.nn.relu(tf.nn.bias_add(y, b))

    sinking.check(
      self,
      build,
      {"x": _floats(2, 6, 3), "w": _floats(3, 3, 5), "b": _floats(5)},
      {"w": Shard(2, (3, 2)), "b": Shard(0, (3, 2))},
      unknown=_UNKNOWN,
    )


class TransposedTest(parameterized.TestCase):
  def test_a_shape_that_is_known_when_it_runs(self):
    def build(x, w):
      shape = tf.stack([tf.shape(x)[0], 8, 8, 5])
      return tf.nn.conv2d_transpose(x, w, shape, 2)

    sinking.check(
      self,
      build,
      {"x": _floats(2, 4, 4, 3), "w": _floats(3, 3, 5, 3)},
      {"w": Shard(2, (3, 2))},
      unknown=_UNKNOWN,
      atol=3e-6,
    )

  def test_channels_first(self):
    build = lambda x, w: tf.nn.conv2d_transpose(  # noqa: E731
      x, w, [2, 5, 8, 8], 2, data_format="NCHW"
    )
    with tf.Graph().as_default():
      op = build(_v1.placeholder("float", [2, 3, 4, 4]), tf.ones([3, 3, 5, 3]))
      rule = table.TABLE.rules["Conv2DBackpropInput"]
      decision = rule(op.op, [None, Shard(2, (4, 1)), None])
    self.assertEqual(
      decision,
      PerPart(
        (Resized(1, (4, 1)), Shard(2, (4, 1)), Replicate()), (Shard(1, (4, 1)),)
      ),
    )

  def test_unknown_channels_and_groups_stay_whole(self):
    rule = table.TABLE.rules["Conv2DBackpropInput"]
    for shape in ([2, 8, 8, 10], [2, 8, 8, None]):
      with tf.Graph().as_default():
        known = [
          _v1.placeholder(tf.int32, []) if size is None else size
          for size in shape
        ]
        op = tf.raw_ops.Conv2DBackpropInput(
          input_sizes=tf.stack(known),
          filter=tf.ones([3, 3, 5, 6]),
          out_backprop=_v1.placeholder("float", [2, 8, 8, 6]),
          strides=[1] * 4,
          padding="SAME",
        ).op
        self.assertIsNone(rule(op, [None, Shard(2, (4, 1)), None]))


class DepthwiseTest(parameterized.TestCase):
  def test_channels_first(self):
    build = lambda x, w: _depthwise(x, w, data_format="NCHW")  # noqa: E731
    shapes = [None, 6, 8, 8], [3, 3, 6, 2]
    self.assertEqual(
      _decide(build, shapes, Shard(1, (4, 2)), None),
      PerPart((Shard(1, (4, 2)), Shard(2, (4, 2))), (Shard(1, (8, 4)),)),
    )

  def test_separable(self):
    def build(x, d, p):
      return tf.nn.separable_conv2d(
        x, d, p, [1, 1, 1, 1], "SAME", dilations=[2, 2]
      )

    sinking.check(
      self,
      build,
      {
        "x": _floats(2, 8, 8, 5),
        "d": _floats(3, 3, 5, 2),
        "p": _floats(1, 1, 10, 3),
      },
      {"x": Shard(3, (3, 2)), "p": Shard(2, (6, 4))},
      unknown=_UNKNOWN,
      atol=3e-6,
    )


if __name__ == "__main__":
  absltest.main()
