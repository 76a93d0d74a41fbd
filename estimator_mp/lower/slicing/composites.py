"""Composites: ops whose slices exchange results while they do their part.

Batch normalization over the whole batch: each slice has the moments of its own
examples, which are put together (Chan, Golub and LeVeque, 1979), and then
normalizes by those of all. Moments are sent, and no activations; on a data
axis that is called synchronized batch normalization.
"""

from collections.abc import Sequence

from estimator_mp.lower.slicing import bridges as bridges_lib
from estimator_mp.lower.slicing import slices
from estimator_mp.plan.batch_plan import BY_SLICE

import tensorflow as tf


def batch_norm(
  op: tf.Operation,
  inputs: Sequence[tf.Tensor],
  of_slice: slices.Slice,
  bridges: bridges_lib.Bridges,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Makes slice 0's part of a fused batch normalization that trains.

  Args:
    op: The op of the plain graph.
    inputs: The tensors of slice 0: its images, the scale and the offset.
    of_slice: The numbers of examples of slice 0 and of the batch, and the
      weight of slice 0's last example.
    bridges: The bridges of the graph.

  Returns:
    The images of slice 0; the mean and the variance that the op returns, of the
    whole batch.
  """
  images, scale, offset = inputs
  rank = images.shape.rank
  is_last = op.get_attr("data_format") in (b"NHWC", b"NDHWC")
  channel = rank - 1 if is_last else 1
  axes = [axis for axis in range(rank) if axis != channel]
  inner = [1 if axis in axes else -1 for axis in range(rank)]
  values = tf.cast(images, scale.dtype)
  own_mean = tf.reduce_mean(values, axes)
  squares = tf.math.squared_difference(values, tf.reshape(own_mean, inner))
  deviation = tf.reduce_sum(squares, axes)
  count = tf.cast(tf.size(values), scale.dtype) / tf.cast(
    tf.size(own_mean), scale.dtype
  )
  if of_slice.weight is not None:
    weight = tf.cast(of_slice.weight, scale.dtype)
    count, deviation = count * weight, deviation * weight
  shape = tf.TensorShape([None, 1])
  counts = bridges.join(tf.reshape(count, [1, 1]), BY_SLICE, shape)
  shape = tf.TensorShape([None, *own_mean.shape])
  means = bridges.join(own_mean[tf.newaxis], BY_SLICE, shape)
  deviations = bridges.sum(deviation)
  number = tf.reduce_sum(counts)
  mean = tf.reduce_sum(counts * means, 0) / number
  between = tf.reduce_sum(counts * tf.math.squared_difference(means, mean), 0)
  variance = (deviations + between) / number
  of_all = [
    tf.reshape(x, inner)
    for x in (bridges.read(mean), bridges.read(variance), offset, scale)
  ]
  part = tf.nn.batch_normalization(values, *of_all, op.get_attr("epsilon"))
  returned = [mean, variance * number / tf.maximum(number - 1, 1)]
  if "exponential_avg_factor" in op.node_def.attr:
    factor = op.get_attr("exponential_avg_factor")
    if factor != 1:
      returned = [
        old * (1 - factor) + new * factor
        for old, new in zip(op.inputs[3:], returned, strict=True)
      ]
  return tf.cast(part, images.dtype), returned[0], returned[1]
