"""Gradient sums: how replicas sum the gradients of one request, as data.

    gradients of a request      g0 dense   g1 dense   g2 rows   g3 dense, large
    what is summed at once      [g1 g0]               [g2]      [g3 .. | .. g3]
    by                          copy                  to_each   ring

Decided here, from plain descriptions and the configuration: what is summed at
once, where the sum goes, by which algorithm, and what is sent. `lower` makes
the ops of it, and `observe` words it.
"""

import dataclasses
import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from estimator_mp.collectives import all_reduce, buckets
from estimator_mp.config import pipeline_options
from estimator_mp.config.algorithms import ALGORITHMS, choose_algorithm
from estimator_mp.config.replica_options import ReplicaOptions
from estimator_mp.graph import gradient as gradient_lib

import tensorflow as tf

# Besides the all-reduce algorithms: each device sends its own part to all
# others and adds what it gets, or one device gets all parts.
TO_EACH = "to_each"
TO_ONE = "to_owner"

_INDEX_BYTES = 4  # As compression sends them.


class GradientKind(enum.Enum):
  """The type of a gradient, and of its sum."""

  DENSE = enum.auto()
  ROWS = enum.auto()


@dataclasses.dataclass(frozen=True)
class GradientParts:
  """The gradient of one variable, of which each replica has a part.

  Attributes:
    variable: The name of the variable.
    devices: The device of each replica's part. The same for all if the gradient
      is a constant, which is there once.
    dtype: The dtype of the gradient.
    num_elements: The elements of the variable, where the graph knows them.
    made: When the backward pass makes it, compared with others.
    tensors: The names of the tensors of replica 0's part: one, or those of the
      rows of a sparse gradient.
    num_bytes: The bytes of these, where the graph knows them.
    is_sparse: Whether the parts are rows.
    updater: The replica that updates the variable, if one does so for all.
    has_mirrors: Whether the replicas have copies of the variable, if any have.
  """

  variable: str
  devices: tuple[str, ...]
  dtype: tf.DType
  num_elements: int | None
  made: int = 0
  tensors: tuple[str, ...] = ()
  num_bytes: int | None = None
  is_sparse: bool = False
  updater: int = 0
  has_mirrors: bool = True


@dataclasses.dataclass(frozen=True)
class GradientSum:
  """Gradients, or a piece of one, that are summed over replicas at once.

  Attributes:
    variables: The names of the variables whose gradients these are.
    bucket: Which gradients of the request they are, or which piece.
    kind: The type of the gradients, and of their sum.
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
  kind: GradientKind
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
    """Returns what people ask about, for JSON."""
    return {
      "variables": list(self.variables),
      "devices": list(self.devices),
      "num_bytes": self.num_bytes,
      "algorithm": self.algorithm,
      "sent": self.links
      and [[*link, num_bytes] for link, num_bytes in self.links.items()],
    }


def describe(
  variable: tf.Operation,
  parts: Sequence[gradient_lib.Gradient],
  made: int,
  updater: int,
  has_mirrors: bool = True,
) -> GradientParts:
  """Returns the plain description of a gradient.

  Args:
    variable: The op of the variable.
    parts: Each replica's gradient.
    made: When the backward pass makes it, compared with others.
    updater: The replica that updates the variable, if one does so for all.
    has_mirrors: Whether the replicas have copies of the variable, if any have.
  """
  first = parts[0]
  shape = gradient_lib.common_shape(0, parts)
  tensors: Sequence[tf.Tensor] = (first,)
  sizes = [shape.num_elements()]
  is_sparse = isinstance(first, tf.IndexedSlices)
  if is_sparse:
    tensors = (first.values, first.indices)
    sizes = [tensor.shape.num_elements() for tensor in tensors]
  num_bytes = None
  if None not in sizes:
    num_bytes = sum(
      size * tensor.dtype.size
      for size, tensor in zip(sizes, tensors, strict=True)
    )
  return GradientParts(
    variable.name,
    tuple(map(_device_of, parts)),
    first.dtype,
    shape.num_elements(),
    made,
    tuple(tensor.name for tensor in tensors),
    num_bytes,
    is_sparse,
    updater,
    has_mirrors,
  )


def plan_rows(
  variable: tf.Operation, parts: Sequence[tf.Tensor], receiver: int | None
) -> GradientSum:
  """Returns how the rows of a sparse gradient are joined.

  Args:
    variable: The op of the variable.
    parts: Each replica's rows.
    receiver: The replica that gets them; None if each does.
  """
  first = parts[0]
  sizes = [x.shape.num_elements() for x in parts]  # Some may have one row more.
  most = None if None in sizes else max(sizes)
  rows = GradientParts(
    variable.name,
    tuple(map(_device_of, parts)),
    first.dtype,
    most,
    0,
    (first.name,),
    None if most is None else most * first.dtype.size,
    is_sparse=True,
    updater=receiver or 0,
  )
  algorithm = TO_EACH if receiver is None else TO_ONE
  return _sum_of_one(0, rows, receiver, algorithm)


def _device_of(part: gradient_lib.Gradient) -> str:
  """Returns where a gradient is."""
  return str(getattr(part, "values", part).device)


def plan_sums(
  gradients: Sequence[GradientParts], config: ReplicaOptions
) -> tuple[GradientSum, ...]:
  """Decides how the gradients of one request are summed over replicas.

  Args:
    gradients: The gradients, of several replicas.
    config: How replicas are kept, and gradients summed.

  Returns:
    The sums. Each gradient is in one of them, or all its pieces are. Those of
    dense gradients that each replica gets come last, those of the same devices
    one after the other, in the order in which the backward pass completes them.

  Raises:
    ValueError: If options are out of their range.
  """
  is_for_each = (
    config.variables == "mirrored" and config.optimizer_state == "replicated"
  )
  found: list[GradientSum] = []
  dense: dict[tuple[str, ...], list[int]] = {}
  for index, gradient in enumerate(gradients):
    # A constant gradient is there once, in replica 0.
    is_apart = len(set(gradient.devices)) == len(gradient.devices)
    if not (is_for_each and is_apart and gradient.has_mirrors):
      found.append(_sum_of_one(index, gradient, gradient.updater, TO_ONE))
    elif gradient.is_sparse:
      found.append(_sum_of_one(index, gradient, None, TO_EACH))
    else:
      dense.setdefault(gradient.devices, []).append(index)
  for indices in dense.values():
    found += _dense_sums(indices, gradients, config)
  return tuple(found)


def _sum_of_one(
  index: int, gradient: GradientParts, receiver: int | None, algorithm: str
) -> GradientSum:
  """Returns the sum of a gradient that is sent whole, and as it is."""
  return GradientSum(
    (gradient.variable,),
    buckets.Bucket((index,), gradient.dtype),
    GradientKind.ROWS if gradient.is_sparse else GradientKind.DENSE,
    gradient.devices,
    receiver,
    algorithm,
    tensors=gradient.tensors,
  ).of_size(gradient.num_bytes)


def _dense_sums(
  indices: Sequence[int],
  gradients: Sequence[GradientParts],
  config: ReplicaOptions,
) -> Iterator[GradientSum]:
  """Yields the sums of dense gradients that have the same devices."""
  of_devices = [gradients[index] for index in indices]
  made = [gradient.made for gradient in of_devices]
  for bucket in buckets.plan_buckets(
    [gradient.num_elements for gradient in of_devices],
    [gradient.dtype for gradient in of_devices],
    config.bucket_bytes,
    sorted(range(len(made)), key=made.__getitem__),
    config.chunk_bytes,
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
  config: ReplicaOptions,
) -> GradientSum:
  """Returns the sum of a bucket of dense tensors, which each replica gets."""
  sizes = [gradient.num_elements for gradient in gradients]
  if bucket.length is not None:
    sizes = [bucket.length]
  num_bytes = None
  if None not in sizes:
    num_bytes = sum(size or 0 for size in sizes) * bucket.dtype.size
  devices = gradients[0].devices
  return GradientSum(
    tuple(gradient.variable for gradient in gradients),
    bucket,
    GradientKind.DENSE,
    devices,
    None,
    _algorithm(config, bucket.dtype, num_bytes, devices),
    config.compression,
    config.top_k_fraction,
    tuple(name for gradient in gradients for name in gradient.tensors),
  ).of_size(num_bytes)


def _algorithm(
  config: ReplicaOptions,
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
  found: GradientSum, num_bytes: int
) -> Mapping[tuple[str, str], int] | None:
  """Returns what devices send each other, in bytes.

  Args:
    found: The sum.
    num_bytes: The bytes that one replica has.
  """
  devices = found.devices
  if found.receiver is not None:
    receiver = devices[found.receiver]
    return {(x, receiver): num_bytes for x in devices if x != receiver}
  dtype = found.bucket.dtype
  count, itemsize = num_bytes // dtype.size, dtype.size
  # Only floating-point numbers are compressed.
  compression = found.compression if dtype.is_floating else "none"
  if compression in pipeline_options.HALF_PRECISIONS:
    itemsize = min(itemsize, 2)
  elif compression == "top_k":
    count = max(1, round(found.top_k_fraction * count))
    itemsize += _INDEX_BYTES
  if found.algorithm == TO_EACH:
    sent = num_bytes if found.kind is GradientKind.ROWS else count * itemsize
    return dict.fromkeys(itertools.permutations(devices, 2), sent)
  if ALGORITHMS[found.algorithm].is_sent_by_op:
    return None
  return dict(all_reduce.traffic(found.algorithm, count, itemsize, devices))
