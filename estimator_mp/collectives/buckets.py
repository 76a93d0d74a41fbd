"""Buckets: gradients that are summed over replicas together.

One all-reduce of many small gradients costs less than one of each, because
every transfer has a fixed cost. One all-reduce of all gradients, on the other
hand, cannot begin before the backward pass has ended. Buckets lie between: a
bucket is summed as soon as its own gradients are there, while the backward
pass goes on.

    backward pass    g5   g4   g3   g2   g1   g0
    buckets               [g5 g4]   [g3 g2]   [g1 g0]
    all-reduce             ======    ======    ======

Li et al. (2020, arXiv:2006.15704) measure buckets in PyTorch, Sergeev and Del
Balso (2018, arXiv:1802.05799) call them tensor fusion.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph import placed_ops
from estimator_mp.graph.gradient import Reduce

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Bucket:
  """Gradients that are summed over replicas at once.

  Attributes:
    gradients: The indices of the gradients, in the order of the backward pass.
    dtype: The dtype of all of them.
  """

  gradients: tuple[int, ...]
  dtype: tf.DType


def plan_buckets(
  sizes: Sequence[int | None],
  dtypes: Sequence[tf.DType],
  bucket_bytes: int,
  order: Sequence[int],
) -> list[Bucket]:
  """Says which gradients are summed together.

  A gradient goes to the open bucket of its dtype; if it does not fit there,
  the bucket is closed and the next one opened. A gradient of unknown size, or
  of `bucket_bytes` or more, gets a bucket of its own, and leaves the open
  bucket open: in most models large weights and small biases alternate.

  Args:
    sizes: The number of elements of each gradient; None if it is unknown.
    dtypes: The dtype of each gradient.
    bucket_bytes: The most bytes of gradients that are fused. With 0 each
      gradient is on its own.
    order: The indices of the gradients in the order in which the backward pass
      makes them.

  Returns:
    The buckets in the order in which they are complete, that is, in which the
    backward pass makes their last gradients. Each gradient is in one of them.
  """
  buckets: list[Bucket] = []
  fused: list[tuple[tf.DType, list[int]]] = []
  filling: dict[tf.DType, list[int]] = {}
  free: dict[tf.DType, int] = {}
  for index in order:
    dtype, elements = dtypes[index], sizes[index]
    if elements is None or elements * dtype.size >= bucket_bytes:
      buckets.append(Bucket((index,), dtype))
      continue
    if elements * dtype.size > free.get(dtype, -1):
      filling[dtype] = []
      free[dtype] = bucket_bytes
      fused.append((dtype, filling[dtype]))
    filling[dtype].append(index)
    free[dtype] -= elements * dtype.size
  buckets += [Bucket(tuple(indices), dtype) for dtype, indices in fused]
  places = {index: place for place, index in enumerate(order)}
  return sorted(buckets, key=lambda bucket: places[bucket.gradients[-1]])


def reduce_in_buckets(
  parts: Sequence[Sequence[tf.Tensor]],
  devices: Sequence[str],
  reduces: Mapping[Bucket, Reduce],
) -> dict[int, list[tf.Tensor]]:
  """Sums the gradients of replicas, several at a time.

  The gradients of a bucket are flattened and joined to one vector on each
  device, the vectors are summed, and the sum is cut and shaped back. A bucket
  waits for its own gradients only. A bucket of one gradient is summed as it is.

  Args:
    parts: For every gradient that of each replica, on the replica's device.
      Dense tensors only.
    devices: The device of each replica.
    reduces: The result of `plan_buckets`, in that order, and for each bucket
      a function that sums n tensors, one on each of n devices: it gets these
      and the devices, and returns the sums, each there. It is called once per
      bucket, in the order in which they are complete, so that it may chain
      collectives that need one order on all devices.

  Returns:
    For every gradient of a bucket the sums, of its shape and dtype, one on the
    device of each replica.
  """
  indices = sorted({index for bucket in reduces for index in bucket.gradients})
  shapes = {
    index: gradient_lib.common_shape(index, parts[index]) for index in indices
  }
  totals: dict[int, list[tf.Tensor]] = {index: [] for index in indices}
  per_replica = [*zip(*parts, strict=True)]
  with tf.compat.v1.name_scope("reduce_in_buckets"):
    for bucket, reduce in reduces.items():
      sums = reduce(
        placed_ops.on_each(
          devices, functools.partial(_packed, bucket), per_replica
        ),
        devices,
      )
      unpacked = placed_ops.on_each(
        devices, functools.partial(_unpacked, bucket, shapes), sums
      )
      for number, index in enumerate(bucket.gradients):
        totals[index] = [x[number] for x in unpacked]
  return totals


def _packed(bucket: Bucket, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns the tensor of one replica that stands for a bucket."""
  if len(bucket.gradients) == 1:
    return gradients[bucket.gradients[0]]
  return tf.concat(
    [tf.reshape(gradients[index], [-1]) for index in bucket.gradients], axis=0
  )


def _unpacked(
  bucket: Bucket, shapes: Mapping[int, tf.TensorShape], total: tf.Tensor
) -> list[tf.Tensor]:
  """Returns the sums of a bucket's gradients."""
  of_bucket = [shapes[index] for index in bucket.gradients]
  if len(of_bucket) == 1:
    total.set_shape(of_bucket[0])
    return [total]
  parts = tf.split(total, [shape.num_elements() for shape in of_bucket])
  return [
    tf.reshape(part, shape.as_list())
    for part, shape in zip(parts, of_bucket, strict=True)
  ]
