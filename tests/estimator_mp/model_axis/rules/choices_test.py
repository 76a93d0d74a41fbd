"""What rules choose where they may: what is gathered, sliced and summed.

What parts make of each op, and gradients, by_parts_test compares.
"""

import functools

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

_v1 = tf.compat.v1
_rng = np.random.RandomState(8)
_WHOLE, _SUM = Replicate(), Partial()


def _floats(*shape):
  return _rng.randn(*shape).astype(np.float32)


def _conv2d(x, w, form="NHWC"):
  return tf.nn.conv2d(x, w, 1, "SAME", form)


def _normed(x, scale, offset, mean, variance, form="NHWC"):
  return tf.raw_ops.FusedBatchNormV3(
    x=x,
    scale=scale,
    offset=offset,
    mean=mean,
    variance=variance,
    data_format=form,
  ).y


def _normed_and_differentiated(x, *vectors):
  y = _normed(x, *vectors)
  _v1.gradients(y, x)
  return y


def _upwards(w, x, shape, **options):
  """Returns a transposed convolution."""
  return tf.raw_ops.Conv2DBackpropInput(
    input_sizes=shape, filter=w, out_backprop=x, padding="SAME", **options
  )


def _to_unknown_channels(w, x):
  shape = tf.stack([2, 8, 8, _v1.placeholder(tf.int32, [])])
  return _upwards(w, x, shape, strides=[1] * 4)


# Of an op: what is read and made in parts; None if nothing is.
_DECISIONS = (
  (
    "product_of_two_splits",  # The smaller one is gathered.
    tf.multiply,
    ([4, 1], [4, 5]),
    (Shard(0, (3, 1)), Shard(1, (2, 3))),
    ((_WHOLE, Shard(1, (2, 3))), (Shard(1, (2, 3)),)),
  ),
  (
    "whole_operand_if_the_result_is_small",
    tf.matmul,
    ([None, 1000], [1000, 3]),
    (Shard(1, (400, 600)), None),
    ((Shard(1, (400, 600)), Shard(0, (400, 600))), (_SUM,)),
  ),
  (
    "sum_that_costs_more_than_a_gather",
    tf.matmul,
    ([None, 10], [10, 10]),
    (Shard(1, (4, 6)), None),
    None,
  ),
  (
    "activations_are_gathered_for_a_kernel",
    tf.matmul,
    ([9000, 10], [10, 10]),
    (Shard(1, (4, 6)), Shard(1, (7, 3))),
    ((_WHOLE, Shard(1, (7, 3))), (Shard(1, (7, 3)),)),
  ),
  (
    "whole_images_if_their_sum_is_small",
    _conv2d,
    ([2, 1, 1, 5], [3, 3, 5, 2]),
    (None, Shard(2, (3, 2))),
    ((Shard(3, (3, 2)), Shard(2, (3, 2))), (_SUM,)),
  ),
  (
    "whole_images_if_their_sum_is_large",
    _conv2d,
    ([None, 30, 30, 5], [3, 3, 5, 2]),
    (None, Shard(2, (3, 2))),
    None,
  ),
  (
    "images_are_gathered_for_output_channels",
    _conv2d,
    ([2, 4, 4, 5], [3, 3, 5, 4]),
    (Shard(3, (4, 1)), Shard(3, (1, 3))),
    ((_WHOLE, Shard(3, (1, 3))), (Shard(3, (1, 3)),)),
  ),
  (
    "a_part_without_an_image",  # Some kernels of TensorFlow end the process.
    _conv2d,
    ([4, 4, 4, 6], [3, 3, 6, 9]),
    (Shard(0, (0, 4)), None),
    None,
  ),
  (
    "unknown_channels",  # There may be groups.
    _conv2d,
    ([None, 4, 4, None], [3, 3, 2, 6]),
    (None, Shard(3, (3, 3))),
    None,
  ),
  (
    "unknown_channels_of_a_result",
    _to_unknown_channels,
    ([3, 3, 5, 6], [2, 8, 8, 6]),
    (None, Shard(2, (4, 1)), None),
    None,
  ),
  (
    "batch_norm_by_examples",
    _normed,
    ([4, 8, 8, 7], *[[7]] * 4),
    (Shard(0, (2, 2)), None, None, None, None),
    None,
  ),
  (
    "batch_norm_of_vectors_alone",
    _normed,
    ([4, 8, 8, 7], *[[7]] * 4),
    (None, Shard(0, (4, 1, 2)), Shard(0, (4, 1, 2)), None, None),
    None,
  ),
  (
    "batch_norm_whose_kernel_reserves_for_its_gradient",
    _normed_and_differentiated,
    ([4, 8, 8, 7], *[[7]] * 4),
    (Shard(3, (4, 1, 2)), None, None, None, None),
    None,
  ),
  # CPUs have no kernels for channels that come first.
  (
    "channels_first_output",
    lambda x, w: _conv2d(x, w, "NCHW"),
    ([None, 6, 8, 8], [3, 3, 6, 9]),
    (None, Shard(3, (4, 5))),
    ((_WHOLE, Shard(3, (4, 5))), (Shard(1, (4, 5)),)),
  ),
  (
    "channels_first_input",
    lambda x, w: _conv2d(x, w, "NCHW"),
    ([None, 6, 8, 8], [3, 3, 6, 9]),
    (Shard(1, (2, 4)), Shard(2, (2, 4))),
    ((Shard(1, (2, 4)), Shard(2, (2, 4))), (_SUM,)),
  ),
  (
    "channels_first_transposed",
    lambda w, x: _upwards(
      w, x, [2, 5, 8, 8], strides=[1, 1, 2, 2], data_format="NCHW"
    ),
    ([3, 3, 5, 3], [2, 3, 4, 4]),
    (None, Shard(2, (4, 1)), None),
    ((Resized(1, (4, 1)), Shard(2, (4, 1)), _WHOLE), (Shard(1, (4, 1)),)),
  ),
  (
    "channels_first_depthwise",
    lambda x, w: tf.nn.depthwise_conv2d(x, w, [1] * 4, "SAME", "NCHW"),
    ([None, 6, 8, 8], [3, 3, 6, 2]),
    (Shard(1, (4, 2)), None),
    ((Shard(1, (4, 2)), Shard(2, (4, 2))), (Shard(1, (8, 4)),)),
  ),
  (
    "channels_first_pool",
    lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID", "NCHW"),
    ([None, 7, 8, 8],),
    (Shard(1, (4, 1, 2)),),
    ((Shard(1, (4, 1, 2)),), (Shard(1, (4, 1, 2)),)),
  ),
  (
    "channels_first_pool_along_the_last",
    lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID", "NCHW"),
    ([None, 7, 8, 8],),
    (Shard(3, (4, 2, 2)),),
    None,
  ),
  (
    "channels_first_batch_norm",
    functools.partial(_normed, form="NCHW"),
    ([None, 7, 8, 8], *[[7]] * 4),
    (Shard(1, (4, 1, 2)), None, None, None, None),
    (
      (Shard(1, (4, 1, 2)), *[Shard(0, (4, 1, 2))] * 4),
      (Shard(1, (4, 1, 2)), *[Shard(0, (4, 1, 2))] * 4, _WHOLE),
    ),
  ),
)


class ChoicesTest(parameterized.TestCase):
  @parameterized.named_parameters(*_DECISIONS)
  def test_decision(self, build, shapes, splits, expected):
    with tf.Graph().as_default():
      op = build(*(_v1.placeholder(tf.float32, shape) for shape in shapes)).op
      decision = table.TABLE.rules[op.type](op, splits)
    self.assertEqual(decision, expected and PerPart(*expected))

  def test_a_tuple_with_a_gradient_of_its_own_is_whole(self):
    """The function of the gradient clips that of the whole tensor."""

    @tf.custom_gradient
    def clipped(x):
      return x * 1.0, lambda dy: tf.clip_by_norm(dy, 0.1)

    sinking.check(
      self,
      lambda x: clipped(x) * 3.0,
      {"x": _floats(4, 5)},
      {"x": Shard(1, (3, 2))},
      gathers=None,
    )

  def test_layers_of_positions_of_an_unknown_number(self):
    """What dense layers make of [batch, positions, units] in the graph."""
    for unknown in ([0], [0, 1]):
      found = sinking.check(
        self,
        lambda x, up, down: tf.tensordot(
          tf.nn.relu(tf.tensordot(x, up, [[2], [0]])), down, [[2], [0]]
        ),
        {"x": _floats(2, 3, 4), "up": _floats(4, 5), "down": _floats(5, 3)},
        {"up": Shard(1, (3, 2)), "down": Shard(0, (3, 2))},
        unknown={"x": unknown},
      )
      outputs = [d.outputs[0] for d in found.inferred.decisions.values()]
      self.assertEqual(outputs.count(_SUM), 1)

  def test_one_convolution_by_output_the_next_by_input_channels(self):
    """Megatron-LM's pair: one sum, and nothing gathered."""
    found = sinking.check(
      self,
      lambda x, w, u: _conv2d(tf.nn.relu(_conv2d(x, w)), u),
      {
        "x": _floats(2, 4, 4, 3),
        "w": _floats(3, 3, 3, 5),
        "u": _floats(3, 3, 5, 2),
      },
      {"w": Shard(3, (3, 2)), "u": Shard(2, (3, 2))},
      unknown={"x": [0]},
      atol=3e-6,
    )
    outputs = [d.outputs for d in found.inferred.decisions.values()]
    self.assertEqual(outputs, [*[(Shard(3, (3, 2)),)] * 2, (_SUM,)])

  def test_a_shape_that_is_known_when_it_runs(self):
    def build(x, w):
      shape = tf.stack([tf.shape(x)[0], 8, 8, 5])
      return tf.nn.conv2d_transpose(x, w, shape, 2)

    sinking.check(
      self,
      build,
      {"x": _floats(2, 4, 4, 3), "w": _floats(3, 3, 5, 3)},
      {"w": Shard(2, (3, 2))},
      unknown={"x": [0]},
      atol=3e-6,
    )


if __name__ == "__main__":
  absltest.main()
