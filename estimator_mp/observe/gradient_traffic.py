"""Gradient traffic: what replicas send each other to sum their gradients.

The plan follows how a graph is built: `replicas` decides which gradients all
replicas get the sum of, `buckets` which of these are summed at once, and
`all_reduce` by which algorithm.
"""

import collections
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from estimator_mp import amounts
from estimator_mp.collectives import all_reduce, buckets, compression
from estimator_mp.config import sharding_config as sharding_config_lib
from estimator_mp.plan.summed_gradients import Kind, SummedGradient

# Besides the algorithms of `all_reduce`: each device sends its own part to all
# others, and the device of the variable gets the parts of the others.
TO_EACH = "to_each"
TO_OWNER = "to_owner"

_WORDS = MappingProxyType(
  {
    TO_EACH: "on each device, which gets those of all others",
    TO_OWNER: "where the variables are updated",
  }
)
_INDEX_BYTES = 4


@dataclasses.dataclass(frozen=True)
class GradientSum:
  """What is summed over replicas at once.

  Attributes:
    variables: The names of the variables whose gradients these are, or of which
      it is a piece.
    devices: The device of each replica.
    num_bytes: The bytes that one replica has of them.
    algorithm: One of `all_reduce.ALGORITHMS`, "to_each" or "to_owner".
    sent: What devices send to others, in bytes, by their names; None if
      TensorFlow's ops send inside.
  """

  variables: tuple[str, ...]
  devices: tuple[str, ...]
  num_bytes: int
  algorithm: str
  sent: Mapping[tuple[str, str], int] | None = dataclasses.field(hash=False)

  def to_dict(self) -> dict[str, Any]:
    """Returns the same for JSON."""
    sent = self.sent
    return {
      "variables": list(self.variables),
      "devices": list(self.devices),
      "num_bytes": self.num_bytes,
      "algorithm": self.algorithm,
      "sent": sent and [[*pair, size] for pair, size in sent.items()],
    }


def lines(sums: Sequence[GradientSum]) -> list[str]:
  """Returns lines for people: one for sums of the same devices, by one way.

  Args:
    sums: The sums of a training step.
  """
  groups: dict[tuple[tuple[str, ...], str], list[GradientSum]] = {}
  for found in sums:
    groups.setdefault((found.devices, found.algorithm), []).append(found)
  return [
    f"  {', '.join(devices)}: {_line(algorithm, group)}"
    for (devices, algorithm), group in groups.items()
  ]


def _line(algorithm: str, group: Sequence[GradientSum]) -> str:
  """Returns what is said of sums of the same devices, by one way."""
  count = len({name for found in group for name in found.variables})
  num_bytes = sum(found.num_bytes for found in group)
  text = (
    f"{amounts.counted(count, 'gradient')}, {amounts.amount(num_bytes, 'B')}, "
    f"in {amounts.counted(len(group), 'sum')} "
    f"{_WORDS.get(algorithm, f'by {algorithm}')}"
  )
  links: collections.Counter[tuple[str, str]] = collections.Counter()
  for found in group:
    if found.sent is None:
      return f"{text}; TensorFlow's own ops send"
    links.update(found.sent)
  return (
    f"{text}; {amounts.amount(sum(links.values()), 'B')} sent, at most "
    f"{amounts.amount(max(links.values(), default=0), 'B')} from one device to "
    "another"
  )


def plan_sums(
  gradients: Sequence[SummedGradient],
  config: sharding_config_lib.ShardingConfig,
  sizes: Mapping[str, int],
) -> list[GradientSum]:
  """Returns the sums of one request for gradients.

  Args:
    gradients: The gradients of the request.
    config: How replicas are kept, and gradients summed.
    sizes: The bytes of tensors by name, for those that the graph does not know;
      see `costs.nominal_bytes`.
  """
  found: list[GradientSum] = []
  dense: dict[tuple[str, ...], list[SummedGradient]] = {}
  is_on_each = (
    config.variables == "mirrored" and config.optimizer_state == "replicated"
  )
  for gradient in gradients:
    num_bytes = _num_bytes(gradient, sizes)
    devices = gradient.devices
    if not is_on_each or len(set(devices)) < len(devices):
      sent = {
        (device, gradient.sum_device): num_bytes
        for device in devices
        if device != gradient.sum_device
      }
      found.append(_sum_of([gradient], num_bytes, TO_OWNER, sent))
    elif gradient.kind is Kind.ROWS:
      sent = _to_each(devices, num_bytes)
      found.append(_sum_of([gradient], num_bytes, TO_EACH, sent))
    elif gradient.kind is Kind.ROWS_MADE_DENSE:
      found.append(_bucket_sum([gradient], num_bytes, True, config))
    else:
      dense.setdefault(devices, []).append(gradient)
  for of_devices in dense.values():
    found += _dense_sums(of_devices, config, sizes)
  return found


def _num_bytes(gradient: SummedGradient, sizes: Mapping[str, int]) -> int:
  """Returns the bytes of one replica's gradient."""
  if gradient.num_elements is not None:
    return gradient.num_elements * int(gradient.dtype.size)
  return sum(sizes[name] for name in gradient.tensors)


def _sum_of(
  gradients: Sequence[SummedGradient],
  num_bytes: int,
  algorithm: str,
  sent: Mapping[tuple[str, str], int] | None,
) -> GradientSum:
  names = tuple(gradient.variable for gradient in gradients)
  return GradientSum(names, gradients[0].devices, num_bytes, algorithm, sent)


def _to_each(
  devices: Sequence[str], num_bytes: int
) -> dict[tuple[str, str], int]:
  return dict.fromkeys(itertools.permutations(devices, 2), num_bytes)


def _dense_sums(
  gradients: Sequence[SummedGradient],
  config: sharding_config_lib.ShardingConfig,
  sizes: Mapping[str, int],
) -> Iterator[GradientSum]:
  """Yields the sums of dense gradients that have the same devices."""
  made = [gradient.made for gradient in gradients]
  planned = buckets.plan_buckets(
    [gradient.num_elements for gradient in gradients],
    [gradient.dtype for gradient in gradients],
    config.bucket_bytes,
    sorted(range(len(made)), key=made.__getitem__),
    config.chunk_bytes,
  )
  for bucket in planned:
    together = [gradients[index] for index in bucket.gradients]
    num_bytes = sum(_num_bytes(gradient, sizes) for gradient in together)
    if bucket.length is not None:
      num_bytes = bucket.length * bucket.dtype.size
    is_known = all(gradient.num_elements is not None for gradient in together)
    yield _bucket_sum(together, num_bytes, is_known, config)


def _bucket_sum(
  gradients: Sequence[SummedGradient],
  num_bytes: int,
  is_known: bool,
  config: sharding_config_lib.ShardingConfig,
) -> GradientSum:
  """Returns the sum of one bucket."""
  devices, dtype = gradients[0].devices, gradients[0].dtype
  num_elements = num_bytes // dtype.size
  algorithm, itemsize = config.aggregation, dtype.size
  if config.compression == "top_k" and dtype.is_floating:
    count = max(1, round(config.top_k_fraction * num_elements))
    sent = _to_each(devices, count * (itemsize + _INDEX_BYTES))
    return _sum_of(gradients, num_bytes, TO_EACH, sent)
  if config.compression in compression.MODES:
    itemsize = min(itemsize, 2)
    if algorithm in ("auto", "copy"):
      sent = _to_each(devices, num_elements * itemsize)
      return _sum_of(gradients, num_bytes, TO_EACH, sent)
  if algorithm == "auto":
    algorithm = all_reduce.choose_algorithm(
      num_bytes if is_known else None, devices, dtype
    )
  if algorithm in ("collective", "nccl"):
    return _sum_of(gradients, num_bytes, algorithm, None)
  traffic = all_reduce.traffic(algorithm, num_elements, itemsize, devices)
  return _sum_of(gradients, num_bytes, algorithm, dict(traffic))
