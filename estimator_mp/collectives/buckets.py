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
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_mp.graph import gradient as gradient_lib
from estimator_mp.graph.gradient import Reduce

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Bucket:
  """What is summed over replicas at once.

  Attributes:
    gradients: The indices of the gradients, in the order of the backward pass.
    dtype: The dtype of all of them.
    start: The first element of a piece of the only gradient, flattened; None
      if the gradients are whole.
    length: The number of elements of the piece; None if they are whole.
  """

  gradients: tuple[int, ...]
  dtype: tf.DType
  start: int | None = None
  length: int | None = None


def plan_buckets(
  sizes: Sequence[int | None],
  dtypes: Sequence[tf.DType],
  bucket_bytes: int,
  order: Sequence[int] | None = None,
  chunk_bytes: int | None = None,
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
      makes them. None: they are given in this order.
    chunk_bytes: A gradient of more bytes is cut in pieces of at most as many,
      which differ by one element at most; None cuts none. At least
      `bucket_bytes`.

  Returns:
    The buckets in the order in which they are complete, that is, in which the
    backward pass makes their last gradients. Each gradient is in one of them,
    or all its pieces are, one after the other.

  Raises:
    ValueError: If the arguments have different lengths, `order` is no order
      of the gradients, or a number of bytes is out of its range.
  """
  order = range(len(sizes)) if order is None else order
  _check_plan(sizes, dtypes, bucket_bytes, order, chunk_bytes)
  # For each bucket also the place of its last gradient in the order.
  complete: list[tuple[int, Bucket]] = []
  filling: dict[tf.DType, list[int]] = {}
  free: dict[tf.DType, int] = {}
  places = {index: place for place, index in enumerate(order)}

  def close(dtype: tf.DType) -> None:
    indices = filling.pop(dtype)
    complete.append((places[indices[-1]], Bucket(tuple(indices), dtype)))

  for index in order:
    dtype = tf.dtypes.as_dtype(dtypes[index])
    elements = sizes[index]
    if elements is None or elements * dtype.size >= bucket_bytes:
      complete += [
        (places[index], bucket)
        for bucket in _alone(index, elements, dtype, chunk_bytes)
      ]
      continue
    if dtype in filling and elements * dtype.size > free[dtype]:
      close(dtype)
    if dtype not in filling:
      filling[dtype] = []
      free[dtype] = bucket_bytes
    filling[dtype].append(index)
    free[dtype] -= elements * dtype.size
  for dtype in [*filling]:
    close(dtype)
  return [bucket for _, bucket in sorted(complete, key=lambda pair: pair[0])]


def reduce_in_buckets(
  per_replica: Sequence[Sequence[tf.Tensor]],
  devices: Sequence[str],
  reduces: Mapping[Bucket, Reduce],
) -> list[list[tf.Tensor]]:
  """Sums the gradients of replicas, several at a time.

  The gradients of a bucket are flattened and joined to one vector on each
  device, the vectors are summed, and the sum is cut and shaped back. What a
  bucket waits for is its own gradients. A bucket of one whole gradient is
  summed as it is.

  Args:
    per_replica: For every replica its gradients, of the same variables in the
      same order; all on the replica's device. Dense tensors only.
    devices: The device of each replica.
    reduces: What `plan_buckets` returned, in that order, and for each bucket
      what sums n tensors, one on each of n devices: gets the tensors and the
      devices, and returns the sums, each on its device. It is called once per
      bucket, in the order in which they are complete, so that it may chain
      collectives that need one order on all devices.

  Returns:
    For every replica the sums, in the order, shapes and dtypes of its
    gradients, on its device.

  Raises:
    ValueError: If there is no replica or not one device for each, replicas
      have different numbers of gradients, or gradients of one variable differ
      in shape or dtype or are sparse.
  """
  _check_replicas(per_replica, devices)
  columns = [[*parts] for parts in zip(*per_replica, strict=True)]
  shapes = [
    gradient_lib.common_shape(index, parts)
    for index, parts in enumerate(columns)
  ]
  # For each gradient the summed pieces of every replica, nearly always one.
  pieces: list[list[list[tf.Tensor]]] = [[] for _ in columns]
  with tf.compat.v1.name_scope("reduce_in_buckets"):
    for bucket, reduce in reduces.items():
      sums = reduce(
        [
          _on_device(device, _packed, bucket, gradients)
          for gradients, device in zip(per_replica, devices, strict=True)
        ],
        devices,
      )
      unpacked = [
        _on_device(device, _unpacked, bucket, total, shapes)
        for total, device in zip(sums, devices, strict=True)
      ]
      for number, index in enumerate(bucket.gradients):
        pieces[index].append([parts[number] for parts in unpacked])
    return [
      [
        _on_device(device, _joined, [parts[replica] for parts in found], shape)
        for found, shape in zip(pieces, shapes, strict=True)
      ]
      for replica, device in enumerate(devices)
    ]


def _check_plan(
  sizes: Sequence[int | None],
  dtypes: Sequence[tf.DType],
  bucket_bytes: int,
  order: Sequence[int],
  chunk_bytes: int | None,
) -> None:
  """Raises if buckets cannot be planned."""
  if len(dtypes) != len(sizes):
    raise ValueError(
      f"{len(sizes)} sizes but {len(dtypes)} dtypes were given; give one of "
      "each for every gradient"
    )
  if bucket_bytes < 0:
    raise ValueError(
      f"bucket_bytes={bucket_bytes} is negative; use the bytes of a bucket, "
      "such as 4194304, or 0 to fuse no gradients"
    )
  if sorted(order) != [*range(len(sizes))]:
    raise ValueError(
      f"order={[*order]} does not name each of {len(sizes)} gradients once; "
      f"give the numbers 0 to {len(sizes) - 1} in some order"
      if sizes
      else f"order={[*order]} names gradients, but there are none; leave it out"
    )
  if chunk_bytes is None:
    return
  least = max([bucket_bytes, 1, *(tf.dtypes.as_dtype(d).size for d in dtypes)])
  if chunk_bytes < least:
    raise ValueError(
      f"chunk_bytes={chunk_bytes} is less than a bucket or an element of a "
      f"gradient; use at least {least}, or None to cut no gradient"
    )


def _check_replicas(
  per_replica: Sequence[Sequence[tf.Tensor]], devices: Sequence[str]
) -> None:
  """Raises if gradients are not those of one replica on each device."""
  counts = [len(gradients) for gradients in per_replica]
  if not counts or len(counts) != len(devices):
    raise ValueError(
      f"per_replica has the gradients of {len(counts)} replicas for "
      f"{len(devices)} devices ({', '.join(devices)}); give one list for each "
      "device"
    )
  if len(set(counts)) > 1:
    raise ValueError(
      f"per_replica has {counts} gradients per replica; every replica needs "
      "one for each variable"
    )
  for replica, gradients in enumerate(per_replica):
    for index, gradient in enumerate(gradients):
      if not isinstance(gradient, tf.Tensor):
        raise ValueError(
          f"gradient {index} of replica {replica} is of type "
          f"{type(gradient).__name__}; buckets hold dense tensors: sum sparse "
          "gradients by sparse.sum_rows, and leave None out"
        )


def _alone(
  index: int, elements: int | None, dtype: tf.DType, chunk_bytes: int | None
) -> list[Bucket]:
  """Returns the bucket of one gradient, or the buckets of its pieces."""
  if elements is None or chunk_bytes is None:
    return [Bucket((index,), dtype)]
  # Rounded up: as few pieces as there can be.
  count = -(-elements // (chunk_bytes // dtype.size))
  if count <= 1:
    return [Bucket((index,), dtype)]
  bounds = [elements * piece // count for piece in range(count + 1)]
  return [
    Bucket((index,), dtype, start, end - start)
    for start, end in itertools.pairwise(bounds)
  ]


def _on_device(
  device: str, function: Callable[..., tf.Tensor], *arguments: Any
) -> tf.Tensor:
  """Returns what a function makes on a device, whatever blocks are around."""
  with tf.compat.v1.device(None), tf.compat.v1.device(device):
    return function(*arguments)


def _packed(bucket: Bucket, gradients: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns the tensor of one replica that stands for a bucket."""
  first = gradients[bucket.gradients[0]]
  if bucket.start is not None:
    return tf.slice(tf.reshape(first, [-1]), [bucket.start], [bucket.length])
  if len(bucket.gradients) == 1:
    return first
  return tf.concat(
    [tf.reshape(gradients[index], [-1]) for index in bucket.gradients], axis=0
  )


def _unpacked(
  bucket: Bucket, total: tf.Tensor, shapes: Sequence[tf.TensorShape]
) -> list[tf.Tensor]:
  """Returns the sums of a bucket's gradients, or of its piece."""
  if len(bucket.gradients) == 1:
    return [total]
  shapes = [shapes[index] for index in bucket.gradients]
  parts = tf.split(total, [shape.num_elements() for shape in shapes])
  return [
    tf.reshape(part, shape.as_list())
    for part, shape in zip(parts, shapes, strict=True)
  ]


def _joined(pieces: Sequence[tf.Tensor], shape: tf.TensorShape) -> tf.Tensor:
  """Returns the sum of a gradient from the sums of its pieces."""
  if len(pieces) > 1:
    return tf.reshape(tf.concat(pieces, axis=0), shape.as_list())
  pieces[0].set_shape(shape)
  return pieces[0]
