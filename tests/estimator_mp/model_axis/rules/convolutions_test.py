"""Tests of the rules for convolutions: split by channels, out or in.

Those with dilation are in dilations_test.
"""

from estimator_mp.model_axis.decisions import (
  Joined,
  PerPart,
  Resized,
  Split,
  Whole,
)
from estimator_mp.model_axis.rules import table
from tests.estimator_mp.model_axis import sinking

import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

_rng = np.random.RandomState(8)
_v1 = tf.compat.v1
_UNKNOWN = {"x": [0]}
_WAYS = (
  ("same", {"padding": "SAME"}),
  ("valid_strides", {"padding": "VALID", "strides": [1, 2, 1, 1]}),
  (
    "explicit",
    {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 1, 0, 3, 0, 0]},
  ),
)


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _conv2d(x, w, **attributes):
  attributes = {"strides": [1] * 4, "padding": "SAME"} | attributes
  return tf.raw_ops.Conv2D(input=x, filter=w, **attributes)


def _depthwise(x, w, **attributes):
  attributes = {"strides": [1] * 4, "padding": "SAME"} | attributes
  return tf.raw_ops.DepthwiseConv2dNative(input=x, filter=w, **attributes)


def _conv3d(x, w, **attributes):
  attributes = {"strides": [1] * 5, "padding": "SAME"} | attributes
  return tf.raw_ops.Conv3D(input=x, filter=w, **attributes)


def _decide(build, shapes, *splits):
  """Returns what becomes of the op that a function makes of placeholders."""
  with tf.Graph().as_default():
    op = build(*(_v1.placeholder(tf.float32, shape) for shape in shapes)).op
    return table.TABLE.rules[op.type](op, splits)


class ConvolutionTest(parameterized.TestCase):
  @parameterized.named_parameters(*_WAYS)
  def test_by_output_channels(self, attributes):
    sunk = sinking.check(
      self,
      lambda x, w: _conv2d(x, w, **attributes),
      {"x": _floats(2, 6, 6, 4), "w": _floats(3, 3, 4, 5)},
      {"w": Split(3, (3, 2))},
      unknown=_UNKNOWN,
    )
    (decision,) = sunk.inferred.decisions.values()
    self.assertEqual(decision.outputs, (Split(3, (3, 2)),))

  @parameterized.named_parameters(*_WAYS)
  def test_by_input_channels(self, attributes):
    sunk = sinking.check(
      self,
      lambda x, w: _conv2d(x, w, **attributes),
      {"x": _floats(2, 6, 6, 4), "w": _floats(3, 3, 4, 5)},
      {"x": Split(3, (3, 1)), "w": Split(2, (3, 1))},
      unknown=_UNKNOWN,
      atol=3e-6,
    )
    (decision,) = sunk.inferred.decisions.values()
    self.assertEqual(decision.outputs, (Joined(),))

  @parameterized.named_parameters(*_WAYS)
  def test_by_images(self, attributes):
    split = Split(0, (1, 3))
    sunk = sinking.check(
      self,
      lambda x, w: _conv2d(x, w, **attributes),
      {"x": _floats(4, 6, 6, 4), "w": _floats(3, 3, 4, 5)},
      {"x": split},
      atol=3e-6,
    )
    (decision,) = sunk.inferred.decisions.values()
    self.assertEqual(decision, PerPart((split, Whole()), (split,)))

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
      {"w": Split(3, (3, 2)), "u": Split(2, (3, 2))},
      unknown=_UNKNOWN,
      atol=3e-6,
    )
    outputs = [d.outputs for d in sunk.inferred.decisions.values()]
    self.assertEqual(
      outputs, [(Split(3, (3, 2)),), (Split(3, (3, 2)),), (Joined(),)]
    )

  def test_whole_images_are_sliced_if_their_sum_is_small(self):
    sinking.check(
      self,
      lambda x, w: _conv2d(x, w, padding="VALID"),
      {"x": _floats(2, 3, 3, 5), "w": _floats(3, 3, 5, 2)},
      {"w": Split(2, (3, 2))},
      atol=3e-6,
    )
    shapes = [None, 30, 30, 5], [3, 3, 5, 2]
    self.assertIsNone(_decide(_conv2d, shapes, None, Split(2, (3, 2))))

  def test_images_that_are_split_are_gathered_for_output_channels(self):
    sinking.check(
      self,
      _conv2d,
      {"x": _floats(2, 4, 4, 5), "w": _floats(3, 3, 5, 4)},
      {"x": Split(3, (4, 1)), "w": Split(3, (1, 3))},
      gathers=None,
    )

  def test_groups_of_channels(self):
    """Parts have whole groups: their filters, and their channels of images.

    TensorFlow has no gradient of groups on CPUs.
    """
    build = lambda x, w: tf.stop_gradient(_conv2d(x, w))  # noqa: E731
    feeds = {"x": _floats(2, 4, 4, 6), "w": _floats(3, 3, 2, 9)}
    sunk = sinking.check(self, build, feeds, {"w": Split(3, (6, 3))})
    decision = next(iter(sunk.inferred.decisions.values()))
    self.assertEqual(decision.operands, (Split(3, (4, 2)), Split(3, (6, 3))))
    sunk = sinking.check(self, build, feeds, {"x": Split(3, (2, 4))})
    decision = next(iter(sunk.inferred.decisions.values()))
    self.assertEqual(decision.outputs, (Split(3, (3, 6)),))

  @parameterized.parameters(
    (None, Split(3, (5, 4))), (None, Split(2, (1, 1))), (Split(3, (3, 3)), None)
  )
  def test_groups_that_would_be_cut_stay_whole(self, images, filters):
    shapes = [None, 4, 4, 6], [3, 3, 2, 9]
    self.assertIsNone(_decide(_conv2d, shapes, images, filters))

  @parameterized.parameters(
    (Split(0, (0, 4)), None),
    (Split(1, (2, 2)), None),
    (None, Split(0, (2, 1))),
    (None, Split(1, (2, 1))),
  )
  def test_empty_parts_and_space_stay_whole(self, images, filters):
    shapes = [4, 4, 4, 6], [3, 3, 6, 9]
    self.assertIsNone(_decide(_conv2d, shapes, images, filters))

  def test_an_unknown_number_of_channels_may_be_groups(self):
    shapes = [None, 4, 4, None], [3, 3, 2, 6]
    self.assertIsNone(_decide(_conv2d, shapes, None, Split(3, (3, 3))))

  @parameterized.parameters((Split(3, (4, 5)),), (Split(2, (2, 4)),))
  def test_channels_first(self, filters):
    build = lambda x, w: _conv2d(x, w, data_format="NCHW")  # noqa: E731
    shapes = [None, 6, 8, 8], [3, 3, 6, 9]
    images = None if filters.axis == 3 else filters.at(1)
    decision = _decide(build, shapes, images, filters)
    if filters.axis == 3:
      expected = PerPart((Whole(), filters), (filters.at(1),))
    else:
      expected = PerPart((images, filters), (Joined(),))
    self.assertEqual(decision, expected)

  @parameterized.parameters((Split(4, (3, 2)),), (Split(3, (1, 2)),))
  def test_of_volumes(self, filters):
    images = {"x": Split(4, (1, 2))} if filters.axis == 3 else {}
    sinking.check(
      self,
      _conv3d,
      {"x": _floats(2, 4, 3, 4, 3), "w": _floats(2, 2, 3, 3, 5)},
      {"w": filters} | images,
      unknown=_UNKNOWN,
      atol=3e-6,
    )

  def test_public_functions(self):
    """Layers have more ops: expanded dimensions, biases, activations."""

    def build(x, w, b):
      y = tf.nn.conv1d(x, w, 1, "SAME")
      return tf.nn.relu(tf.nn.bias_add(y, b))

    sinking.check(
      self,
      build,
      {"x": _floats(2, 6, 3), "w": _floats(3, 3, 5), "b": _floats(5)},
      {"w": Split(2, (3, 2)), "b": Split(0, (3, 2))},
      unknown=_UNKNOWN,
    )


class TransposedTest(parameterized.TestCase):
  @parameterized.product(
    by=["out", "in"], strides=[1, 2], shape=["whole", "space"]
  )
  def test_images(self, by, strides, shape):
    """Filters have output channels first: [height, width, out, in]."""
    images, filters = _floats(2, 4, 4, 3), _floats(3, 3, 5, 3)
    size = 4 * strides

    def build(x, w):
      space = [size, size]
      whole = tf.stack([tf.shape(x)[0], *space, 5])
      return tf.raw_ops.Conv2DBackpropInput(
        input_sizes=whole if shape == "whole" else space,
        filter=w,
        out_backprop=x,
        strides=[1, strides, strides, 1],
        padding="SAME",
      )

    splits = {"w": Split(2, (3, 2))}
    if by == "in":
      splits = {"x": Split(3, (1, 2)), "w": Split(3, (1, 2))}
    unknown = _UNKNOWN if shape == "whole" else {}
    sunk = sinking.check(
      self,
      build,
      {"x": images, "w": filters},
      splits,
      unknown=unknown,
      atol=3e-6,
    )
    decision = list(sunk.inferred.decisions.values())[-1]
    expected = splits["w"].at(3) if by == "out" else Joined()
    self.assertEqual(decision.outputs, (expected,))

  @parameterized.parameters((Split(3, (3, 2)),), (Split(4, (1, 2)),))
  def test_volumes(self, filters):
    images = {"x": filters} if filters.axis == 4 else {}
    sinking.check(
      self,
      lambda x, w: tf.nn.conv3d_transpose(x, w, [2, 4, 4, 6, 5], [2, 2, 2]),
      {"x": _floats(2, 2, 2, 3, 3), "w": _floats(2, 3, 2, 5, 3)},
      {"w": filters} | images,
      atol=3e-6,
    )

  def test_channels_first(self):
    build = lambda x, w: tf.nn.conv2d_transpose(  # noqa: E731
      x, w, [2, 5, 8, 8], 2, data_format="NCHW"
    )
    with tf.Graph().as_default():
      op = build(_v1.placeholder("float", [2, 3, 4, 4]), tf.ones([3, 3, 5, 3]))
      rule = table.TABLE.rules["Conv2DBackpropInput"]
      decision = rule(op.op, [None, Split(2, (4, 1)), None])
    self.assertEqual(
      decision,
      PerPart(
        (Resized(1, (4, 1)), Split(2, (4, 1)), Whole()), (Split(1, (4, 1)),)
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
        self.assertIsNone(rule(op, [None, Split(2, (4, 1)), None]))


class DepthwiseTest(parameterized.TestCase):
  @parameterized.named_parameters(
    ("same", {}),
    (
      "explicit",
      {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 1, 0, 3, 0, 0]},
    ),
  )
  def test_by_channels(self, attributes):
    feeds = {"x": _floats(2, 6, 6, 5), "w": _floats(3, 3, 5, 2)}
    images, filters = Split(3, (3, 2)), Split(2, (3, 2))
    for splits in (
      {"x": images},
      {"w": filters},
      {"x": images, "w": filters},
      {"x": Split(3, (1, 4)), "w": filters},
    ):
      sunk = sinking.check(
        self,
        lambda x, w: _depthwise(x, w, **attributes),
        feeds,
        splits,
        unknown=_UNKNOWN,
        gathers=None,
      )
      (decision,) = sunk.inferred.decisions.values()
      self.assertEqual(sum(decision.outputs[0].sizes), 10)

  @parameterized.parameters(
    (None, Split(3, (1, 1))), (Split(1, (2, 2)), None), (None, Split(0, (2, 1)))
  )
  def test_the_rest_stays_whole(self, images, filters):
    shapes = [4, 4, 4, 6], [3, 3, 6, 2]
    self.assertIsNone(_decide(_depthwise, shapes, images, filters))

  def test_channels_first(self):
    build = lambda x, w: _depthwise(x, w, data_format="NCHW")  # noqa: E731
    shapes = [None, 6, 8, 8], [3, 3, 6, 2]
    self.assertEqual(
      _decide(build, shapes, Split(1, (4, 2)), None),
      PerPart((Split(1, (4, 2)), Split(2, (4, 2))), (Split(1, (8, 4)),)),
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
      {"x": Split(3, (3, 2)), "p": Split(2, (6, 4))},
      unknown=_UNKNOWN,
      atol=3e-6,
    )

  @parameterized.parameters(("x", Split(3, (4, 6))), ("w", Split(2, (2, 3))))
  def test_transposed(self, name, split):
    def build(x, w):
      return tf.raw_ops.DepthwiseConv2dNativeBackpropInput(
        input_sizes=tf.stack([tf.shape(x)[0], 6, 6, 5]),
        filter=w,
        out_backprop=x,
        strides=[1, 1, 1, 1],
        padding="SAME",
      )

    sinking.check(
      self,
      build,
      {"x": _floats(2, 6, 6, 10), "w": _floats(3, 3, 5, 2)},
      {name: split},
      unknown=_UNKNOWN,
      gathers=None,
    )


if __name__ == "__main__":
  absltest.main()
