"""Gradient sums: how replicas sum the gradients of a round, as data.

    gradients of a round        g0 dense   g1 dense   g2 rows   g3 dense, large
    buckets                     [g1 g0]               [g2]      [g3]
    by                          copy                  to_each   ring

Plain descriptions and the configuration decide here which gradients are summed
at once, where the sum goes, by which algorithm, and the bytes sent. `lower`
makes the ops of it, and `observe` words it.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from estimator_mp.collectives import all_reduce, buckets
from estimator_mp.config import sharding_options
from estimator_mp.config.algorithms import ALGORITHMS, choose_algorithm
from estimator_mp.graph import gradient as gradient_lib

import tensorflow as tf

# Besides the all-reduce algorithms: each device sends its own part to all
# others and adds the parts it gets, or one device gets all parts.
TO_EACH = "to_each"
TO_ONE = "to_owner"

_INDEX_BYTES = 4  # As compression sends them.


@dataclasses.dataclass(frozen=True)
class GradientParts:
  """The gradient of one variable, of which each replica has a part.

  Attributes:
    variable: The name of the variable.
    devices: The device of each replica's part. The same for all if the gradient
      is a constant, which is there once.
    dtype: The dtype of the gradient.
    num_elements: The elements of a part, where the graph knows them.
    tensor: The name of replica 0's part.
    receiver: The replica that gets the sum; None if each does.
  """

  variable: str
  devices: tuple[str, ...]
  dtype: tf.DType
  num_elements: int | None
  tensor: str
  receiver: int | None = None

  @property
  def num_bytes(self) -> int | None:
    """The bytes of a part, where the graph knows them."""
    if self.num_elements is None:
      return None
    return self.num_elements * int(self.dtype.size)


@dataclasses.dataclass(frozen=True)
class GradientSum:
  """Gradients that are summed over replicas at once.

  Attributes:
    variables: The names of the variables whose gradients these are.
    bucket: Which gradients of the round they are.
    devices: The device of each replica's part.
    receiver: The replica that gets the sum; None if each does.
    algorithm: One of `ALGORITHMS`, "to_each" or "to_owner".
    compression: The compression of the gradients that are sent; as
      `ShardingConfig.compression`.
    top_k_fraction: Which part of the entries is sent, if it is "top_k".
    tensors: The names of replica 0's tensors.
    num_bytes: The bytes that one replica has of them; None if the graph does
      not know.
    links: The bytes that devices send, by their names: (source, destination).
      None if TensorFlow's own ops send, or the graph does not know.
  """

  variables: tuple[str, ...]
  bucket: buckets.Bucket
  devices: tuple[str, ...]
  receiver: int | None
  algorithm: str
  compression: str = "none"
  top_k_fraction: float = 1.0
  tensors: tuple[str, ...] = ()
  num_bytes: int | None = None
  links: Mapping[tuple[str, str], int] | None = dataclasses.field(
    default=None, hash=False
  )

  def of_size(self, num_bytes: int | None) -> "GradientSum":
    """Returns the same sum, of so many bytes of each replica.

    Args:
      num_bytes: The bytes, such as those of a nominal batch; None if they are
        not known.
    """
    if num_bytes is None:
      return self
    links = _links(self, num_bytes)
    return dataclasses.replace(self, num_bytes=num_bytes, links=links)

  def to_dict(self) -> dict[str, Any]:
    """Returns the fields that people ask about, for JSON."""
    return {
      "variables": list(self.variables),
      "devices": list(self.devices),
      "num_bytes": self.num_bytes,
      "algorithm": self.algorithm,
      "sent": self.links
      and [[*link, num_bytes] for link, num_bytes in self.links.items()],
    }


def describe(
  variable: tf.Operation, parts: Sequence[tf.Tensor], receiver: int | None
) -> GradientParts:
  """Returns the plain description of a gradient.

  Args:
    variable: The op of the variable.
    parts: Each replica's gradient.
    receiver: The replica that gets the sum; None if each does.
  """
  shape = gradient_lib.common_shape(0, parts)
  return _described(variable, parts, receiver, shape.num_elements())


def plan_rows(
  variable: tf.Operation, parts: Sequence[tf.Tensor], receiver: int | None
) -> GradientSum:
  """Returns how the rows of a sparse gradient are joined.

  Args:
    variable: The op of the variable.
    parts: Each replica's rows.
    receiver: The replica that gets them; None if each does.
  """
  sizes = [x.shape.num_elements() for x in parts]  # Some may have one row more.
  most = None if None in sizes else max(sizes)
  rows = _described(variable, parts, receiver, most)
  algorithm = TO_EACH if receiver is None else TO_ONE
  return _sum_of_one(0, rows, receiver, algorithm)


def _described(
  variable: tf.Operation,
  parts: Sequence[tf.Tensor],
  receiver: int | None,
  num_elements: int | None,
) -> GradientParts:
  devices = tuple(str(part.device) for part in parts)
  first = parts[0]
  return GradientParts(
    variable.name, devices, first.dtype, num_elements, first.name, receiver
  )


def plan_sums(
  gradients: Sequence[GradientParts], config: sharding_options.ShardingOptions
) -> tuple[GradientSum, ...]:
  """Decides how the gradients of one round are summed over replicas.

  Args:
    gradients: The gradients, of several replicas, in the order in which the
      backward pass makes them.
    config: How gradients are summed.

  Returns:
    The sums. Each gradient is in one of them. Those that each replica gets come
    last, those of the same devices one after the other, in the order in which
    the backward pass completes them.

  Raises:
    ValueError: If options are out of their range.
  """
  sums: list[GradientSum] = []
  for_each: dict[tuple[str, ...], list[int]] = {}
  for index, gradient in enumerate(gradients):
    # A constant gradient is there once, in replica 0.
    is_apart = len(set(gradient.devices)) == len(gradient.devices)
    if gradient.receiver is None and is_apart:
      for_each.setdefault(gradient.devices, []).append(index)
    else:
      receiver = gradient.receiver or 0
      sums.append(_sum_of_one(index, gradient, receiver, TO_ONE))
  for indices in for_each.values():
    sums += _sums_for_each(indices, gradients, config)
  return tuple(sums)


def _sum_of_one(
  index: int, gradient: GradientParts, receiver: int | None, algorithm: str
) -> GradientSum:
  """Returns the sum of a gradient that is sent whole, and as it is."""
  return GradientSum(
    (gradient.variable,),
    buckets.Bucket((index,), gradient.dtype),
    gradient.devices,
    receiver,
    algorithm,
    tensors=(gradient.tensor,),
  ).of_size(gradient.num_bytes)


def _sums_for_each(
  indices: Sequence[int],
  gradients: Sequence[GradientParts],
  config: sharding_options.ShardingOptions,
) -> Iterator[GradientSum]:
  """Yields the sums of gradients that have the same devices."""
  of_devices = [gradients[index] for index in indices]
  for bucket in buckets.plan_buckets(
    [gradient.num_elements for gradient in of_devices],
    [gradient.dtype for gradient in of_devices],
    config.bucket_bytes,
    range(len(indices)),
  ):
    in_request = tuple(indices[number] for number in bucket.gradients)
    yield _sum_for_each(
      dataclasses.replace(bucket, gradients=in_request),
      [gradients[index] for index in in_request],
      config,
    )


def _sum_for_each(
  bucket: buckets.Bucket,
  gradients: Sequence[GradientParts],
  config: sharding_options.ShardingOptions,
) -> GradientSum:
  """Returns the sum of a bucket of dense tensors, which each replica gets."""
  sizes = [gradient.num_elements for gradient in gradients]
  num_bytes = None
  if None not in sizes:
    num_bytes = sum(size or 0 for size in sizes) * bucket.dtype.size
  devices = gradients[0].devices
  return GradientSum(
    tuple(gradient.variable for gradient in gradients),
    bucket,
    devices,
    None,
    _algorithm(config, bucket.dtype, num_bytes, devices),
    config.compression,
    config.top_k_fraction,
    tuple(gradient.tensor for gradient in gradients),
  ).of_size(num_bytes)


def _algorithm(
  config: sharding_options.ShardingOptions,
  dtype: tf.DType,
  num_bytes: int | None,
  devices: Sequence[str],
) -> str:
  """Returns how dense tensors are summed on each device."""
  if config.compression == "top_k":
    return TO_EACH
  is_plain = config.aggregation in ("auto", "copy")
  if config.compression != "none" and is_plain:
    return TO_EACH  # One device that adds would send sums that are rounded.
  if config.aggregation == "auto":
    return choose_algorithm(num_bytes, devices, dtype.name)
  return config.aggregation


def _links(
  planned: GradientSum, num_bytes: int
) -> Mapping[tuple[str, str], int] | None:
  """Returns the bytes that devices send each other.

  Args:
    planned: The sum.
    num_bytes: The bytes that one replica has.
  """
  devices = planned.devices
  if planned.receiver is not None:
    receiver = devices[planned.receiver]
    return {(x, receiver): num_bytes for x in devices if x != receiver}
  dtype = planned.bucket.dtype
  count, itemsize = num_bytes // dtype.size, dtype.size
  # Only floating-point numbers are compressed.
  compression = planned.compression if dtype.is_floating else "none"
  if compression in sharding_options.HALF_PRECISIONS:
    itemsize = min(itemsize, 2)
  elif compression == "top_k":
    count = max(1, round(planned.top_k_fraction * count))
    itemsize += _INDEX_BYTES
  if planned.algorithm == TO_EACH:
    links = itertools.permutations(devices, 2)
    return dict.fromkeys(links, count * itemsize)
  if ALGORITHMS[planned.algorithm].is_sent_by_op:
    return None
  return dict(all_reduce.traffic(planned.algorithm, count, itemsize, devices))
