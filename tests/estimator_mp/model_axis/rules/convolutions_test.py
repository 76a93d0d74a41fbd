"""Tests of the rules for images: what is chosen, and what CPUs do not run.

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
_CHANNELS = Shard(3, (4, 1, 2))


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _conv2d(x, w, form="NHWC"):
  return tf.nn.conv2d(x, w, 1, "SAME", form)


def _decide(build, shapes, *splits):
  """Returns what becomes of the op that a function makes of placeholders."""
  with tf.Graph().as_default():
    op = build(*(_v1.placeholder(tf.float32, shape) for shape in shapes)).op
    return table.TABLE.rules[op.type](op, splits)


class ChoicesTest(parameterized.TestCase):
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
    filters, shape = Shard(2, (3, 2)), [3, 3, 5, 2]
    self.assertEqual(
      _decide(_conv2d, ([2, 1, 1, 5], shape), None, filters),
      PerPart((filters.at(3), filters), (Partial(),)),
    )
    self.assertIsNone(
      _decide(_conv2d, ([None, 30, 30, 5], shape), None, filters)
    )

  def test_images_that_are_split_are_gathered_for_output_channels(self):
    filters = Shard(3, (1, 3))
    self.assertEqual(
      _decide(_conv2d, ([2, 4, 4, 5], [3, 3, 5, 4]), Shard(3, (4, 1)), filters),
      PerPart((Replicate(), filters), (filters,)),
    )

  def test_a_part_without_an_image_is_not_convolved(self):
    """Some kernels of TensorFlow end the process then."""
    shapes = [4, 4, 4, 6], [3, 3, 6, 9]
    self.assertIsNone(_decide(_conv2d, shapes, Shard(0, (0, 4)), None))

  def test_public_functions(self):
    """Layers have more ops: expanded dimensions, biases, activations."""

    def build(x, w, b, d, p):
      y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv1d(x, w, 1, "SAME"), b))
      y = tf.stack([y] * 4, 1)  # Dilations are space that becomes a batch.
      return tf.nn.separable_conv2d(y, d, p, [1] * 4, "SAME", dilations=[2, 2])

    sinking.check(
      self,
      build,
      {
        "x": _floats(2, 6, 3),
        "w": _floats(3, 3, 5),
        "b": _floats(5),
        "d": _floats(3, 3, 5, 2),
        "p": _floats(1, 1, 10, 3),
      },
      {"w": Shard(2, (3, 2)), "b": Shard(0, (3, 2)), "p": Shard(2, (6, 4))},
      unknown=_UNKNOWN,
      atol=3e-6,
    )

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

  def test_an_unknown_number_of_channels_stays_whole(self):
    """There may be groups."""
    shapes = [None, 4, 4, None], [3, 3, 2, 6]
    self.assertIsNone(_decide(_conv2d, shapes, None, Shard(3, (3, 3))))

    with tf.Graph().as_default():
      channels = _v1.placeholder(tf.int32, [])
      op = tf.raw_ops.Conv2DBackpropInput(
        input_sizes=tf.stack([2, 8, 8, channels]),
        filter=tf.ones([3, 3, 5, 6]),
        out_backprop=_v1.placeholder(tf.float32, [2, 8, 8, 6]),
        strides=[1] * 4,
        padding="SAME",
      ).op
      rule = table.TABLE.rules[op.type]
      self.assertIsNone(rule(op, [None, Shard(2, (4, 1)), None]))

  def test_a_batch_s_own_norm_and_vectors_alone_are_not_split(self):
    vector = _CHANNELS.at(0)
    for splits in (
      [Shard(0, (2, 2)), None, None, None, None],
      [None, vector, vector, None, None],
    ):
      self.assertIsNone(_decide(_normed, ([4, 8, 8, 7], *[[7]] * 4), *splits))

  def test_what_the_kernel_reserved_for_its_gradient_is_not_split(self):
    def build(x, *vectors):
      y = _normed(x, *vectors)
      _v1.gradients(y, x)
      return y

    shapes = [4, 8, 8, 7], *[[7]] * 4
    self.assertIsNotNone(_decide(_normed, shapes, _CHANNELS, *[None] * 4))
    self.assertIsNone(_decide(build, shapes, _CHANNELS, *[None] * 4))


def _normed(x, scale, offset, mean, variance, form="NHWC"):
  return tf.raw_ops.FusedBatchNormV3(
    x=x,
    scale=scale,
    offset=offset,
    mean=mean,
    variance=variance,
    data_format=form,
  ).y


class ChannelsFirstTest(parameterized.TestCase):
  """CPUs have no kernels for this."""

  @parameterized.parameters((Shard(3, (4, 5)),), (Shard(2, (2, 4)),))
  def test_convolution(self, filters):
    shapes = [None, 6, 8, 8], [3, 3, 6, 9]
    images = None if filters.axis == 3 else filters.at(1)
    decision = _decide(
      lambda x, w: _conv2d(x, w, "NCHW"), shapes, images, filters
    )
    if filters.axis == 3:
      expected = PerPart((Replicate(), filters), (filters.at(1),))
    else:
      expected = PerPart((images, filters), (Partial(),))
    self.assertEqual(decision, expected)

  def test_transposed(self):
    build = lambda w, x: tf.raw_ops.Conv2DBackpropInput(  # noqa: E731
      input_sizes=[2, 5, 8, 8],
      filter=w,
      out_backprop=x,
      strides=[1, 1, 2, 2],
      padding="SAME",
      data_format="NCHW",
    )
    filters = Shard(2, (4, 1))
    self.assertEqual(
      _decide(build, ([3, 3, 5, 3], [2, 3, 4, 4]), None, filters, None),
      PerPart((Resized(1, (4, 1)), filters, Replicate()), (filters.at(1),)),
    )

  def test_depthwise(self):
    build = lambda x, w: tf.nn.depthwise_conv2d(  # noqa: E731
      x, w, [1] * 4, "SAME", "NCHW"
    )
    self.assertEqual(
      _decide(build, ([None, 6, 8, 8], [3, 3, 6, 2]), Shard(1, (4, 2)), None),
      PerPart((Shard(1, (4, 2)), Shard(2, (4, 2))), (Shard(1, (8, 4)),)),
    )

  def test_pool(self):
    build = lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID", "NCHW")  # noqa: E731
    shapes, split = ([None, 7, 8, 8],), _CHANNELS.at(1)
    self.assertEqual(_decide(build, shapes, split).outputs, (split,))
    self.assertIsNone(_decide(build, shapes, _CHANNELS))

  def test_batch_norm(self):
    build = lambda *tensors: _normed(*tensors, form="NCHW")  # noqa: E731
    shapes, split = ([None, 7, 8, 8], *[[7]] * 4), _CHANNELS.at(1)
    vectors = [split.at(0)] * 4
    self.assertEqual(
      _decide(build, shapes, split, *[None] * 4),
      PerPart((split, *vectors), (split, *vectors, Replicate())),
    )


if __name__ == "__main__":
  absltest.main()
