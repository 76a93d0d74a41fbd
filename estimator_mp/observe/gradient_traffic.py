"""Gradient traffic: what replicas send each other to sum their gradients.

The plan says what is summed, how, and what is sent. Here it gets words, and
sizes of a nominal batch where the graph does not know.
"""

import collections
from collections.abc import Sequence
from types import MappingProxyType

from estimator_mp import amounts
from estimator_mp.placement import costs
from estimator_mp.plan import sharding_plan
from estimator_mp.plan.gradient_sums import TO_EACH, TO_ONE, GradientSum

import tensorflow as tf

_WORDS = MappingProxyType(
  {
    TO_EACH: "on each device, which gets those of all others",
    TO_ONE: "where the variables are updated",
  }
)


def sums_of_step(graph: tf.Graph) -> list[GradientSum]:
  """Returns what a training step sums over replicas.

  Args:
    graph: A graph that was sharded. Where it does not know how large a gradient
      is, the sum has the bytes of a nominal batch.
  """
  plan = sharding_plan.get_plan(graph)
  sums = [
    found
    for request in (plan.gradient_sums if plan is not None else ())
    for found in request
  ]
  if all(found.num_bytes is not None for found in sums):
    return sums
  sizes = costs.nominal_bytes(graph.get_operations())
  return [
    found.of_size(sum(sizes[name] for name in found.tensors))
    if found.num_bytes is None
    else found
    for found in sums
  ]


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
  num_bytes = sum(found.num_bytes or 0 for found in group)
  text = (
    f"{amounts.counted(count, 'gradient')}, {amounts.amount(num_bytes, 'B')}, "
    f"in {amounts.counted(len(group), 'sum')} "
    f"{_WORDS.get(algorithm, f'by {algorithm}')}"
  )
  links: collections.Counter[tuple[str, str]] = collections.Counter()
  for found in group:
    if found.links is None:
      return f"{text}; TensorFlow's own ops send"
    links.update(found.links)
  return (
    f"{text}; {amounts.amount(sum(links.values()), 'B')} sent, at most "
    f"{amounts.amount(max(links.values(), default=0), 'B')} from one device to "
    "another"
  )
